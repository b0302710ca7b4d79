package quota_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	quotas "pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/services/quota"
)

// told stands for the views: what they have read is set by the test.
type told struct {
	mu      sync.Mutex
	counted []quota.Counted
	down    bool
}

func (v *told) say(c ...quota.Counted) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counted = c
}

func (v *told) QuotaChanged(_ context.Context, p events.Partition, after uint64, _ int) (out []quota.Counted, _ error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.down {
		return nil, errors.New("down")
	}
	for _, c := range v.counted {
		if c.Partition == p && c.Record.Sequence > after {
			out = append(out, c)
		}
	}
	return out, nil
}

func (v *told) QuotaAccepted(_ context.Context, _, window string) (n int64, _ error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.counted {
		if c.Window == window {
			n += c.Record.Accepted
		}
	}
	return n, nil
}

func (v *told) Checkpoint(context.Context, events.Partition) (uint64, error) { return 1 << 40, nil }

type keeperLog struct{ *rig }

func (l keeperLog) Count(ctx context.Context, subject string, n int64, id string) (int64, error) {
	return l.Events.Count(ctx, subject, n, id)
}

func (l keeperLog) Counted(ctx context.Context, subject string) (int64, error) {
	return l.Events.Counted(ctx, subject)
}

func (l keeperLog) CountedAt(ctx context.Context, subject string) (int64, uint64, error) {
	return l.Events.CountedAt(ctx, subject)
}

func (l keeperLog) Last(ctx context.Context, p events.Partition) (uint64, error) {
	return l.Events.LastSequence(ctx, events.EventsStream(p))
}

func record(p events.Partition, w quotas.Window, accepted, refunded int64, seq uint64) quota.Counted {
	return quota.Counted{Tenant: tenant, Window: w.Name, Partition: p, Record: quotas.Record{Accepted: accepted, Refunded: refunded, Sequence: seq}}
}

// soon takes a counter for quiet that has not moved from one look to the next; never corrects none while a test lasts.
const (
	soon  = 50 * time.Millisecond
	never = time.Hour
)

// keep runs a keeper that looks at counters so often.
func keep(t *testing.T, r *rig, views quota.Views, w quotas.Window, correctEvery time.Duration) (corrections <-chan int64, stop func()) {
	t.Helper()
	done := make(chan int64, 10)
	k := quota.NewKeeper(quota.Config{
		Partitions: []events.Partition{0, 1}, Log: keeperLog{r}, Views: views, Bucket: r.bucket,
		Windows:      func(time.Time) map[string][]quotas.Window { return map[string][]quotas.Window{tenant: {w}} },
		PublishEvery: 10 * time.Millisecond, CorrectEvery: correctEvery, Logger: zerolog.Nop(),
		OnCorrection: func(n int64) { done <- n },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = k.Run(ctx) }) // it ends with its context
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return done, stop
}

// Q2: what provably had no effect frees its place, once, however often it is told.
func TestQ2RefundsFreePlaces(t *testing.T) {
	t.Parallel()
	r, views := newRig(t), &told{}
	book, w := r.book(), november(3)
	for range 3 {
		if _, err := book.Reserve(t.Context(), tenant, []quotas.Window{w}); err != nil {
			t.Fatal(err)
		}
	}
	views.say(record(0, w, 1, 0, 5), record(1, w, 2, 2, 9))
	keep(t, r, views, w, never) // places that are taken here are in nobody's hands for long
	awaittest.Eventually(t, 30*time.Second, 5*time.Millisecond, "refunds are known", func() bool { return r.records.Refunded(tenant, w.Name) == 2 }, nil)
	granted := 0
	for range 5 {
		if _, err := book.Reserve(t.Context(), tenant, []quotas.Window{w}); err == nil {
			granted++
		}
	}
	if granted != 2 {
		t.Errorf("%d places after two refunds", granted)
	}
	// Views that are made anew say less for a while: the later record holds.
	views.say(record(1, w, 1, 0, 3))
	keep(t, r, views, w, never)
	used, err := book.Used(t.Context(), tenant, []quotas.Window{w})
	if err != nil || used[0] != 3 {
		t.Errorf("used %+v, %v", used, err)
	}
	awaittest.Eventually(t, 30*time.Second, 5*time.Millisecond, "the old record stays out", func() bool { return r.records.Refunded(tenant, w.Name) == 2 }, nil)
}

// A process died with two places in its hands: its counter is corrected once it is quiet, and only by those two.
func TestPlacesOfADeadProcessComeBack(t *testing.T) {
	t.Parallel()
	r, views := newRig(t), &told{}
	book, w := r.book(), november(5)
	for range 5 {
		if _, err := book.Reserve(t.Context(), tenant, []quotas.Window{w}); err != nil {
			t.Fatal(err)
		}
	}
	views.say(record(0, w, 3, 0, 5))
	corrections, stop := keep(t, r, views, w, soon)
	if n := <-corrections; n != -2 {
		t.Errorf("corrected by %d", n)
	}
	stop()
	if got := r.total(t, w); got != 3 {
		t.Errorf("the counter says %d", got)
	}
	for i := range 3 {
		if _, err := book.Reserve(t.Context(), tenant, []quotas.Window{w}); (err == nil) != (i < 2) {
			t.Errorf("reservation %d: %v", i, err)
		}
	}
}

// A limit that comes in the middle of a month finds what was sent before.
func TestAWindowWithoutALimitIsCountedUp(t *testing.T) {
	t.Parallel()
	r, views := newRig(t), &told{}
	w := november(100)
	views.say(record(0, w, 40, 1, 50), record(1, w, 30, 0, 31))
	corrections, _ := keep(t, r, views, w, soon)
	if n := <-corrections; n != 70 {
		t.Errorf("corrected by %d", n)
	}
	if got := r.total(t, w); got != 70 {
		t.Errorf("the counter says %d", got)
	}
}
