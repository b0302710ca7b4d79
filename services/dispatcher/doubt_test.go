package dispatcher

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/snapshots"
)

// records lists the sequences up to which the log says that it was accepted.
func (r *rig) records() (upTo []uint64) {
	for _, rec := range r.history() {
		if b, ok := rec.Body.(*events.DispatchRestored); ok {
			upTo = append(upTo, b.UpTo)
		}
	}
	return upTo
}

// forget loses all that was known of the log beside the log.
func (r *rig) forget() {
	r.witness = snapshots.NewWitness(r.t.TempDir())
	for slot := range slots {
		if err := r.kept.Delete(context.Background(), (&partition{n: r.p}).slotName(slot)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Promise P2 when queues are disposable: a log was restored and accepted, and snapshots and witness are lost again before the look-ups
// have ended. What may have left is still held, by a dispatcher that knows nothing but the log; the rest and what is new goes out.
func TestP2AcceptedLogIsHeldWithoutSnapshotsAndWitness(t *testing.T) {
	t.Parallel()
	var scheduled string
	r, left, stayed := restoredRig(t, func(r *rig) {
		scheduled = r.accept(order{text: "scheduled", window: 500 * time.Millisecond, deliverAt: time.Now().Add(4 * time.Second)})
	})
	s, err := snapshots.Open(t.Context(), r.js)
	if err != nil {
		t.Fatal(err)
	}
	r.kept = &countingStore{Store: s}
	last := r.last()
	set := quick()
	set.Accept, set.RestoredWait = map[events.Partition]uint64{r.p: last}, time.Hour // no look-up in this life
	d, stop := r.run(set)
	r.awaitFolded(d)
	stop()
	set.Accept = nil
	for _, more := range []func(*Settings){
		func(*Settings) {}, // from a snapshot
		func(*Settings) { r.forget() },
		func(s *Settings) { r.forget(); s.ID = "d2" },
	} {
		more(&set)
		d, stop := r.run(set)
		r.awaitFolded(d)
		r.awaitStage(r.accept(order{text: "new"}), events.StageDispatched)
		stop()
		if n := r.ledger("left") + r.ledger("stayed"); n != 1 {
			t.Fatalf("what was in doubt left %d times", n)
		}
	}
	r.forget()
	set.RestoredWait = time.Millisecond
	r.run(set)
	r.awaitStage(left, events.StageDispatched)
	r.awaitStage(stayed, events.StageDispatched)
	r.await(scheduled, "ended", func(v message.View) bool { return v.Stage == events.StageDispatched || v.Stage == events.StageFailed })
	if r.count(left, events.TypeDispatchStarted) != 0 || r.count(left, events.TypeDispatchProved) != 1 {
		t.Errorf("what had left:\n%s", r.story(left))
	}
	for _, text := range []string{"known", "left", "stayed"} {
		if n := r.ledger(text); n != 1 {
			t.Errorf("%q left %d times", text, n)
		}
	}
	if got := r.records(); len(got) != 1 || got[0] != last {
		t.Errorf("the log was accepted up to %v, it ended at %d", got, last)
	}
}

// chainOf is the digest of the ids of the first events of a log.
func chainOf(recs []events.Recorded) string {
	var at place
	for _, rec := range recs {
		at = at.next(rec)
	}
	return hex.EncodeToString(at.chain[:])
}

// unwritable is a witness that can be read only.
type unwritable struct{ snapshots.Witness }

func (unwritable) Write(string, snapshots.Mark) error { return errors.New("read-only file system") }

// The word is in the log before witness and snapshots forget what they knew. A dispatcher that dies between the two is stopped again,
// whatever the log holds by then, and goes on with the same word; its event is not appended again.
func TestWordIsInTheLogBeforeTheWitness(t *testing.T) {
	t.Parallel()
	r, left, stayed := restoredRig(t, nil)
	last, witness := r.last(), r.witness
	set := quick()
	set.Accept, set.RestoredWait = map[events.Partition]uint64{r.p: last}, time.Millisecond
	r.witness = unwritable{witness.(snapshots.Witness)} //nolint:forcetypeassert // keeps made it
	d, stop := r.run(set)
	eventually(t, "the word is in the log", func() bool { return len(r.records()) == 1 }, nil)
	eventually(t, "it lives", d.members.lives, nil)
	if err := d.Ready(); err == nil {
		t.Error("ready although the witness does not know")
	}
	stop()
	r.witness = witness
	again := set
	again.Accept = nil
	d, stop = r.run(again)
	if found := r.disagrees(d); found.Last != last+1 {
		t.Error(found)
	}
	stop()
	if n := r.count(left, events.TypeDispatchStarted) + r.count(stayed, events.TypeDispatchStarted); n > 0 || r.last() != last+1 {
		t.Errorf("%d starts, the log goes to %d from %d", n, r.last(), last)
	}
	r.run(set)
	r.awaitStage(left, events.StageDispatched)
	r.awaitStage(stayed, events.StageDispatched)
	if got := r.records(); len(got) != 1 || r.ledger("left") != 1 || r.ledger("stayed") != 1 {
		t.Errorf("accepted up to %v, left %d, stayed %d", got, r.ledger("left"), r.ledger("stayed"))
	}
}

// Two dispatchers are told the same word, each with a witness of its own: it is in the log once, and both hold by it.
func TestTwoDispatchersAcceptOneLog(t *testing.T) {
	t.Parallel()
	r, left, stayed := restoredRig(t, nil)
	last := r.last()
	mark, err := r.witness.Read(r.p.String())
	if err != nil {
		t.Fatal(err)
	}
	set := quick()
	set.Accept, set.RestoredWait = map[events.Partition]uint64{r.p: last}, time.Hour
	var both []*Dispatcher
	for _, id := range []string{"d1", "d2"} {
		w := snapshots.NewWitness(filepath.Join(t.TempDir(), id))
		if err := w.Write(r.p.String(), mark); err != nil {
			t.Fatal(err)
		}
		r.witness, set.ID = w, id
		d, _ := r.run(set)
		both = append(both, d)
	}
	for _, d := range both {
		r.awaitFolded(d)
		a := d.parts[0].actor(instanceID)
		a.mu.Lock()
		if !a.q.InDoubt(left) || !a.q.InDoubt(stayed) {
			t.Error("nothing is in doubt")
		}
		a.mu.Unlock()
	}
	r.awaitStage(r.accept(order{text: "new"}), events.StageDispatched)
	if got := r.records(); len(got) != 1 {
		t.Errorf("accepted up to %v", got)
	}
}

// A witness of an older version remembers a restore of which the log has no word: it is appended at the start. The word is not taken
// for a log that has gone on.
func TestRestoreThatOnlyTheWitnessKnows(t *testing.T) {
	t.Parallel()
	r, left, stayed := restoredRig(t, nil)
	history := r.history()
	at := history[len(history)-1]
	dir := t.TempDir()
	w := snapshots.NewWitness(dir)
	m := snapshots.Mark{Sequence: 1, EventID: history[0].ID, Chain: chainOf(history[:1]), Restored: at.Position.Sequence, RestoredAt: time.Now().UTC()}
	if err := w.Write(r.p.String(), m); err != nil {
		t.Fatal(err)
	}
	r.witness = w
	set := quick()
	set.RestoredWait = time.Hour
	d, stop := r.run(set)
	r.awaitFolded(d)
	stop()
	if got := r.records(); len(got) != 1 || got[0] != m.Restored {
		t.Fatalf("accepted up to %v", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	set.RestoredWait = time.Millisecond
	r.run(set)
	r.awaitStage(left, events.StageDispatched)
	r.awaitStage(stayed, events.StageDispatched)
	if n := r.ledger("left"); n != 1 {
		t.Errorf("it left %d times", n)
	}
}

// Who was removed is asked nothing any more, and its attempts without an answer cost no more than those of others.
func TestARemovedInstanceIsNotLookedUpAgainAndAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "reset", When: "before", Call: "sendText", TextContains: "gone"})
	set := quick()
	set.Rules.PresumedAfter = time.Hour
	var looks atomic.Int64
	set.Now = func() time.Time { looks.Add(1); return time.Now() }
	r.run(set)
	id := r.accept(order{text: "gone", window: 10 * time.Minute})
	eventually(t, "unknown", func() bool { return r.count(id, events.TypeDispatchUnknown) == 1 }, func() string { return r.story(id) })
	r.catalog.change(events.RemovedType(events.KindInstance), events.KindInstance, instanceID, &events.Removed{})
	before := looks.Load()
	<-time.After(2 * time.Second) // in which a look-up is due, and little may happen
	if n := looks.Load() - before; n > 500 {
		t.Errorf("the clock was read %d times in 2 s", n)
	}
}
