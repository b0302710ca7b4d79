package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/retry"
)

// fakeOriginals knows accepted messages, and what was appended.
type fakeOriginals struct{ f *fixture }

func (o fakeOriginals) Place(_ context.Context, id string) (events.Position, error) {
	rec, ok := o.f.originals[id]
	if !ok {
		return events.Position{}, miss()
	}
	return rec.Position, o.f.placeErr
}

func (o fakeOriginals) Event(_ context.Context, at events.Position) (events.Recorded, error) {
	for _, rec := range o.f.originals {
		if rec.Position == at {
			return rec, nil
		}
	}
	o.f.fence.mu.Lock()
	defer o.f.fence.mu.Unlock()
	for _, group := range o.f.fence.groups {
		for _, rec := range group {
			if rec.Position == at {
				return rec, nil
			}
		}
	}
	return events.Recorded{}, miss()
}

const retriedInstance = "own"

// levered is an accepted message of acme, whose instance an operator works on.
type levered struct {
	*adminFixture
	id string
	n  uint64 // of keys
}

func newLevered(t *testing.T) *levered {
	t.Helper()
	l := &levered{adminFixture: newAdmin(t), id: idAt(clock.Add(-10*time.Minute), 2)}
	plain, err := json.Marshal(events.Payload{Destination: canaryNumber, Digits: canaryNumber[1:]})
	if err != nil {
		t.Fatal(err)
	}
	const key = "d-shop-2026-11-29"
	l.originals = map[string]events.Recorded{l.id: {
		Event: events.Event{
			Envelope: events.Envelope{
				ID: l.id, Type: events.TypeMessageQueued, Subject: l.id, TenantID: "acme", Time: clock.Add(-10 * time.Minute), DeliverUntil: clock.Add(20 * time.Minute),
			},
			Address: events.QueuedSubject(2, events.Lane{Instance: retriedInstance, Class: events.ClassUtility, Tenant: "acme", Slot: 3}),
			Body: &events.MessageQueued{
				Project: "shop", Environment: events.Live, KeyID: "k-1", Category: events.Utility, CorrelationID: "cor_1", RecipientHash: hashOf("acme", canaryNumber),
				RetentionDays: 30, Labels: []string{"welcome"}, TemplateID: "t-note", TemplateVersion: 1,
				Sealed: events.Sealed{KeyID: key, Blob: []byte(sealMark("acme", key, []byte("acme/"+l.id+"/"+events.FieldPayload)) + string(plain))},
			},
		},
		Position: events.Position{Partition: 2, Sequence: 5}, Known: true,
	}}
	l.records = func(_ context.Context, s Scope, ids []string) ([]MessageRecord, error) {
		if s != (Scope{Tenant: "acme", Project: "shop", Environment: events.Live}) || len(ids) != 1 || ids[0] != l.id {
			return nil, nil
		}
		return []MessageRecord{{
			ID: l.id, Instance: retriedInstance, Position: events.Position{Partition: 2, Sequence: 5}, Checkpoint: 9, CreatedAt: clock,
		}}, nil
	}
	l.finder = func(p events.Partition, since, until time.Time, ids []string) (map[string]events.Recorded, error) {
		out := map[string]events.Recorded{}
		for _, id := range ids {
			if rec, ok := l.originals[id]; ok && p == 2 && since.Before(rec.Time) && until.After(rec.Time) {
				out[id] = rec
			}
		}
		return out, nil
	}
	l.start()
	return l
}

func (l *levered) retry(force bool, header ...string) reply {
	l.t.Helper()
	l.n++
	header = append(header, "Idempotency-Key", "retry-"+string(rune('a'+l.n)))
	return l.as(l.ana, "POST", "messages/"+l.id+"/retry", obj{"force": force}, append(header, "X-Reason", "gateway repaired")...)
}

func (l *levered) did(r reply, outcome retry.Action) {
	l.t.Helper()
	if r.status != 200 || r.member(l.t, "outcome") != string(outcome) {
		l.t.Fatalf("want %s: %d %s", outcome, r.status, r.body)
	}
}

func (l *levered) put(seq uint64, name string, n int, body any) {
	l.fence.put(retriedInstance, seq, name, l.id, n, body)
}

func (l *levered) ended(seq uint64, reason string, presumed bool) {
	l.fence.put(retriedInstance, seq, "closed", "", 0, &events.DispatchClosed{Reason: reason, Presumed: presumed, Messages: []events.ClosedMessage{{ID: l.id, QueuedSeq: 5}}})
}

