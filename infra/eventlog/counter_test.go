package eventlog_test

import (
	"sync"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/streamtest"
)

func TestCountAddsOnceForEachID(t *testing.T) {
	t.Parallel()
	log := streamtest.New(t, 1, eventlog.Options{}).Events
	subject := events.QuotaSubject("acme", "m-2026-11")
	if got, err := log.Counted(t.Context(), subject); got != 0 || err != nil {
		t.Fatalf("before the first addition: %d, %v", got, err)
	}
	for i, c := range []struct {
		n    int64
		id   string
		want int64
	}{{1, "a", 1}, {1, "b", 2}, {1, "a", 2}, {-1, "a.back", 1}, {-1, "a.back", 1}, {5, "c", 6}} {
		if got, err := log.Count(t.Context(), subject, c.n, c.id); got != c.want || err != nil {
			t.Errorf("%d: adding %d under %q gives %d, %v; want %d", i, c.n, c.id, got, err, c.want)
		}
	}
	if got, err := log.Counted(t.Context(), events.QuotaSubject("acme", "m-2026-12")); got != 0 || err != nil {
		t.Errorf("another window: %d, %v", got, err)
	}
}

// Each of many who add at once sees a total of its own: the last one that fits is exactly one.
func TestCountTotalsAreDifferent(t *testing.T) {
	t.Parallel()
	log := streamtest.New(t, 1, eventlog.Options{}).Events
	const adders = 50
	totals := make([]int64, adders)
	var all sync.WaitGroup
	for i := range adders {
		all.Go(func() {
			got, err := log.Count(t.Context(), events.QuotaSubject("acme", "t-2026-11-29"), 1, string(rune('A'+i)))
			if err != nil {
				t.Error(err)
			}
			totals[i] = got
		})
	}
	all.Wait()
	seen := map[int64]bool{}
	for _, n := range totals {
		if n < 1 || n > adders || seen[n] {
			t.Fatalf("total %d of %v", n, totals)
		}
		seen[n] = true
	}
}
