package reconciler

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
)

// P1: no dispatcher serves the instance, which is not in the catalog any more. What is over ends by the rules of dispatchers, but
// only after their deadline and the margin; once.
func TestP1EndsWithoutADispatcher(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	const gone = "removed-1"
	never := r.queued(gone, -3*time.Minute)
	tried := r.queued(gone, -3*time.Minute)
	r.fenced(gone, "started", tried, "", 4*time.Minute, &events.DispatchStarted{Call: "sendText"})
	r.fenced(gone, "deferred", tried, "", 4*time.Minute, &events.DispatchDeferred{Called: true, DueAt: time.Now()})
	unknown := r.queued(gone, -13*time.Minute)
	r.fenced(gone, "started", unknown, "", 14*time.Minute, &events.DispatchStarted{Call: "sendText"})
	r.fenced(gone, "unknown", unknown, "", 14*time.Minute, &events.DispatchUnknown{Cause: "limit"})
	doubtful := r.queued(gone, -11*time.Minute) // its presumed end is due, its margin is not over
	r.fenced(gone, "started", doubtful, "", 12*time.Minute, &events.DispatchStarted{Call: "sendText"})
	r.fenced(gone, "unknown", doubtful, "", 12*time.Minute, &events.DispatchUnknown{Cause: "limit"})
	within := r.queued(gone, -time.Minute)
	left := r.left(gone, "3EB0AA", time.Minute)
	rec := r.reconciler(r.log, Settings{})
	for range 2 {
		rec.round(t.Context())
	}
	for _, tt := range []struct {
		m        msg
		stage    events.Stage
		code     events.ErrorCode
		presumed bool
		closed   int
	}{
		{never, events.StageFailed, events.FailExpired, false, 1},
		{tried, events.StageFailed, events.FailExpiredAfterAttempts, false, 1},
		{unknown, events.StageFailed, events.FailDeliveryTimeout, true, 1},
		{doubtful, events.StageUnconfirmed, "", false, 0},
		{within, events.StageQueued, "", false, 0},
		{left, events.StageDispatched, "", false, 0},
	} {
		v := r.stage(tt.m)
		if v.Stage != tt.stage || v.ErrorCode != tt.code || v.Presumed != tt.presumed || count(r.events(tt.m), "dispatch.closed") != tt.closed {
			t.Errorf("%s %q presumed %v, want %s %q: %v", v.Stage, v.ErrorCode, v.Presumed, tt.stage, tt.code, r.events(tt.m))
		}
	}
	if n := r.acts(rec, "ended"); n != 3 {
		t.Errorf("%d ended", n)
	}
	var group uint64 // R3: each names the one before
	for _, e := range r.recs() {
		if addr, err := events.ParseEventSubject(e.Address); err == nil && addr.Group == events.GroupDispatch {
			if e.Prev != group {
				t.Errorf("%s at %s names %d, not %d", e.Type, e.Position, e.Prev, group)
			}
			group = e.Position.Sequence
		}
	}
}

// C3 51: the snapshot says stuck, the message completes, and the end that was decided before is refused by the fence and dropped.
func TestC3StaleEndIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	m := r.queued(instance, -13*time.Minute)
	r.fenced(instance, "started", m, "", 14*time.Minute, &events.DispatchStarted{Call: "sendText"})
	r.fenced(instance, "unknown", m, "", 14*time.Minute, &events.DispatchUnknown{Cause: "limit"})
	log := &overtaken{Log: r.log, happens: func() {
		if err := r.tryFenced(instance, "proved", m, "3EB0AA", 0, &events.DispatchProved{By: events.ProofLookUp}); err != nil {
			t.Error(err)
		}
	}}
	rec := r.reconciler(log, Settings{})
	rec.round(t.Context())
	rec.round(t.Context())
	if v := r.stage(m); v.Stage != events.StageDispatched || count(r.events(m), "dispatch.closed") != 0 || r.acts(rec, "dropped") != 1 {
		t.Errorf("%s: %v, %d dropped", v.Stage, r.events(m), r.acts(rec, "dropped"))
	}
}