// Not final, the last attempt without effect: an event with who and why, and nothing in the fenced group.
func TestRetryOfAWaitingMessageIsItsNextAttempt(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	l.put(11, "started", 1, &events.DispatchStarted{})
	l.put(12, "deferred", 1, &events.DispatchDeferred{Called: true, DueAt: clock.Add(time.Hour)})
	r := l.retry(false)
	l.did(r, retry.NextAttempt)
	if r.member(t, "dueAt") != stamp(clock) || r.member(t, "mayArriveTwice") != false {
		t.Errorf("%s", r.body)
	}
	es := l.events()
	if len(es) != 1 || len(l.fence.appended) != 0 {
		t.Fatalf("%d events, %d fenced", len(es), len(l.fence.appended))
	}
	e := es[0]
	b, _ := e.Body.(*events.MessageRetryRequested)
	if e.Type != events.TypeMessageRetryRequested || e.Address != "evt.2.own.message.retry_requested" || e.Subject != l.id || e.QueuedSeq != 5 ||
		*b != (events.MessageRetryRequested{By: "operator:ana", Reason: "gateway repaired"}) {
		t.Errorf("%+v %+v", e, b)
	}
}

// An unknown attempt: refused; forced, the operator's word is in the fenced group with who and why.
func TestRetryOfAnUnknownAttempt(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	l.put(11, "started", 1, &events.DispatchStarted{})
	l.put(12, "unknown", 1, &events.DispatchUnknown{})
	r := l.retry(false)
	wantCode(t, r, retry.CodeUnconfirmed)
	if details, _ := r.member(t, "details").(map[string]any); details["forceable"] != true || len(l.fence.appended)+len(l.events()) != 0 {
		t.Errorf("%s", r.body)
	}
	r = l.retry(true)
	l.did(r, retry.Disprove)
	if r.member(t, "mayArriveTwice") != true || len(l.fence.appended) != 1 {
		t.Fatalf("%s, %d fenced", r.body, len(l.fence.appended))
	}
	e := l.fence.appended[0]
	b, _ := e.Body.(*events.DispatchDisproved)
	if e.Type != events.TypeDispatchDisproved || e.Attempt != 1 || e.Subject != l.id || e.QueuedSeq != 5 || e.TenantID != "acme" ||
		*b != (events.DispatchDisproved{By: "operator", Who: "operator:ana", Reason: "gateway repaired"}) {
		t.Errorf("%+v %+v", e, b)
	}
	if _, err := events.Standard.Encode(e); err != nil {
		t.Error(err)
	}
}

// R1: a dispatcher that was faster is seen: what the fence refuses is decided anew.
func TestRetryLosesTheRaceAgainstAProof(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	l.put(11, "started", 1, &events.DispatchStarted{})
	l.put(12, "unknown", 1, &events.DispatchUnknown{})
	l.fence.meantime = func(string) {
		l.fence.meantime = nil
		l.put(13, "proved", 1, &events.DispatchProved{By: events.ProofLookUp})
	}
	wantCode(t, l.retry(true), retry.CodeSent)
	if len(l.fence.appended) != 0 {
		t.Error("a disproof beside a proof")
	}
}

// Each refusal has its code, forced or not, and leaves no event.
func TestRetryRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log   func(l *levered)
		code  events.Code
		force events.Code // "" is done
	}{
		"sending": {func(l *levered) { l.put(11, "started", 1, &events.DispatchStarted{}) }, retry.CodeSending, retry.CodeSending},
		"left": {func(l *levered) {
			l.put(11, "started", 1, &events.DispatchStarted{})
			l.put(12, "accepted", 1, &events.DispatchAccepted{})
		}, retry.CodeSent, retry.CodeSent},
		"window over": {func(l *levered) { l.now = clock.Add(20 * time.Minute) }, retry.CodeEnding, retry.CodeEnding},
		"presumed": {func(l *levered) {
			l.put(11, "started", 1, &events.DispatchStarted{})
			l.put(12, "unknown", 1, &events.DispatchUnknown{})
			l.ended(13, events.ClosedTimeout, true)
		}, retry.CodeMayHave, ""},
		"unreadable": {func(l *levered) {
			l.put(11, "started", 1, nil)
			l.fence.groups[retriedInstance][0].Known = false
		}, events.CodeUnavailable, events.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLevered(t)
			c.log(l)
			wantCode(t, l.retry(false), c.code)
			if n := len(l.events()) + len(l.fence.appended); n > 0 {
				t.Errorf("%d events of a refusal", n)
			}
			switch r := l.retry(true); {
			case c.force != "":
				wantCode(t, r, c.force)
			default:
				l.did(r, retry.Anew)
			}
		})
	}
}

