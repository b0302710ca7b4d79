package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

func (f *fixture) cancel(key string, ids ...string) reply {
	f.t.Helper()
	body, err := json.Marshal(map[string]any{"messageIds": ids})
	if err != nil {
		f.t.Fatal(err)
	}
	return f.do(http.MethodDelete, "/v1/messages/cancel", key, strings.NewReader(string(body)))
}

// known makes the views know messages of an instance in the scope of liveKey, as of a checkpoint.
func (f *fixture) known(instance string, checkpoint uint64, ids ...string) {
	next := f.records
	f.records = func(ctx context.Context, s Scope, asked []string) ([]MessageRecord, error) {
		out, err := next(ctx, s, asked)
		for i, id := range ids {
			if s == (Scope{Tenant: "acme", Project: "shop", Environment: events.Live}) && slices.Contains(asked, id) {
				out = append(out, MessageRecord{
					ID: id, Instance: instance, Position: events.Position{Partition: 2, Sequence: uint64(i + 1)}, Checkpoint: checkpoint, CreatedAt: clock,
				})
			}
		}
		return out, err
	}
}

func canceledIDs(t *testing.T, r reply) (cancelled []string, failed map[string]string) {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	var out CancelResult
	if err := json.Unmarshal(r.body, &out); err != nil {
		t.Fatal(err)
	}
	failed = map[string]string{}
	for _, f := range out.Failed {
		failed[f.ID] = f.Reason
	}
	return out.Cancelled, failed
}

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = idAt(clock.Add(-time.Hour), 2)
	}
	return out
}

func TestCancelTellsEachMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := ids(8)
	f.known("inst-a", 10, m[:7]...)
	f.fence.put("inst-a", 11, "started", m[1], 1, &events.DispatchStarted{})
	f.fence.put("inst-a", 12, "started", m[2], 1, &events.DispatchStarted{})
	f.fence.put("inst-a", 13, "unknown", m[2], 1, &events.DispatchUnknown{})
	f.fence.put("inst-a", 14, "started", m[3], 1, &events.DispatchStarted{})
	f.fence.put("inst-a", 15, "accepted", m[3], 1, &events.DispatchAccepted{})
	f.fence.put("inst-a", 16, "closed", m[4], 0, &events.DispatchClosed{Reason: events.ClosedExpired, Messages: []events.ClosedMessage{{ID: m[4]}}})
	f.fence.put("inst-a", 17, "closed", "", 0, &events.DispatchClosed{Reason: events.ClosedCanceled, Messages: []events.ClosedMessage{{ID: m[5]}, {ID: "x"}}})
	f.fence.put("inst-a", 18, "started", m[6], 1, &events.DispatchStarted{})
	f.fence.put("inst-a", 19, "deferred", m[6], 1, &events.DispatchDeferred{Called: true})
	f.start()
	r := f.cancel(liveKey, m[7], m[6], m[0], m[5], m[4], m[0], m[3], m[2], m[1], "cor_1", "msg_")
	cancelled, failed := canceledIDs(t, r)
	if diff := cmp.Diff([]string{m[6], m[0], m[5]}, cancelled); diff != "" {
		t.Errorf("cancelled: %s", diff)
	}
	want := map[string]string{
		m[7]: "NOT_FOUND", "cor_1": "NOT_FOUND", "msg_": "NOT_FOUND", m[4]: "ALREADY_FINAL", m[3]: "ALREADY_SENT", m[2]: "UNCONFIRMED",
		m[1]: "ALREADY_SENDING",
	}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Errorf("failed: %s", diff)
	}
	if len(f.fence.appended) != 1 {
		t.Fatalf("%d appends for one instance", len(f.fence.appended))
	}
	e := f.fence.appended[0]
	body, _ := e.Body.(*events.DispatchClosed)
	wantBody := &events.DispatchClosed{Reason: events.ClosedCanceled, Messages: []events.ClosedMessage{{ID: m[6], QueuedSeq: 7}, {ID: m[0], QueuedSeq: 1}}}
	sortClosed := func(b *events.DispatchClosed) {
		slices.SortFunc(b.Messages, func(x, y events.ClosedMessage) int { return int(x.QueuedSeq) - int(y.QueuedSeq) })
	}
	sortClosed(body)
	sortClosed(wantBody)
	if diff := cmp.Diff(wantBody, body); diff != "" || e.Type != events.TypeDispatchClosed || e.Subject != "" || e.ID == "" || e.Source != "pilot/api" {
		t.Errorf("appended %+v: %s", e, diff)
	}
	if _, err := events.Standard.Encode(e); err != nil {
		t.Error(err)
	}
}

// One message is named in the headers, so that readers of headers alone take it in.
func TestCancelOfOneNamesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := ids(1)
	f.known("inst-a", 10, m...)
	f.start()
	if cancelled, _ := canceledIDs(t, f.do(http.MethodDelete, "/api/v1/messages/cancel", liveKey, strings.NewReader(`{"messageIds":["`+m[0]+`"],"more":1}`))); len(cancelled) != 1 {
		t.Fatal("not canceled")
	}
	e := f.fence.appended[0]
	if e.Subject != m[0] || e.QueuedSeq != 1 || e.TenantID != "acme" || e.Address != "evt.2.inst-a.dispatch.closed" {
		t.Errorf("%+v", e)
	}
}

// P12: what another tenant, project or environment has is as what does not exist.
func TestCancelKeepsToItsScope(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := ids(2)
	f.known("inst-a", 10, m...)
	f.start()
	for _, key := range []string{otherKey, testKey} {
		cancelled, failed := canceledIDs(t, f.cancel(key, m...))
		if len(cancelled) > 0 || failed[m[0]] != "NOT_FOUND" || failed[m[1]] != "NOT_FOUND" {
			t.Errorf("%s: %v %v", key, cancelled, failed)
		}
	}
	if len(f.fence.appended) > 0 {
		t.Error("an end was appended")
	}
	if r := f.cancel("", m...); r.status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", r.status)
	}
}

func TestCancelBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	many := `"x"` + strings.Repeat(`,"x"`, MaxCancel)
	for body, want := range map[string][]events.FieldError{
		``:                                     {{Field: "body", Rule: ruleRequired}},
		`{`:                                    {{Field: "body", Rule: ruleJSON}},
		`["x"]`:                                {{Field: "body", Rule: ruleWrongType}},
		`{}`:                                   {{Field: "messageIds", Rule: ruleRequired}},
		`{"messageIds":null}`:                  {{Field: "messageIds", Rule: ruleRequired}},
		`{"messageIds":[]}`:                    {{Field: "messageIds", Rule: ruleRequired}},
		`{"messageIds":"x"}`:                   {{Field: "messageIds", Rule: ruleWrongType}},
		`{"messageIds":{"a":1}}`:               {{Field: "messageIds", Rule: ruleWrongType}},
		`{"messageIds":[` + many + `]}`:        {{Field: "messageIds", Rule: ruleTooMany}},
		`{"messageIds":["x",1,"",null,["x"]]}`: {{Field: "messageIds[1]", Rule: ruleWrongType}, {Field: "messageIds[2]", Rule: ruleRequired}, {Field: "messageIds[3]", Rule: ruleRequired}, {Field: "messageIds[4]", Rule: ruleWrongType}},
		`{"messageIds":["` + strings.Repeat("x", maxIDLength+1) + `"]}`: {{Field: "messageIds[0]", Rule: ruleTooLong}},
	} {
		r := f.do(http.MethodDelete, "/v1/messages/cancel", liveKey, strings.NewReader(body))
		var p struct {
			Details struct {
				Errors []events.FieldError `json:"errors"`
			} `json:"details"`
		}
		if err := json.Unmarshal(r.body, &p); err != nil || r.status != http.StatusBadRequest {
			t.Fatalf("%.40s: status %d, %v", body, r.status, err)
		}
		wantCode(t, r, events.CodeValidation)
		if diff := cmp.Diff(want, p.Details.Errors); diff != "" {
			t.Errorf("%.40s: %s", body, diff)
		}
	}
	if cancelled, failed := canceledIDs(t, f.cancel(liveKey, slices.Repeat([]string{"x"}, MaxCancel)...)); len(cancelled) > 0 || len(failed) != 1 {
		t.Errorf("an id that is given again: %v %v", cancelled, failed)
	}
}

// A refused append is decided anew, three times at most, and each reading begins where the last one ended.
func TestCancelDecidesAnewWhenItIsRefused(t *testing.T) {
	t.Parallel()
	for moves, want := range map[int]string{0: "", 1: "ALREADY_SENDING", 2: "", 3: "TRY_AGAIN"} {
		t.Run(fmt.Sprint(moves), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			m := ids(1)
			f.known("inst-a", 10, m...)
			n := 0
			f.fence.meantime = func(instance string) {
				if n++; n > moves {
					return
				}
				about := "msg_other"
				if moves == 1 {
					about = m[0]
				}
				f.fence.put(instance, uint64(20+n), "started", about, n, &events.DispatchStarted{})
			}
			f.start()
			cancelled, failed := canceledIDs(t, f.cancel(liveKey, m...))
			if (want == "") != (len(cancelled) == 1) || failed[m[0]] != want {
				t.Errorf("%v %v", cancelled, failed)
			}
			reads := []uint64{10, 10, 21}[:min(moves+1, 3)] // the group was empty at first
			if diff := cmp.Diff(reads, f.fence.reads); diff != "" {
				t.Errorf("readings: %s", diff)
			}
		})
	}
}

// An append whose fate is unknown is no cancel yet; a repeat finds it.
func TestCancelRepeatedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := ids(1)
	f.known("inst-a", 10, m...)
	f.fence.answer = events.Errorf(events.CodeUnavailable, "the log did not answer in time")
	f.start()
	if _, failed := canceledIDs(t, f.cancel(liveKey, m...)); failed[m[0]] != "TRY_AGAIN" {
		t.Errorf("the fate is unknown: %v", failed)
	}
	if cancelled, failed := canceledIDs(t, f.cancel(liveKey, m...)); len(cancelled) != 1 {
		t.Errorf("it is in the log: %v", failed)
	}
	if len(f.fence.appended) != 1 {
		t.Errorf("%d ends", len(f.fence.appended))
	}
}

func TestCancelOfARestoredLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := ids(1)
	f.known("inst-a", 10, m...)
	f.fence.restored = &events.Recorded{
		Event:    events.Event{Envelope: events.Envelope{Type: events.TypeDispatchRestored, Time: clock.Add(time.Minute)}, Body: &events.DispatchRestored{UpTo: 5}},
		Position: events.Position{Partition: 2, Sequence: 6}, Known: true,
	}
	f.start()
	if _, failed := canceledIDs(t, f.cancel(liveKey, m...)); failed[m[0]] != "UNCONFIRMED" {
		t.Errorf("%v", failed)
	}
}

func TestCancelWithTheGroupUnreadable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := ids(1)
	f.known("inst-a", 10, m...)
	f.fence.readErr = errors.New("no answer")
	f.start()
	if _, failed := canceledIDs(t, f.cancel(liveKey, m...)); failed[m[0]] != "TRY_AGAIN" || len(f.fence.appended) > 0 {
		t.Errorf("%v", failed)
	}
}