// R6, R9: an open start that nobody resolves is called unknown, but not before it was seen for as long as a successor waits; then it
// ends presumed.
func TestR9AnOpenStartOfNobodyBecomesUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	m := r.queued(instance, -13*time.Minute)
	r.fenced(instance, "started", m, "", 14*time.Minute, &events.DispatchStarted{Call: "sendText"})
	patient := r.reconciler(r.log, Settings{SuccessorWait: time.Hour})
	patient.round(t.Context())
	patient.round(t.Context())
	if got := r.events(m); len(got) != 2 {
		t.Fatalf("resolved at once: %v", got)
	}
	rec := r.reconciler(r.log, Settings{SuccessorWait: time.Millisecond})
	awaittest.Eventually(t, limit, 5*time.Millisecond, "the end", func() bool {
		rec.round(t.Context())
		return r.stage(m).Stage == events.StageFailed
	}, nil)
	if got := r.events(m); count(got, "dispatch.unknown") != 1 || count(got, "dispatch.closed") != 1 || r.stage(m).ErrorCode != events.FailDeliveryTimeout {
		t.Errorf("events %v", got)
	}
}

// What this process cannot read may be a start or an acceptance: nothing is ended on it.
func TestR3NothingEndsOnAGroupThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	m := r.queued(instance, -13*time.Minute)
	log := unreadable{r.log}
	rec := r.reconciler(log, Settings{})
	r.fenced(instance, "started", m, "", 14*time.Minute, &events.DispatchStarted{Call: "sendText"})
	r.fenced(instance, "deferred", m, "", 14*time.Minute, &events.DispatchDeferred{DueAt: time.Now()})
	rec.round(t.Context())
	if got := r.events(m); count(got, "dispatch.closed") != 0 {
		t.Errorf("events %v", got)
	}
}

// unreadable is a log whose fenced events are of types that this process does not know.
type unreadable struct{ *eventlog.Log }

func (u unreadable) ReadGroup(ctx context.Context, p events.Partition, instance string, after uint64) ([]events.Recorded, uint64, error) {
	recs, last, err := u.Log.ReadGroup(ctx, p, instance, after)
	for i := range recs {
		recs[i].Known, recs[i].Body = false, nil
	}
	return recs, last, err
}

// One works at a time; the other takes over when it is gone. Without Postgres it waits, and says so once.
func TestOneReconcilesAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	m := r.left(instance, "", late)
	r.stage(m) // the view has it
	var mu sync.Mutex
	worked := map[string]int{}
	start := func(id string) (*Reconciler, func()) {
		rec := r.reconciler(counted{r.log, func() {
			mu.Lock()
			defer mu.Unlock()
			worked[id]++
		}}, Settings{ID: id, Every: 10 * time.Millisecond, LeaseTTL: 9 * time.Second, Logger: zerolog.Nop()}) // it outlives a machine that stands still
		return rec, r.run(id, rec.Run)
	}
	of := func(id string) int {
		mu.Lock()
		defer mu.Unlock()
		return worked[id]
	}
	_, stop := start("one")
	awaittest.Eventually(t, limit, 5*time.Millisecond, "the first to work", func() bool { return of("one") > 2 }, nil)
	start("two")
	awaittest.Eventually(t, limit, 5*time.Millisecond, "more rounds", func() bool { return of("one") > 20 }, nil)
	if of("two") != 0 {
		t.Errorf("two work at once")
	}
	stop()
	awaittest.Eventually(t, limit, 5*time.Millisecond, "the second to work", func() bool { return of("two") > 2 }, nil)
	if v := r.stage(m); !v.AckOverdue || count(r.events(m), "evidence.ack_overdue") != 1 {
		t.Errorf("events %v", r.events(m))
	}
}

// counted tells of each round.
type counted struct {
	*eventlog.Log
	round func()
}

func (c counted) LastSequence(ctx context.Context, stream string) (uint64, error) {
	c.round()
	return c.Log.LastSequence(ctx, stream)
}

// P7: Postgres is down. Nothing is decided, and it goes on when the views are back.
func TestP7WithoutTheViewsItWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	m := r.left(instance, "", late)
	r.stage(m)
	rec := r.reconciler(r.log, Settings{})
	there := rec.views
	rec.views = away{there}
	rec.round(t.Context())
	rec.round(t.Context())
	if !rec.down || len(r.events(m)) != 3 {
		t.Errorf("down %v: %v", rec.down, r.events(m))
	}
	rec.views = there
	rec.round(t.Context())
	if rec.down || !r.stage(m).AckOverdue {
		t.Errorf("down %v: %v", rec.down, r.events(m))
	}
}

// away are views that cannot be read.
type away struct{ Views }

func (away) WaitFor(context.Context, events.Partition, uint64) error {
	return events.Errorf(events.CodeUnavailable, "no").WithCause(errors.New("connection refused"))
}