// Final without effect: a new message with retryOf, a fresh window, its own seal, counted again; who and why are in it, and the first
// message tells which one was made of it.
func TestRetryOfAnEndedMessageIsANewOne(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	l.ended(11, events.ClosedExpired, false)
	r := l.retry(false)
	l.did(r, retry.Anew)
	es := l.events()
	if len(es) != 2 {
		t.Fatalf("%d events", len(es))
	}
	e, q := es[0], es[0].Body.(*events.MessageQueued)
	if e.ID != r.member(t, "messageId") || e.ID == l.id || e.Address != "evt.2.own.queued.utility.acme.3" || !e.DeliverUntil.Equal(clock.Add(30*time.Minute)) || !e.DeliverAt.IsZero() {
		t.Errorf("%+v", e)
	}
	if q.RetryOf != l.id || *q.Retry != (events.Retry{By: "operator:ana", Reason: "gateway repaired"}) || q.CorrelationID != "cor_1" || q.KeyID != "k-1" || len(q.Labels) != 1 {
		t.Errorf("%+v", q)
	}
	if !strings.HasPrefix(string(q.Sealed.Blob), sealMark("acme", q.Sealed.KeyID, []byte("acme/"+e.ID+"/"+events.FieldPayload))) {
		t.Errorf("sealed %s", q.Sealed.Blob)
	}
	told, _ := es[1].Body.(*events.MessageRetryRequested)
	if es[1].Subject != l.id || told.RetriedAs != e.ID || told.By != "operator:ana" || told.Force {
		t.Errorf("%+v %+v", es[1], told)
	}
	if strings.Contains(string(r.body), canaryNumber[1:]) || strings.Contains(l.logged.String(), canaryNumber[1:]) {
		t.Error("a number is shown")
	}
}

// A forced retry of what may have arrived says so, in the answer and on record.
func TestForcedRetryIsOnRecord(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	l.put(11, "started", 1, &events.DispatchStarted{})
	l.put(12, "unknown", 1, &events.DispatchUnknown{})
	l.ended(13, events.ClosedTimeout, true)
	r := l.retry(true)
	l.did(r, retry.Anew)
	q, _ := l.events()[0].Body.(*events.MessageQueued)
	told, _ := l.events()[1].Body.(*events.MessageRetryRequested)
	if r.member(t, "mayArriveTwice") != true || !q.Retry.Force || !told.Force {
		t.Errorf("%s %+v %+v", r.body, q.Retry, told)
	}
	if !strings.Contains(l.logged.String(), `"may_arrive_twice":true`) {
		t.Error("the risk is not logged")
	}
	// Receipts are in the views only: while they cannot be read, nobody sends again what they may show as delivered.
	l.views.wait = func(context.Context, events.Partition, uint64) error { return context.DeadlineExceeded }
	wantCode(t, l.retry(true), events.CodeUnavailable)
}

// P12, scopes: the levers of messages are of operators who may send.
func TestLeversOfMessagesAreOfOperators(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	reader := l.operator("bo", events.OperatorRead)
	for _, lever := range []string{"retry", "cancel"} {
		path := "messages/" + l.id + "/" + lever
		for key, code := range map[string]events.Code{liveKey: events.CodeUnauthorized, "": events.CodeUnauthorized, reader: CodeInsufficientScope} {
			wantCode(t, l.as(key, "POST", path, nil, "Idempotency-Key", "k"), code)
		}
		for _, id := range []string{"msg_x", idAt(clock, 2), idAt(clock, 200)} {
			wantCode(t, l.as(l.ana, "POST", "messages/"+id+"/"+lever, nil, "Idempotency-Key", "k"), events.CodeNotFound)
		}
	}
	wantCode(t, l.as(liveKey, "GET", "messages/"+l.id, nil), events.CodeUnauthorized)
	wantCode(t, l.as(reader, "GET", "messages/"+idAt(clock, 2), nil), events.CodeNotFound)
}

