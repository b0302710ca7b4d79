package quota_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	quotas "pilotstatus.dev/events/quota"
	"pilotstatus.dev/services/quota"
)

// Q1, C4 case 71: of 1,000 at once at limit-1 exactly one gets in, through two processes too.
func TestQ1ExactlyOneOfAThousandGetsTheLastPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const limit = 20
	w := november(limit)
	books := []*quota.Book{r.book(), r.book()}
	for range limit - 1 {
		if _, err := books[0].Reserve(t.Context(), tenant, []quotas.Window{w}); err != nil {
			t.Fatal(err)
		}
	}
	var in, full atomic.Int64
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			_, err := books[i%2].Reserve(t.Context(), tenant, []quotas.Window{w})
			var f *quota.FullError
			switch {
			case err == nil:
				in.Add(1)
			case errors.As(err, &f) && f.Window == w:
				full.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if in.Load() != 1 || full.Load() != 999 {
		t.Errorf("%d got in, %d did not", in.Load(), full.Load())
	}
	if got := r.total(t, w); got != limit {
		t.Errorf("the counter says %d, want %d: what was refused was given back", got, limit)
	}
}

func TestAPlaceIsTakenInEachWindowOrInNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	book := r.book()
	month := november(10)
	day := quotas.At(quotas.Day, month.Begins, month.Begins.Location(), 1)
	free := quotas.At(quotas.TestDay, month.Begins, month.Begins.Location(), 0)
	p, err := book.Reserve(t.Context(), tenant, []quotas.Window{month, day, free})
	if err != nil || !slices.Equal(p.Names(), []string{month.Name, day.Name}) {
		t.Fatalf("%v, %v", p.Names(), err)
	}
	var f *quota.FullError
	for range 3 {
		if _, err := book.Reserve(t.Context(), tenant, []quotas.Window{month, day}); !errors.As(err, &f) || f.Window.Kind != quotas.Day {
			t.Fatal(err)
		}
	}
	if m, d := r.total(t, month), r.total(t, day); m != 1 || d != 1 {
		t.Errorf("month %d, day %d after refusals", m, d)
	}
	p.GiveBack(t.Context())
	p.GiveBack(t.Context())
	if m, d := r.total(t, month), r.total(t, day); m != 0 || d != 0 {
		t.Errorf("month %d, day %d after giving back twice", m, d)
	}
	if _, err := book.Reserve(t.Context(), tenant, []quotas.Window{month, day}); err != nil {
		t.Errorf("a place that was given back is free: %v", err)
	}
}

// silent loses the acknowledgements of additions, as a connection that breaks does.
type silent struct {
	quota.Counter
	lose atomic.Bool
}

func (s *silent) Count(ctx context.Context, subject string, n int64, id string) (int64, error) {
	total, err := s.Counter.Count(ctx, subject, n, id)
	if s.lose.CompareAndSwap(true, false) {
		return 0, events.Errorf(events.CodeUnavailable, "lost")
	}
	return total, err
}

func TestAnAdditionWithoutAnAnswerIsGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	counter := &silent{Counter: r.Events}
	book := quota.NewBook(counter, r.records, zerolog.Nop())
	counter.lose.Store(true)
	w := november(5)
	if _, err := book.Reserve(t.Context(), tenant, []quotas.Window{w}); events.CodeOf(err) != events.CodeUnavailable {
		t.Fatal(err)
	}
	if got := r.total(t, w); got != 0 {
		t.Errorf("the counter says %d", got)
	}
}

// A tenant that goes on asking at its limit costs reads: the stream does not grow by what is refused.
func TestRefusalsAtTheLimitWriteNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	book := r.book()
	w := november(2)
	for range 2 {
		if _, err := book.Reserve(t.Context(), tenant, []quotas.Window{w}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := r.Events.LastSequence(t.Context(), events.StreamQuota)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		var f *quota.FullError
		if _, err := book.Reserve(t.Context(), tenant, []quotas.Window{w}); !errors.As(err, &f) {
			t.Fatal(err)
		}
	}
	if after, err := r.Events.LastSequence(t.Context(), events.StreamQuota); err != nil || after != before {
		t.Errorf("%d additions, %v", after-before, err)
	}
}
