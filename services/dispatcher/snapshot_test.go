package dispatcher

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/snapshots"
)

// countingStore counts what is kept.
type countingStore struct {
	*snapshots.Store
	puts atomic.Int64
}

func (s *countingStore) Put(ctx context.Context, name string, data []byte) error {
	s.puts.Add(1)
	return s.Store.Put(ctx, name, data)
}

// keeps gives the rig a store and a witness.
func (r *rig) keeps() *countingStore {
	r.t.Helper()
	s, err := snapshots.Open(r.t.Context(), r.js)
	if err != nil {
		r.t.Fatal(err)
	}
	c := &countingStore{Store: s}
	r.kept, r.witness = c, snapshots.NewWitness(r.t.TempDir())
	return c
}

// firstLife leaves one message sent and one pending behind a pause, and a snapshot of it.
func firstLife(t *testing.T) (r *rig, store *countingStore, waiting string) {
	t.Helper()
	r = newRig(t)
	store = r.keeps()
	d, stop := r.run(quick())
	r.awaitStage(r.accept(order{text: "sent"}), events.StageDispatched)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	waiting = r.accept(order{text: "waits"})
	r.awaitFolded(d)
	stop()
	if n := store.puts.Load(); n != 1 {
		t.Fatalf("%d snapshots at an orderly stop", n)
	}
	return r, store, waiting
}

// awaitFolded waits until a dispatcher is ready and has folded all there is.
func (r *rig) awaitFolded(d *Dispatcher) {
	r.t.Helper()
	last, err := r.log.LastSequence(r.t.Context(), events.EventsStream(r.p))
	if err != nil {
		r.t.Fatal(err)
	}
	eventually(r.t, "all folded", func() bool { return d.Ready() == nil && d.parts[r.p].mark().Sequence >= last }, func() string { return fmt.Sprint(d.Ready()) })
}

func TestStartAtASnapshot(t *testing.T) {
	t.Parallel()
	r, store, waiting := firstLife(t)
	d, stop := r.run(quick())
	r.awaitFolded(d)
	stop()
	if n := store.puts.Load(); n != 1 {
		t.Errorf("%d snapshots: the second life did not begin at that of the first", n)
	}
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.run(quick())
	r.awaitStage(waiting, events.StageDispatched)
	for _, text := range []string{"sent", "waits"} {
		if n := r.ledger(text); n != 1 {
			t.Errorf("%q left %d times", text, n)
		}
	}
}

// cutStore keeps nothing the first time: it waits until it is cut off.
type cutStore struct {
	*countingStore
	under chan struct{} // closed when the first put is under way
	first sync.Once
}

func (s *cutStore) Put(ctx context.Context, name string, data []byte) error {
	cut := false
	s.first.Do(func() {
		close(s.under)
		<-ctx.Done()
		cut = true
	})
	if cut {
		return ctx.Err()
	}
	return s.countingStore.Put(ctx, name, data)
}

// A stop cut off the snapshot that was being kept, and took it for kept: the next start read the log again.
func TestStopWhileASnapshotIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	store := &cutStore{countingStore: r.keeps(), under: make(chan struct{})}
	r.kept = store
	set := quick()
	set.SnapshotEvery = 1
	d, stop := r.run(set)
	eventually(t, "leads", d.Leading, nil)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	select {
	case <-store.under:
	case <-time.After(patience):
		t.Fatal("no snapshot was made")
	}
	r.awaitFolded(d)
	stop()
	if n := store.puts.Load(); n != 1 {
		t.Errorf("%d snapshots were kept", n)
	}
	found, err := d.parts[r.p].snapshots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := newest(found); s == nil || s.Sequence != d.parts[r.p].mark().Sequence {
		t.Errorf("the newest snapshot is %+v", s)
	}
}

