package api

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// queuedAt is an accepted message as the log has it.
func queuedAt(id string, seq uint64, s Scope) events.Recorded {
	return events.Recorded{
		Event: events.Event{
			Envelope: events.Envelope{ID: id, Type: events.TypeMessageQueued, Subject: id, TenantID: s.Tenant, Time: clock},
			Address:  events.QueuedSubject(2, events.Lane{Instance: "inst-a", Class: events.ClassUtility, Tenant: s.Tenant}),
			Body:     &events.MessageQueued{Project: s.Project, Environment: s.Environment},
		},
		Position: events.Position{Partition: 2, Sequence: seq}, Known: true,
	}
}

// P7: with the views away the message is found in the log by the time in its id, and its group read from its acceptance on.
func TestCancelWithoutTheViews(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := ids(4)
	mine := Scope{Tenant: "acme", Project: "shop", Environment: events.Live}
	f.records = func(context.Context, Scope, []string) ([]MessageRecord, error) {
		return nil, events.Errorf(events.CodeUnavailable, "the views cannot be read at present")
	}
	f.views.wait = func(context.Context, events.Partition, uint64) error {
		t.Error("waited for views that are away")
		return nil
	}
	f.finder = func(p events.Partition, since, until time.Time, asked []string) (map[string]events.Recorded, error) {
		at := clock.Add(-time.Hour)
		if p != 2 || !since.Before(at.Add(-30*time.Second)) || !until.After(at.Add(50*time.Second)) || len(asked) != 4 {
			t.Errorf("searched partition %d from %s to %s for %d", p, since, until, len(asked))
		}
		return map[string]events.Recorded{
			m[0]: queuedAt(m[0], 5, mine), m[1]: queuedAt(m[1], 6, mine),
			m[2]: queuedAt(m[2], 7, Scope{Tenant: "globex", Project: "shop", Environment: events.Live}),
		}, nil
	}
	f.fence.put("inst-a", 8, "started", m[1], 1, &events.DispatchStarted{})
	f.start()
	cancelled, failed := canceledIDs(t, f.cancel(liveKey, m...))
	if diff := cmp.Diff([]string{m[0]}, cancelled); diff != "" {
		t.Error(diff)
	}
	// P12: another tenant's message is told apart from none in no way.
	if diff := cmp.Diff(map[string]string{m[1]: "ALREADY_SENDING", m[2]: "TRY_AGAIN", m[3]: "TRY_AGAIN"}, failed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{5}, f.fence.reads); diff != "" {
		t.Errorf("readings: %s", diff)
	}
}

// A view that is behind may lack a message: it is waited for, then the log is searched.
func TestCancelWithTheViewsBehind(t *testing.T) {
	t.Parallel()
	for name, caughtUp := range map[string]bool{"they catch up": true, "they do not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			m := ids(2)
			behind := true
			f.records = func(_ context.Context, _ Scope, asked []string) ([]MessageRecord, error) {
				if behind {
					return nil, nil
				}
				return []MessageRecord{{ID: m[0], Instance: "inst-a", Position: events.Position{Partition: 2, Sequence: 3}, Checkpoint: 9, Facts: message.Record{}}}, nil
			}
			f.views.wait = func(ctx context.Context, _ events.Partition, seq uint64) error {
				if behind = !caughtUp; behind && seq == 99 {
					return context.DeadlineExceeded
				}
				return nil
			}
			f.finder = func(events.Partition, time.Time, time.Time, []string) (map[string]events.Recorded, error) {
				return map[string]events.Recorded{m[0]: queuedAt(m[0], 5, Scope{Tenant: "acme", Project: "shop", Environment: events.Live})}, nil
			}
			f.start()
			cancelled, failed := canceledIDs(t, f.cancel(liveKey, m...))
			want := map[bool]string{true: "NOT_FOUND", false: "TRY_AGAIN"}[caughtUp]
			if diff := cmp.Diff([]string{m[0]}, cancelled); diff != "" || failed[m[1]] != want {
				t.Errorf("%v, want %s: %s", failed, want, diff)
			}
		})
	}
}

// A fault of the views is no reason to say anything of a message.
func TestCancelWithAFaultOfTheViews(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.records = func(context.Context, Scope, []string) ([]MessageRecord, error) {
		return nil, errors.New("bad statement")
	}
	f.start()
	if r := f.cancel(liveKey, ids(1)...); r.status != http.StatusInternalServerError {
		t.Errorf("status %d: %s", r.status, r.body)
	}
}

func TestSearchWindows(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) string { return idAt(clock.Add(d), 2) }
	a, b, c := at(0), at(time.Minute), at(time.Hour)
	got := windows([]string{c, b, a}, 20*time.Second)
	want := []window{
		{since: clock.Add(-time.Minute).Truncate(time.Millisecond), until: clock.Add(2*time.Minute + 20*time.Second), ids: []string{a, b}},
		{since: clock.Add(59 * time.Minute), until: clock.Add(61*time.Minute + 20*time.Second), ids: []string{c}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(window{})); diff != "" {
		t.Error(diff)
	}
}