// An operator cancels a message of any tenant by the same fenced decision; who and why are on record.
func TestCancelByAnOperator(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	stop := func() reply { return l.as(l.ana, "POST", "messages/"+l.id+"/cancel", nil, "X-Reason", "wrong price") }
	l.put(11, "started", 1, &events.DispatchStarted{})
	r := stop()
	wantCode(t, r, CodeCancelRefused)
	if details, _ := r.member(t, "details").(map[string]any); details["reason"] != "ALREADY_SENDING" {
		t.Errorf("%s", r.body)
	}
	l.put(12, "deferred", 1, &events.DispatchDeferred{})
	if r := stop(); r.status != 200 || r.member(t, "status") != "CANCELED" {
		t.Fatalf("%s", r.body)
	}
	b, _ := l.fence.appended[0].Body.(*events.DispatchClosed)
	if b.Reason != events.ClosedCanceled || b.By != "operator:ana" || b.Note != "wrong price" || len(b.Messages) != 1 {
		t.Errorf("%+v", b)
	}
	if r := stop(); r.status != 200 || len(l.fence.appended) != 1 {
		t.Errorf("again: %d %s", r.status, r.body)
	}
	l.fence.readErr = errors.New("no leader")
	wantCode(t, stop(), events.CodeUnavailable)
}

// An operator reads a message of any tenant, with its events and who said what, and without number and content.
func TestOperatorsReadOfAMessage(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	l.put(11, "started", 1, &events.DispatchStarted{})
	l.put(12, "unknown", 1, &events.DispatchUnknown{})
	l.put(13, "disproved", 1, &events.DispatchDisproved{By: events.DisprovedOperator, Who: "operator:ana", Reason: "not on the phone"})
	l.views.message = func(_ context.Context, s Scope, id string) (MessageView, error) {
		if s.Tenant != "acme" || s.Project != "shop" || id != l.id {
			return MessageView{}, miss()
		}
		return MessageView{ID: l.id, Tenant: "acme", Environment: events.Live, Category: events.Utility, Stage: events.StageQueued, Attempts: 1, CreatedAt: clock}, nil
	}
	l.views.timeline = func(context.Context, Scope, string) ([]TimelineEntry, error) {
		at := func(seq uint64) events.Position { return events.Position{Partition: 2, Sequence: seq} }
		return []TimelineEntry{
			{Event: "message.queued", Position: at(5)},
			{Event: "dispatch.started", Position: at(11), Attempt: 1},
			{Event: "dispatch.unknown", Position: at(12), Attempt: 1},
			{Event: "dispatch.disproved", Position: at(13), Attempt: 1},
		}, nil
	}
	r := l.want(200, "GET", "messages/"+l.id, nil)
	var m AdminMessage
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatal(err)
	}
	if m.TenantID != "acme" || m.InstanceID != retriedInstance || m.Stage != "QUEUED" || m.Position != "2:5" || len(m.Events) != 4 {
		t.Errorf("%s", r.body)
	}
	if w := m.Events[3].Word; w == nil || w.By != "operator:ana" || w.Reason != "not on the phone" || !w.Forced || m.Events[1].Word != nil {
		t.Errorf("%s", r.body)
	}
	if strings.Contains(string(r.body), canaryNumber[1:]) {
		t.Error("a number is shown")
	}
}

// P7: with the views away a message is found in the log, and its levers work; reading it is 503, never a wrong 404.
func TestLeversOfAMessageWithoutTheViews(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	away := events.Errorf(events.CodeUnavailable, "away")
	l.placeErr = away
	l.views.message = func(context.Context, Scope, string) (MessageView, error) { return MessageView{}, away }
	l.views.wait = func(context.Context, events.Partition, uint64) error { return away }
	wantCode(t, l.as(l.ana, "GET", "messages/"+l.id, nil), events.CodeUnavailable)
	l.put(11, "started", 1, &events.DispatchStarted{})
	l.put(12, "deferred", 1, &events.DispatchDeferred{Called: true, DueAt: clock.Add(time.Hour)})
	l.did(l.retry(false), retry.NextAttempt)
	if r := l.as(l.ana, "POST", "messages/"+l.id+"/cancel", nil); r.status != 200 {
		t.Errorf("cancel: %s", r.body)
	}
	l.did(l.retry(false), retry.Anew) // what had no effect needs nothing that only the views know
}
