package dispatcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/groupcommit"
)

// disk runs a dispatcher whose log is on disk when sync says so.
func (r *rig) disk(set Settings, sync func() error) {
	r.t.Helper()
	syncer := groupcommit.Start(sync, groupcommit.Options{})
	r.t.Cleanup(func() {
		if err := syncer.Close(context.WithoutCancel(r.t.Context())); err != nil {
			r.t.Error(err)
		}
	})
	plain := r.log
	r.log = eventlog.New(r.js, eventlog.Options{Logger: zerolog.Nop(), Durability: syncer})
	r.run(set)
	r.log = plain // of all but the dispatcher
}

// A call begins when its start is on disk: a power cut must not forget it. Its outcome does not wait for that; the next start does.
func TestACallWaitsUntilItsStartIsOnDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	synced := make(chan struct{})
	set := quick()
	set.AppendTry, set.Budget, set.CallLimit = patience, patience, 2*patience // only the disk decides when it is called
	r.disk(set, func() error {
		select {
		case synced <- struct{}{}:
		case <-t.Context().Done():
		}
		return nil
	})
	for _, text := range []string{"first", "second"} {
		id := r.accept(order{text: text})
		r.storedOnly(id, text, 100*time.Millisecond)
		select {
		case <-synced:
		case <-time.After(patience):
			t.Fatal("nothing waits for the disk")
		}
		r.awaitStage(id, events.StageDispatched) // no other sync ends
	}
}

// storedOnly checks that a start is stored, and for a while that no call follows.
func (r *rig) storedOnly(id, text string, while time.Duration) {
	r.t.Helper()
	eventually(r.t, "its start is stored", func() bool { return r.count(id, events.TypeDispatchStarted) == 1 }, nil)
	select {
	case <-time.After(while):
	case <-r.t.Context().Done():
	}
	if n := r.ledger(text); n != 0 {
		r.t.Fatalf("%s was called before its start was on disk", text)
	}
}

// A start whose sync takes longer than an append may is stored, and read by the fold, and not called: it is said to be so, and tried again.
func TestAStartThatIsOnDiskTooLateIsNotCalled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.AppendTry = 100 * time.Millisecond // well within its budget
	slow := make(chan struct{})
	r.disk(set, func() error {
		select {
		case <-slow:
		case <-t.Context().Done():
		}
		return nil
	})
	id := r.accept(order{text: "late"})
	r.storedOnly(id, "late", 300*time.Millisecond)
	close(slow)
	r.awaitStage(id, events.StageDispatched)
	s, _ := r.state(id)
	if at := s.Record.Summarize().Attempts; len(at) < 2 || at[0].State != message.AttemptDeferred || at[0].Called || r.ledger("late") != 1 {
		t.Errorf("attempts %+v\n%s", at, r.story(id))
	}
}

// A disk that failed is failed for good: nothing is called, and no event after the other tries it again.
func TestNothingIsCalledOnAFailedDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.disk(quick(), func() error { return errors.New("input/output error") })
	id := r.accept(order{text: "lost"})
	r.storedOnly(id, "lost", time.Second) // some retries of 250 ms
	if s, _ := r.state(id); len(s.Record) != 1 {
		t.Errorf("%d facts of it\n%s", len(s.Record), r.story(id))
	}
}
