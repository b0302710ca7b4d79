package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// told appends a word about any instance.
func (r *rig) told(instance, typ, name string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := r.log.Append(ctx, events.Event{
		Address:  events.EventSubject(r.p, instance, events.GroupInstance, name),
		Envelope: events.Envelope{ID: uuid.NewString(), Type: typ, Source: "pilot/test", Time: time.Now().UTC()},
		Body:     &events.InstanceChanged{By: "test"},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) awaitOpened(n int) {
	r.t.Helper()
	eventually(r.t, "a probe finds it open", func() bool { return r.total(events.TypeInstanceOpened) >= n }, nil)
	if got := r.total(events.TypeInstanceOpened); got != n {
		r.t.Errorf("opened %d times, want %d", got, n)
	}
}

// C2 42: the word that a closed instance is open again was lost, and no message comes, since the API takes none for it. It is probed all
// the same: when it is closed before a dispatcher starts, while one runs, when the one that worked for it has gone, and after a start at a
// snapshot.
func TestC2AClosedInstanceWithoutMessagesIsProbed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	store := r.keeps()
	set := quick()
	r.instanceEvent(events.TypeInstanceClosed, "closed")
	d, stop := r.run(named(set, "heir", true))
	r.awaitOpened(1)
	r.instanceEvent(events.TypeInstanceClosed, "closed")
	r.awaitOpened(2)
	set.ID = "heir"
	heir, leave := r.run(set)
	eventually(t, "the heir folds too", func() bool { return heir.parts[0].ready() == nil }, nil)
	awaitOwner(t, d)
	r.change("close")
	r.instanceEvent(events.TypeInstanceClosed, "closed")
	probed := func(d *Dispatcher) {
		eventually(t, "probes", func() bool {
			a := d.parts[0].actor(instanceID)
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.probes > 1
		}, nil)
	}
	probed(d)
	stop()
	r.change("open")
	r.awaitOpened(3)
	r.change("close")
	r.instanceEvent(events.TypeInstanceClosed, "closed")
	probed(heir)
	leave()
	if store.puts.Load() == 0 {
		t.Fatal("no snapshot")
	}
	r.change("open")
	r.run(quick())
	r.awaitOpened(4)
}

// C2 42: a resume ends what the gateway called closed, in the dispatcher and for the API; when the number is not there, its first message
// parks it, and a probe goes on asking.
func TestC2AResumedNumberThatIsNotThereIsParkedByItsFirstMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.change("close")
	r.run(quick())
	r.instanceEvent(events.TypeInstanceClosed, "closed")
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	id := r.accept(order{text: "tried"})
	eventually(t, "park", func() bool { return len(r.parks()) == 1 }, func() string { return r.story(id) })
	r.change("open")
	r.awaitStage(id, events.StageDispatched)
}

// A probe that finds it open is one that failed while the log cannot say so: the next comes no sooner, and nobody is told that it resumed.
func TestAProbeThatTheLogDoesNotTakeIsNone(t *testing.T) {
	t.Parallel()
	r, says := newRig(t), &heard{}
	r.says = says
	r.instanceEvent(events.TypeInstanceClosed, "closed")
	r.seal(r.p)
	d, _ := r.run(quick())
	eventually(t, "probes", func() bool {
		a := d.parts[0].actor(instanceID)
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.probes > 2
	}, nil)
	if lines := says.lines("resumed after a probe"); len(lines) != 0 {
		t.Errorf("it says %q", lines)
	}
}

// change sets the state of the instance's connection at the gateway; nobody hears of it.
func (r *rig) change(state string) {
	r.t.Helper()
	if err := r.sim.ChangeInstance(r.name, evolutionsim.Change{State: &state}); err != nil {
		r.t.Fatal(err)
	}
}

// Closed instances cost a goroutine and a probe now and then, at waits that double; those that rest beside them cost nothing. However many
// are closed, their gateway is asked at most once in probeGap.
func TestC2ManyClosedInstancesAskTheirGatewayNowAndThen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.many(60)
	closed := ids[:40]
	for i, id := range ids {
		if r.told(id, events.TypeInstanceOpened, "opened"); i < len(closed) {
			r.told(id, events.TypeInstanceClosed, "closed")
		}
	}
	r.everywhere(404, `{"status":404,"error":"Not Found","response":{"message":["The \"x\" instance does not exist"]}}`, "")
	set := quick()
	set.ProbeEvery, set.ProbeMax, set.Idle = 20*time.Millisecond, time.Second, 50*time.Millisecond
	d, _ := r.run(set)
	p := d.parts[0]
	running := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.running)
	}
	eventually(t, "all closed ones were probed some times", func() bool {
		return !slices.ContainsFunc(closed, func(id string) bool {
			a := p.actor(id)
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.probes < 4
		})
	}, nil)
	eventually(t, "a goroutine for each closed instance and no other", func() bool { return running() == len(closed) }, func() string { return fmt.Sprint(running()) })
	began, before := time.Now(), r.sim.Stats().Requests
	eventually(t, "some more", func() bool { return r.sim.Stats().Requests >= before+30 }, nil)
	if took := time.Since(began); took < 29*probeGap {
		t.Errorf("30 probes in %s", took)
	}
	if n := r.total(events.TypeInstanceOpened); n != len(ids) {
		t.Errorf("%d opened", n)
	}
	for _, id := range closed[1:] {
		r.catalog.change(events.RemovedType(events.KindInstance), events.KindInstance, id, &events.Removed{})
	}
	eventually(t, "what was removed rests", func() bool { return running() == 1 }, nil)
}
