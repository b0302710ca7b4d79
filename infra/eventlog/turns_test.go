package eventlog_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// Deliveries about the same are handled one after the other, as they came; others do not wait for them.
func TestConsumeKeepsTheOrderOfWhatIsAboutTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "a1", "a2", "b1", "a3", "c1", "b2")
	let, others := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var order []string
	k := w.consume(t, eventlog.DurableConfig{
		Stream: events.EventsStream(part), Durable: "test", Concurrency: 8,
		About: func(d *eventlog.Delivery) string { return strings.TrimSuffix(d.ID[:1], "c") }, // "c1" is about nothing
	}, func(ctx context.Context, d *eventlog.Delivery) {
		if d.ID == "a1" {
			<-let
		}
		mu.Lock()
		order = append(order, d.ID)
		if len(order) == 3 {
			close(others)
		}
		mu.Unlock()
		ack(t)(ctx, d)
	})
	<-others
	mu.Lock()
	before := slices.Clone(order)
	mu.Unlock()
	close(let)
	eventually(t, "all are handled", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == 6 })
	k.end(t)
	if got := slices.Sorted(slices.Values(before)); !slices.Equal(got, []string{"b1", "b2", "c1"}) {
		t.Errorf("beside the first were handled %v", before)
	}
	only := func(about string) []string {
		return slices.DeleteFunc(slices.Clone(order), func(id string) bool { return id[:1] != about })
	}
	if a, b := only("a"), only("b"); !slices.Equal(a, []string{"a1", "a2", "a3"}) || !slices.Equal(b, []string{"b1", "b2"}) {
		t.Errorf("handled as %v", order)
	}
}
