package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"pilotstatus.dev/events"
)

// stored is a message that the views know in the scope of liveKey.
func stored(change ...func(*MessageView)) MessageView {
	id := idAt(clock.Add(-time.Hour), 2)
	m := MessageView{
		ID: id, Tenant: "acme", Environment: events.Live, CorrelationID: "cor_1", Category: events.Utility, TemplateID: "t-note",
		Origin: "Pilot", SourceNumber: "5511900000000", Stage: events.StageQueued, CreatedAt: clock.Add(-time.Hour),
		DeliverUntil: clock,
		Sealed: events.Sealed{KeyID: "k", Blob: []byte(sealMark("acme", "k", []byte("acme/"+id+"/payload")) +
			`{"destination":"+5511987650123","digits":"5511987650123","content":{"body":"x"}}`)},
	}
	for _, f := range change {
		f(&m)
	}
	return m
}

// idAt makes a message id of a moment and a partition.
func idAt(at time.Time, p events.Partition) string {
	u := uuid.Must(uuid.NewV7())
	for i := range 6 {
		u[5-i] = byte(at.UnixMilli() >> (8 * i))
	}
	return events.MessageID(u, p)
}

// serve makes the views find m under any of its ids, in its scope only.
func (f *fixture) serve(m MessageView) *fixture {
	f.views.message = func(_ context.Context, s Scope, id string) (MessageView, error) {
		if s != (Scope{Tenant: m.Tenant, Project: "shop", Environment: m.Environment}) || !slices.Contains([]string{m.ID, m.CorrelationID, m.GatewayID}, id) {
			return MessageView{}, miss()
		}
		return m, nil
	}
	return f
}

