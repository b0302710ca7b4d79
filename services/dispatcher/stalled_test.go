package dispatcher

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// A server that beats, and does not deliver: the fold goes on by itself, and what waits in the log leaves.
func TestC3AFoldThatIsBroughtNothingGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var fold atomic.Pointer[partition]
	var stalled atomic.Bool
	r.log = eventlog.New(r.js, eventlog.Options{Logger: zerolog.Nop(), Stuck: 200 * time.Millisecond, OnStuck: func(string) {
		if p := fold.Load(); p != nil && p.ready() != nil {
			stalled.Store(true)
		}
	}})
	d, _ := r.run(quick())
	fold.Store(d.parts[r.p])
	awaitOwner(t, d)
	first := r.accept(order{text: "before"})
	r.awaitStage(first, events.StageDispatched)
	stream, err := r.js.Stream(t.Context(), events.EventsStream(r.p))
	if err != nil {
		t.Fatal(err)
	}
	paused := 0
	names := stream.ConsumerNames(t.Context())
	for name := range names.Name() {
		if _, err := stream.PauseConsumer(t.Context(), name, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		paused++
	}
	if names.Err() != nil || paused < 2 {
		t.Fatalf("%d consumers were paused, %v", paused, names.Err())
	}
	second := r.accept(order{text: "after"})
	r.awaitStage(second, events.StageDispatched)
	if !stalled.Load() {
		t.Error("the partition was ready while its fold stood still")
	}
	eventually(t, "it is ready again", func() bool { return d.Ready() == nil }, func() string { return fmt.Sprint(d.Ready()) })
}

// While the fold stands still nothing starts, and the process is not ready, until something comes.
func TestC3AFoldThatStandsStillIsNotReady(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.run(quick())
	awaitOwner(t, d)
	p := d.parts[r.p]
	p.stall()
	if d.Ready() == nil || !p.lagging(time.Now()) {
		t.Errorf("ready: %v, lagging: %v", d.Ready(), p.lagging(time.Now()))
	}
	r.awaitStage(r.accept(order{text: "next"}), events.StageDispatched)
	eventually(t, "it is ready again", func() bool { return d.Ready() == nil && !p.lagging(time.Now()) }, func() string { return fmt.Sprint(d.Ready()) })
}
