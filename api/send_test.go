package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"

	"pilotstatus.dev/events/template"
)

const (
	note  = `{"destinationNumber":"+5511987650123","templateId":"generic_notification","variables":{"name":"Ana","message":"CANARY-7f3a-secret https://x.example"}}`
	text  = `{"destinationNumber":"+5511987650123","text":"CANARY-7f3a-secret {{name}}"}`
	trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// payloadOf opens what the fake keyring sealed.
func payloadOf(t *testing.T, f *fixture, e events.Event) events.Payload {
	t.Helper()
	q, _ := e.Body.(*events.MessageQueued)
	plain, err := f.keyring.open(e.TenantID, q.Sealed, []byte(e.TenantID+"/"+e.ID+"/"+events.FieldPayload))
	if err != nil {
		t.Fatal(err)
	}
	var p events.Payload
	if err := json.Unmarshal(plain, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// P1: what a 202 says is what was appended, and it was appended before.
func TestSendAcceptsATemplate(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	r := f.send(liveKey, note, "traceparent", trace)
	if r.status != http.StatusAccepted {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	all := f.events()
	if len(all) != 1 {
		t.Fatalf("%d events appended", len(all))
	}
	e := all[0]
	q, _ := e.Body.(*events.MessageQueued)
	var got QueuedMessage
	if err := json.Unmarshal(r.body, &got); err != nil {
		t.Fatal(err)
	}
	want := QueuedMessage{
		ID: e.ID, CorrelationID: q.CorrelationID, Status: "QUEUED", CreatedAt: "2026-11-29T15:22:01.123Z", Origin: "Pilot",
		SourceNumber: "5511900000000", DeliverUntil: "2026-11-29T16:22:01.123Z",
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(QueuedMessage{})); diff != "" {
		t.Error(diff)
	}
	if l := r.header.Get("Location"); l != "/v1/messages/"+e.ID {
		t.Errorf("Location = %q", l)
	}

	p := events.PartitionOf("shared", 4)
	if q2, ms, ok := events.ParseMessageID(e.ID); !ok || q2 != p || ms != clock.UnixMilli() {
		t.Errorf("message id %s names partition %d at %d", e.ID, q2, ms)
	}
	hash, _ := f.hasher("acme", "recipient", []byte("5511987650123"))
	wantEnvelope := events.Envelope{
		ID: e.ID, Type: "message.queued.v1", Source: "pilot/api", Time: clock, Subject: e.ID, TenantID: "acme",
		DeliverUntil: clock.Add(time.Hour), TraceParent: trace,
	}
	if diff := cmp.Diff(wantEnvelope, e.Envelope); diff != "" {
		t.Error(diff)
	}
	lane := events.Lane{Instance: "shared", Class: events.ClassUtility, Tenant: "acme", Slot: slot(hash, 8)}
	if e.Address != events.QueuedSubject(p, lane) {
		t.Errorf("subject = %s", e.Address)
	}
	sealed := q.Sealed
	wantBody := &events.MessageQueued{
		Project: "shop", Environment: events.Live, KeyID: "key-aaaa", Category: events.Utility, TemplateID: "t-note", TemplateVersion: 1,
		Origin: "Pilot", SourceNumber: "5511900000000", CorrelationID: q.CorrelationID, RecipientHash: hash, RetentionDays: 30, Sealed: sealed,
	}
	if diff := cmp.Diff(wantBody, q); diff != "" {
		t.Error(diff)
	}
	if sealed.KeyID != events.DataKeyID(e.ID, "shop", 30, clock) {
		t.Errorf("sealed under %s", sealed.KeyID)
	}
	wantPayload := events.Payload{
		Destination: "+5511987650123", Digits: "5511987650123", LinkPreview: true,
		Content: template.Content{Body: "Hi Ana: CANARY-7f3a-secret https://x.example!", Footer: "Acme"},
	}
	if diff := cmp.Diff(wantPayload, payloadOf(t, f, e)); diff != "" {
		t.Error(diff)
	}
	if _, err := events.Standard.Encode(e); err != nil {
		t.Error(err)
	}
}

func TestSendAcceptsFreeText(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	r := f.send(ownKey, `{"destinationNumber":"5511987650123","text":"Hi {{name}}","footer":{"text":"Acme"},"header":"Hello",
		"buttons":[{"type":"quick_reply","text":"Yes"}],"urgent":true,"labels":["vip"],"category":"MARKETING",
		"deliverAt":"2026-11-30T12:00:00.5-03:00","delay":3,"whatsappNumberId":"x","markRead":true,"marketingOptions":{"aiRewriteEnabled":true}}`)
	if r.status != http.StatusAccepted {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	e := f.events()[0]
	q, _ := e.Body.(*events.MessageQueued)
	at := time.Date(2026, 11, 30, 15, 0, 0, 5e8, time.UTC)
	if !e.DeliverAt.Equal(at) || !e.DeliverUntil.Equal(at.Add(4*time.Hour)) {
		t.Errorf("window %s to %s", e.DeliverAt, e.DeliverUntil)
	}
	if q.Category != events.Marketing || !q.Urgent || q.TemplateID != "" || q.TemplateVersion != 0 || q.RetentionDays != 0 ||
		q.Origin != "acme-1" || q.Sealed.KeyID != "m-"+e.ID || !cmp.Equal(q.Labels, []string{"vip"}) {
		t.Errorf("queued = %+v", q)
	}
	if !strings.HasSuffix(e.Address, ".own.queued.marketing-urgent.acme.0") {
		t.Errorf("subject = %s", e.Address)
	}
	want := events.Payload{
		Destination: "5511987650123", Digits: "5511987650123",
		Content: template.Content{
			Header: "Hello", Body: "Hi {{name}}", Footer: "Acme",
			Buttons: []template.RenderedButton{{Type: template.QuickReply, Text: "Yes"}},
		},
	}
	if diff := cmp.Diff(want, payloadOf(t, f, e)); diff != "" {
		t.Error(diff)
	}
	if f.send(ownKey, text).status != http.StatusAccepted {
		t.Error("plain free text was refused")
	}
	if q, _ := f.events()[1].Body.(*events.MessageQueued); q.Category != events.Utility {
		t.Errorf("free text without category is %s", q.Category)
	}
}

func TestSendWindows(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	for _, c := range []struct{ fields, at, until string }{
		{`"templateId":"code","variables":{"code":"1"}`, "", "15:24:01.123"},
		{`"templateId":"T-NOTE"`, "", ""}, // ids are exact, names in any case
		{`"templateId":"CODE","variables":{"code":"1"},"deliverAt":"2020-01-01T00:00:00Z"`, "", "15:24:01.123"},
		{`"templateId":"t-code","variables":{"code":"1"},"deliverUntil":"2026-11-29T15:22:30Z"`, "", "15:22:30.000"},
		{`"templateId":"code","variables":{"code":"1"},"deliverAt":"2026-11-29T16:00:00.000Z"`, "16:00:00.000", "16:02:00.000"},
		{`"templateId":"code","variables":{"code":"1"},"deliverAt":null,"deliverUntil":"","text":"","groupId":null`, "", "15:24:01.123"},
	} {
		before := len(f.events())
		r := f.send(testKey, `{"destinationNumber":"+5511987650123",`+c.fields+`}`)
		if c.until == "" {
			wantCode(t, r, events.CodeTemplateNotFound)
			continue
		}
		if r.status != http.StatusAccepted {
			t.Errorf("%s: %d %s", c.fields, r.status, r.body)
			continue
		}
		e := f.events()[before]
		at := ""
		if !e.DeliverAt.IsZero() {
			at = e.DeliverAt.Format("15:04:05.000")
		}
		if until := e.DeliverUntil.Format("15:04:05.000"); at != c.at || until != c.until {
			t.Errorf("%s: window %q to %q", c.fields, at, until)
		}
	}
}

// A TEST key gets the newest approved version, a LIVE key the newest approved for production.
func TestSendPicksTheVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	f.send(testKey, note)
	f.send(liveKey, note)
	var got []int
	for _, e := range f.events() {
		q, _ := e.Body.(*events.MessageQueued)
		got = append(got, q.TemplateVersion)
	}
	if diff := cmp.Diff([]int{2, 1}, got); diff != "" {
		t.Error(diff)
	}
}

// The rules go in their documented order: a request that breaks all of them hears of the first; mended, of the next.
func TestSendOrderOfRules(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sealDown := errors.New("bucket down")
	seal := f.keyring.seal
	f.keyring.seal = func(tenant, id string, aad, plain []byte) (events.Sealed, error) {
		if sealDown != nil {
			return events.Sealed{}, sealDown
		}
		return seal(tenant, id, aad, plain)
	}
	f.catalog.behind = time.Minute
	f.start()
	shared, _ := f.catalog.cat.Instance("shared")
	f.catalog.cat.Apply(events.Recorded{
		Event:    events.Event{Envelope: events.Envelope{Type: events.RemovedType(events.KindInstance)}, Address: events.ControlSubject(events.KindInstance, "shared")},
		Position: events.Position{Sequence: f.catalog.cat.Sequence + 1}, Known: true,
	})
	body := `{"destinationNumber":%q,"templateId":%q,"variables":%s}`
	for i, step := range []struct {
		mend func()
		key  string
		body string
		want events.Code
	}{
		{nil, expiredKey, `{`, events.CodeUnauthorized},
		{nil, pausedKey, `{`, CodeTenantSuspended},
		{nil, rawProject, `{`, events.CodeUnavailable},
		{func() { f.catalog.behind = 0 }, rawProject, `{`, CodeProjectNotApproved},
		{nil, liveKey, `{`, events.CodeValidation},
		{nil, liveKey, fmt.Sprintf(body, "120@g.us", "none", "{}"), CodeGroupNotSupported},
		{nil, liveKey, fmt.Sprintf(body, "0001", "none", "{}"), events.CodeValidation},
		{nil, liveKey, fmt.Sprintf(body, canaryNumber, "none", "{}"), events.CodeTemplateNotFound},
		{nil, liveKey, fmt.Sprintf(body, canaryNumber, "new", "{}"), events.CodeNotForProduction},
		{nil, liveKey, fmt.Sprintf(body, canaryNumber, "sale", "{}"), events.CodeMissingVariables},
		{nil, liveKey, fmt.Sprintf(body, canaryNumber, "sale", `{"what":"x"}`), events.CodeNoInstance},
		{func() { define(f.catalog.cat, events.KindInstance, "shared", shared) }, liveKey, fmt.Sprintf(body, canaryNumber, "sale", `{"what":"x"}`), events.CodeMarketingOwnNumber},
		{nil, ownKey, fmt.Sprintf(body, canaryNumber, "sale", `{"what":"x"}`), events.CodeUnavailable},
		{func() { sealDown = nil }, ownKey, fmt.Sprintf(body, canaryNumber, "sale", `{"what":"x"}`), ""},
	} {
		if step.mend != nil {
			step.mend()
		}
		r := f.send(step.key, step.body)
		if step.want == "" {
			if r.status != http.StatusAccepted {
				t.Errorf("step %d: %d %s", i, r.status, r.body)
			}
			continue
		}
		if got := r.member(t, "code"); got != string(step.want) {
			t.Errorf("step %d: %v, want %s: %s", i, got, step.want, r.body)
		}
		if len(f.events()) != 0 {
			t.Fatalf("step %d: refused and appended", i)
		}
	}
}

// After an append without a result nothing is claimed: 503, and never a 202.
func TestSendAppendUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want events.Code
	}{
		"coded":       {events.Errorf(events.CodeUnavailable, "no leader"), events.CodeUnavailable},
		"plain":       {errors.New("timeout"), events.CodeUnavailable},
		"deadline":    {context.DeadlineExceeded, events.CodeUnavailable},
		"malformed":   {events.Errorf(events.CodeMalformed, "x"), events.CodeInternal},
		"bad subject": {events.Errorf(events.CodeInvalidSubject, "x"), events.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.log.append = func(ctx context.Context, _ events.Event) (uint64, error) {
				if _, ok := ctx.Deadline(); !ok {
					t.Error("append without a deadline")
				}
				return 0, c.err
			}
			wantCode(t, f.start().send(liveKey, note), c.want)
		})
	}
}

// The append ends with its limit, so that the customer's client hears of it before it gives up.
func TestSendAppendTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.AcceptTimeout = 20 * time.Millisecond
	f.log.append = func(ctx context.Context, _ events.Event) (uint64, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	wantCode(t, f.start().send(liveKey, note), events.CodeUnavailable)
}

func TestSendPortsDown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var down error
	f.hasher = func(string, string, []byte) (string, error) { return "hash", down }
	f.start()
	down = errors.New("down")
	wantCode(t, f.send(liveKey, note), events.CodeUnavailable)
	down = events.Errorf(events.CodeInternal, "no master key")
	wantCode(t, f.send(liveKey, note), events.CodeInternal)
	wantCode(t, f.send(liveKey, `{"destinationNumber":"+5511987650123","templateId":"broken"}`), events.CodeInternal)
}

