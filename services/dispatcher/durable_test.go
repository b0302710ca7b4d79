package dispatcher

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/groupcommit"
)

// A call begins when its start is on disk: a power cut must not forget it. Its outcome does not wait for that; the next start does.
func TestACallWaitsUntilItsStartIsOnDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sync := make(chan error)
	syncer := groupcommit.Start(func() error { return <-sync }, groupcommit.Options{})
	stop := make(chan struct{})
	t.Cleanup(func() {
		go func() { // whatever is still asked for
			for {
				select {
				case sync <- nil:
				case <-stop:
					return
				}
			}
		}()
		if err := syncer.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		close(stop)
	})
	plain := r.log
	r.log = eventlog.New(r.js, eventlog.Options{Logger: zerolog.Nop(), Durability: syncer})
	r.run(quick())
	r.log = plain // of all but the dispatcher
	for _, text := range []string{"first", "second"} {
		id := r.accept(order{text: text})
		eventually(t, "its start is stored", func() bool { return r.count(id, events.TypeDispatchStarted) == 1 }, nil)
		select {
		case <-time.After(100 * time.Millisecond): // for a call that does not wait
		case <-t.Context().Done():
		}
		if n := r.ledger(text); n != 0 {
			t.Fatalf("%s was called before its start was on disk", text)
		}
		sync <- nil
		r.awaitStage(id, events.StageDispatched) // no other sync ends
	}
}