// Snapshots that are cut, changed or of another version are passed over: the log is folded from its first event.
func TestUnusableSnapshotsArePassedOver(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func([]byte) []byte{
		"cut":       func(b []byte) []byte { return b[:len(b)-3] },
		"changed":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"no header": func([]byte) []byte { return []byte("snapshot") },
		"a newer fold": func(b []byte) []byte {
			fold := func(n int) string { return fmt.Sprintf(`"fold":%d`, n) }
			return []byte(strings.Replace(string(b), fold(queue.StateVersion), fold(queue.StateVersion+1), 1))
		},
		"a newer format": func(b []byte) []byte { return []byte(strings.Replace(string(b), `"format":1`, `"format":2`, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, store, waiting := firstLife(t)
			p := r.dispatcherPartition()
			data, err := store.Get(t.Context(), p.slotName(0))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.decode(data); err != nil {
				t.Fatal(err)
			}
			if err := store.Store.Put(t.Context(), p.slotName(0), spoil(data)); err != nil {
				t.Fatal(err)
			}
			d, stop := r.run(quick())
			r.awaitFolded(d)
			eventually(t, "leads", d.Leading, nil) // who never led keeps none
			stop()
			if n := store.puts.Load(); n != 2 {
				t.Errorf("%d snapshots: the unusable one was used", n)
			}
			r.instanceEvent(events.TypeInstanceResumed, "resumed")
			r.run(quick())
			r.awaitStage(waiting, events.StageDispatched)
			if n := r.ledger("waits"); n != 1 {
				t.Errorf("left %d times", n)
			}
		})
	}
}

// dispatcherPartition gives a partition that does not run.
func (r *rig) dispatcherPartition() *partition {
	return New(Config{Settings: quick(), Leases: r.leases, Catalog: r.catalog, Keys: r.keys, Logger: testLogger()}).partOf(r)
}

func (d *Dispatcher) partOf(r *rig) *partition { return newPartition(d, r.p, r.log) }

func TestSnapshotEverySoManyEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	store := r.keeps()
	set := quick()
	set.SnapshotEvery, set.WitnessEvery = 3, 10*time.Millisecond
	r.run(set)
	for store.puts.Load() < 2 { // a snapshot waits for the next event after it is due
		r.awaitStage(r.accept(order{text: "one more"}), events.StageDispatched)
		if t.Context().Err() != nil || len(r.history()) > 3000 {
			t.Fatalf("%d snapshots after %d events", store.puts.Load(), len(r.history()))
		}
	}
	eventually(t, "a witness of the end", func() bool {
		m, err := r.witness.Read(r.p.String())
		return err == nil && m.Sequence == uint64(len(r.history()))
	}, nil)
}

// Lanes are capped; what is beyond the cap is served from the fold, each message once.
func TestLanesBeyondTheCapAreServedFromTheFold(t *testing.T) {
	t.Parallel()
	const lanes = 50
	r := newRig(t)
	set := quick()
	set.LaneCap = 2
	var ids []string
	for i := range lanes {
		ids = append(ids, r.accept(order{text: fmt.Sprintf("lane %02d", i), tenant: fmt.Sprint("tenant-", i), class: events.ClassUtility}))
	}
	d, _ := r.run(set)
	most := int64(0)
	eventually(t, "all sent", func() bool {
		most = max(most, d.parts[r.p].lanes.Load(), int64(r.laneConsumers()))
		n := 0
		for i := range ids {
			n += r.ledger(fmt.Sprintf("lane %02d", i))
		}
		return n >= lanes
	}, nil)
	for i, id := range ids {
		r.awaitStage(id, events.StageDispatched)
		if n := r.ledger(fmt.Sprintf("lane %02d", i)); n != 1 {
			t.Errorf("the message of lane %d left %d times", i, n)
		}
	}
	if most != 2 {
		t.Errorf("at most %d lanes were open, want 2", most)
	}
}

func (r *rig) laneConsumers() int {
	s, err := r.js.Stream(r.t.Context(), events.EventsStream(r.p))
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for name := range s.ConsumerNames(r.t.Context()).Name() {
		if strings.HasPrefix(name, "lane_") {
			n++
		}
	}
	return n
}