// A partition count that is not known yet must not decide where a message lives.
func TestSendWithoutDeployment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.catalog.cat.Deployment = events.Deployment{}
	wantCode(t, f.start().send(liveKey, note), events.CodeNoInstance)
}

// P12: a key bound to a number of another tenant has no number.
func TestSendFromAnothersNumber(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	wantCode(t, f.send(strayKey, `{"destinationNumber":"+5511987650123","text":"hi"}`), events.CodeNoInstance)
	wantCode(t, f.send(otherKey, note), events.CodeTemplateNotFound)
	define(f.catalog.cat, events.KindTemplate, "t-stray", events.Template{
		ID: "t-stray", TenantID: "rival", ProjectID: "shop", Name: "stray", Category: events.Utility,
		Versions: []events.TemplateVersion{version(1, true, `"Stray."`)},
	})
	wantCode(t, f.send(liveKey, `{"destinationNumber":"+5511987650123","templateId":"stray"}`), events.CodeTemplateNotFound)
	if len(f.events()) != 0 {
		t.Error("appended")
	}
}

func TestSlot(t *testing.T) {
	t.Parallel()
	seen := map[uint8]bool{}
	for i := range 200 {
		h := fmt.Sprintf("%064x", i)
		s := slot(h, 8)
		if s > 7 || s != slot(h, 8) {
			t.Fatalf("slot(%s) = %d", h, s)
		}
		seen[s] = true
	}
	if len(seen) != 8 {
		t.Errorf("only slots %v are used", seen)
	}
	if slot("x", 0) != 0 || slot("x", 1) != 0 {
		t.Error("one slot only")
	}
	_ = slot("x", 1<<20) // more than a subject can name must not panic
}