func TestGetMessage(t *testing.T) {
	t.Parallel()
	str := func(s string) *string { return &s }
	sent := clock.Add(-time.Minute)
	for name, c := range map[string]struct {
		view MessageView
		want func(*Message)
	}{
		"queued": {stored(), func(*Message) {}},
		"dispatched reads as queued": {
			stored(func(m *MessageView) { m.Stage, m.Attempts, m.GatewayID = events.StageDispatched, 1, "3EB0" }),
			func(m *Message) { m.Stage, m.Attempts, m.ExternalMessageID = "DISPATCHED", 1, str("3EB0") },
		},
		"read": {
			stored(func(m *MessageView) {
				m.Stage, m.DeliverAt, m.SentAt, m.DeliveredAt, m.ReadAt = events.StageRead, sent, sent, sent, clock
			}),
			func(m *Message) {
				m.Stage, m.Status = "READ", "READ"
				m.DeliverAt, m.SentAt, m.DeliveredAt = str("2026-11-29T15:21:01.123Z"), str("2026-11-29T15:21:01.123Z"), str("2026-11-29T15:21:01.123Z")
				m.ReadAt = str("2026-11-29T15:22:01.123Z")
			},
		},
		"failed": {
			stored(func(m *MessageView) { m.Stage, m.ErrorCode, m.FailedAt = events.StageFailed, events.FailExpired, clock }),
			func(m *Message) {
				m.Stage, m.Status, m.ErrorCode, m.FailedAt = "FAILED", "FAILED", str("MESSAGE_EXPIRED"), str("2026-11-29T15:22:01.123Z")
				m.ErrorMessage = str("The delivery window ended before the message could be sent.")
			},
		},
		"failed for an unknown reason": {
			stored(func(m *MessageView) { m.Stage, m.ErrorCode = events.StageFailed, "NEWER" }),
			func(m *Message) {
				m.Stage, m.Status, m.ErrorCode, m.ErrorMessage = "FAILED", "FAILED", str("NEWER"), str("The message could not be delivered.")
			},
		},
		"free text": {stored(func(m *MessageView) { m.TemplateID = "" }), func(m *Message) { m.Template = nil }},
		"template removed": {
			stored(func(m *MessageView) { m.TemplateID = "t-gone" }), func(m *Message) { m.Template = str("t-gone") },
		},
		"erased":      {stored(func(m *MessageView) { m.Sealed.Blob = nil }), func(m *Message) { m.DestinationNumber = "" }},
		"key is gone": {stored(func(m *MessageView) { m.Sealed.KeyID = "gone" }), func(m *Message) { m.DestinationNumber = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t).serve(c.view)
			open := f.keyring.open
			f.keyring.open = func(tenant string, s events.Sealed, aad []byte) ([]byte, error) {
				if s.KeyID == "gone" {
					return nil, fmt.Errorf("open: %w", ErrKeyMissing)
				}
				return open(tenant, s, aad)
			}
			want := Message{
				ID: c.view.ID, Status: "QUEUED", Stage: "QUEUED", CorrelationID: "cor_1", Environment: "LIVE", Category: "UTILITY",
				DestinationNumber: "+5511987650123", Template: str("generic_notification"), Origin: "Pilot", SourceNumber: "5511900000000",
				CreatedAt: "2026-11-29T14:22:01.123Z", DeliverUntil: str("2026-11-29T15:22:01.123Z"),
			}
			c.want(&want)
			r := f.start().get("/v1/messages/"+c.view.ID, liveKey)
			var got Message
			if err := json.Unmarshal(r.body, &got); err != nil || r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(Message{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// P12: by every kind of id inside the scope, and by none outside of it.
func TestGetMessageScope(t *testing.T) {
	t.Parallel()
	m := stored(func(m *MessageView) { m.GatewayID = "wamid.HBgM+/==" })
	f := newFixture(t).serve(m).start()
	for _, id := range []string{m.ID, m.CorrelationID, m.GatewayID} {
		for _, route := range []string{"/v1/messages/", "/api/v1/messages/"} {
			path := route + url.PathEscape(id)
			for _, suffix := range []string{"", "/events"} {
				if r := f.get(path+suffix, liveKey); r.status != http.StatusOK {
					t.Errorf("%s%s: %d", path, suffix, r.status)
				}
				for _, k := range []string{testKey, otherKey} {
					wantCode(t, f.get(path+suffix, k), events.CodeNotFound)
				}
			}
		}
	}
	for _, id := range []string{"x", "%00", "%20", "a%20b", url.PathEscape("é"), "msg_" + m.ID, strings.Repeat("y", maxIDLength)} {
		if r := f.get("/v1/messages/"+id+"x", liveKey); r.status != http.StatusNotFound {
			t.Errorf("%s: %d", id, r.status)
		}
	}
}

// Read your write: a young id is waited for, and is never a wrong 404.
func TestGetYoungMessage(t *testing.T) {
	t.Parallel()
	young := stored(func(m *MessageView) {
		m.ID = idAt(clock.Add(-time.Second), 2)
		m.CorrelationID = "cor_" + m.ID[len("msg_"):]
		m.Sealed.Blob = nil
	})
	for name, c := range map[string]struct {
		id       string
		headErr  error
		waitErr  error
		appears  bool
		want     int
		wantWait bool
	}{
		"appears":             {young.ID, nil, nil, true, http.StatusOK, true},
		"by correlation":      {young.CorrelationID, nil, nil, true, http.StatusOK, true},
		"is not there":        {young.ID, nil, nil, false, http.StatusNotFound, true},
		"view is behind":      {young.ID, nil, context.DeadlineExceeded, true, http.StatusServiceUnavailable, true},
		"head unknown":        {young.ID, errors.New("no leader"), nil, true, http.StatusServiceUnavailable, false},
		"old":                 {idAt(clock.Add(-10*time.Second), 2), nil, nil, false, http.StatusNotFound, false},
		"from the future":     {idAt(clock.Add(time.Hour), 2), nil, nil, false, http.StatusNotFound, false},
		"no such partition":   {idAt(clock, 4), nil, nil, false, http.StatusNotFound, false},
		"no id of ours":       {"3EB0", nil, nil, false, http.StatusNotFound, false},
		"looks like an id":    {"msg_123", nil, nil, false, http.StatusNotFound, false},
		"views down at first": {"down", nil, nil, false, http.StatusServiceUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			waited := false
			f.heads = func(_ context.Context, p events.Partition) (uint64, error) {
				if p != 2 {
					t.Errorf("head of partition %d", p)
				}
				return 77, c.headErr
			}
			f.views.wait = func(ctx context.Context, p events.Partition, seq uint64) error {
				if _, ok := ctx.Deadline(); !ok || p != 2 || seq != 77 {
					t.Errorf("waits for %d:%d", p, seq)
				}
				waited = true
				return c.waitErr
			}
			f.views.message = func(_ context.Context, _ Scope, id string) (MessageView, error) {
				switch {
				case id == "down":
					return MessageView{}, events.Errorf(events.CodeUnavailable, "down")
				case waited && c.appears:
					return young, nil
				}
				return MessageView{}, miss()
			}
			if r := f.start().get("/v1/messages/"+c.id, liveKey); r.status != c.want || waited != c.wantWait {
				t.Errorf("%d, waited %v: %s", r.status, waited, r.body)
			}
		})
	}
}

// P7: with the views down reads answer 503; a fault of ours is no 503, which asks for a repeat.
func TestGetMessageFaults(t *testing.T) {
	t.Parallel()
	m := stored()
	f := newFixture(t).serve(m)
	var viewErr, lineErr, openErr error
	message, open := f.views.message, f.keyring.open
	f.views.message = func(ctx context.Context, s Scope, id string) (MessageView, error) {
		if viewErr != nil {
			return MessageView{}, viewErr
		}
		return message(ctx, s, id)
	}
	f.views.timeline = func(context.Context, Scope, string) ([]TimelineEntry, error) { return nil, lineErr }
	f.keyring.open = func(tenant string, s events.Sealed, aad []byte) ([]byte, error) {
		if openErr != nil {
			return nil, openErr
		}
		return open(tenant, s, aad)
	}
	f.start()
	path := "/v1/messages/" + m.ID
	viewErr = events.Errorf(events.CodeUnavailable, "down")
	wantCode(t, f.get(path, liveKey), events.CodeUnavailable)
	wantCode(t, f.get(path+"/events", liveKey), events.CodeUnavailable)
	viewErr = fmt.Errorf("read: %w", context.DeadlineExceeded)
	wantCode(t, f.get(path, liveKey), events.CodeUnavailable)
	viewErr = errors.New("column does not exist")
	wantCode(t, f.get(path, liveKey), events.CodeInternal)
	viewErr, lineErr = nil, events.Errorf(events.CodeUnavailable, "down")
	wantCode(t, f.get(path+"/events", liveKey), events.CodeUnavailable)
	openErr = errors.New("bucket down")
	wantCode(t, f.get(path, liveKey), events.CodeUnavailable)
	openErr = events.Errorf(events.CodeInternal, "corrupt")
	wantCode(t, f.get(path, liveKey), events.CodeInternal)
	openErr = nil
	m.Sealed.Blob = []byte(sealMark("acme", "k", []byte("acme/"+m.ID+"/payload")) + `{"destination":`)
	f.serve(m)
	message = f.views.message
	f.views.message = func(ctx context.Context, s Scope, id string) (MessageView, error) { return message(ctx, s, id) }
	wantCode(t, f.get(path, liveKey), events.CodeInternal)
}

func TestGetEvents(t *testing.T) {
	t.Parallel()
	m := stored()
	f := newFixture(t).serve(m)
	f.views.timeline = func(_ context.Context, s Scope, id string) ([]TimelineEntry, error) {
		if s.Tenant != "acme" || id != m.ID {
			t.Errorf("timeline of %s in %+v", id, s)
		}
		return []TimelineEntry{
			{Event: "message.queued", Time: clock, Position: events.Position{Partition: 2, Sequence: 7}},
			{Event: "dispatch.started", Time: clock.Add(time.Second), Position: events.Position{Partition: 2, Sequence: 9}, Attempt: 1},
		}, nil
	}
	r := f.start().get("/v1/messages/cor_1/events", liveKey)
	want := `{"data":[{"event":"message.queued","time":"2026-11-29T15:22:01.123Z","position":"2:7","attempt":0},` +
		`{"event":"dispatch.started","time":"2026-11-29T15:22:02.123Z","position":"2:9","attempt":1}]}` + "\n"
	if string(r.body) != want {
		t.Errorf("%s", r.body)
	}
}
