package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/snapshots"
	"pilotstatus.dev/infra/topology"
)

// rewind puts an older copy of the log in its place: its first n events.
func (r *rig) rewind(n uint64) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := events.EventsStream(r.p)
	s, err := r.js.Stream(ctx, name)
	if err != nil {
		r.t.Fatal(err)
	}
	var old []*jetstream.RawStreamMsg
	for seq := uint64(1); seq <= n; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			r.t.Fatal(err)
		}
		old = append(old, m)
	}
	if err := r.js.DeleteStream(ctx, name); err != nil {
		r.t.Fatal(err)
	}
	if _, err := topology.Ensure(ctx, r.js, topology.Deployment{Partitions: partitionN, Replicas: 1}); err != nil {
		r.t.Fatal(err)
	}
	for _, m := range old {
		h := nats.Header{}
		for k, v := range m.Header {
			if k != jetstream.ExpectedLastSubjSeqHeader && k != jetstream.ExpectedLastSubjSeqSubjHeader {
				h[k] = v
			}
		}
		if _, err := r.js.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Header: h, Data: m.Data}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) last() uint64 { return uint64(len(r.history())) }

// disagrees waits until a dispatcher says that the log is another one.
func (r *rig) disagrees(d *Dispatcher) *snapshots.Disagreement {
	r.t.Helper()
	var found *snapshots.Disagreement
	eventually(r.t, "disagreement", func() bool { return errors.As(d.Ready(), &found) }, func() string { return fmt.Sprint("ready: ", d.Ready()) })
	return found
}

// restoredRig is a gateway that has had "left" and refused "stayed", and a log restored to before both, with nothing but the
// witness to know. before is its last sequence.
func restoredRig(t *testing.T, more func(*rig)) (r *rig, left, stayed string) {
	t.Helper()
	r = newRig(t)
	r.keeps()
	r.kept = nil
	set := quick()
	set.WitnessEvery = 20 * time.Millisecond
	_, stop := r.run(set)
	r.awaitStage(r.accept(order{text: "known"}), events.StageDispatched)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	left, stayed = r.accept(order{text: "left"}), r.accept(order{text: "stayed"})
	if more != nil {
		more(r)
	}
	kept := r.last()
	f, err := r.sim.AddFault(evolutionsim.Fault{
		Kind: "answer", Status: 500, Body: `{"status":500,"error":"Internal Server Error","response":{"message":"Connection Closed"}}`, TextContains: "stayed",
	})
	if err != nil {
		t.Fatal(err)
	}
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(left, events.StageDispatched)
	eventually(t, "refused once", func() bool { return r.count(stayed, events.TypeDispatchDeferred) > 0 }, nil)
	stop()
	r.sim.RemoveFault(f)
	r.rewind(kept)
	r.instanceEvent(events.TypeInstanceResumed, "resumed") // by hand, as an operator who does not know
	return r, left, stayed
}

// A log restored from an older copy: nothing is sent until an operator says so, and then what had left is found at the gateway
// and proved, what had not goes out once. Later starts need no word.
func TestRestoredLogStopsUntilAnOperatorsWord(t *testing.T) {
	t.Parallel()
	r, left, stayed := restoredRig(t, nil)
	last := r.last()

	set := quick()
	set.Accept = map[events.Partition]uint64{r.p: last - 1} // of yesterday
	d, stop := r.run(set)
	if found := r.disagrees(d); found.Last != last {
		t.Errorf("it names %d, the log ends at %d", found.Last, last)
	}
	eventually(t, "it lives", d.members.lives, nil)
	stop()
	if got := r.last(); got != last {
		t.Errorf("%d events were appended to a log that is not trusted", got-last)
	}

	set.Accept = map[events.Partition]uint64{r.p: last}
	set.RestoredWait = 300 * time.Millisecond
	_, stop = r.run(set)
	r.awaitStage(left, events.StageDispatched)
	r.awaitStage(stayed, events.StageDispatched)
	stop()
	if r.count(left, events.TypeDispatchStarted) != 0 || r.count(left, events.TypeDispatchProved) != 1 {
		t.Errorf("what had left:\n%s", r.story(left))
	}

	set.Accept = map[events.Partition]uint64{r.p: last} // the flag was left in place
	d, _ = r.run(set)
	r.awaitFolded(d)
	r.awaitStage(r.accept(order{text: "next"}), events.StageDispatched)
	for _, text := range []string{"known", "left", "stayed", "next"} {
		if n := r.ledger(text); n != 1 {
			t.Errorf("%q left %d times", text, n)
		}
	}
}

// What a look-up says nothing about stays held, in the next life too, and ends at its deadline: two messages with one text and
// one row are not told apart.
func TestRestoredMessagesInDoubtEndAtTheirDeadline(t *testing.T) {
	t.Parallel()
	var twin string
	r, left, _ := restoredRig(t, func(r *rig) {
		twin = r.accept(order{text: "left", window: time.Second, deliverAt: time.Now().Add(12 * time.Second)})
	})
	set := quick()
	set.RestoredWait = time.Millisecond
	set.Accept = map[events.Partition]uint64{r.p: r.last()}
	d, stop := r.run(set)
	r.awaitFolded(d)
	stop()
	set.Accept = nil
	r.run(set)
	v := r.await(twin, "ended", func(v message.View) bool { return v.Stage == events.StageFailed })
	if v.ErrorCode != events.FailExpired {
		t.Errorf("%+v", v)
	}
	if n := r.ledger("left"); n != 1 || r.count(left, events.TypeDispatchStarted)+r.count(twin, events.TypeDispatchStarted) > 0 {
		t.Errorf("left %d times\n%s%s", n, r.story(left), r.story(twin))
	}
}

// That nothing is found means nothing while the gateway does not show what is known to have left: here nothing is known.
func TestRestoredMessagesStayHeldWhileTheGatewayShowsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keeps()
	r.kept = nil
	d, stop := r.run(quick())
	r.instanceEvent(events.TypeInstancePaused, "paused")
	id := r.accept(order{text: "doubtful", window: 6 * time.Second})
	kept := r.last()
	r.instanceEvent(events.TypeInstancePaused, "paused")
	r.awaitFolded(d)
	stop()
	r.rewind(kept)
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	set := quick()
	set.RestoredWait = time.Millisecond
	set.Accept = map[events.Partition]uint64{r.p: r.last()}
	r.run(set)
	v := r.awaitStage(id, events.StageFailed)
	if n := r.ledger("doubtful"); n != 0 || v.ErrorCode != events.FailExpired {
		t.Errorf("left %d times, %+v", n, v)
	}
}

// A log that is replaced under a running dispatcher stops it, even when it has grown past the place again.
func TestLogReplacedUnderARunningDispatcher(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keeps()
	set := quick()
	set.WitnessEvery = 50 * time.Millisecond
	d, _ := r.run(set)
	r.awaitStage(r.accept(order{text: "first"}), events.StageDispatched)
	r.awaitFolded(d)
	eventually(t, "a look at the log as it is", func() bool {
		m, err := r.witness.Read(r.p.String())
		return err == nil && m.Sequence == r.last()
	}, nil)
	r.rewind(1)
	var ids []string
	for range 4 {
		ids = append(ids, r.accept(order{text: "other"}))
	}
	found := r.disagrees(d)
	if !strings.Contains(found.Error(), "--accept-log") {
		t.Error(found)
	}
	for _, id := range ids {
		if n := r.count(id, events.TypeDispatchStarted); n > 0 {
			t.Errorf("started on a log that is not trusted:\n%s", r.story(id))
		}
	}
	if n := r.ledger("first") + r.ledger("other"); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A view that has read further than the log reaches, or another event, says the same, also with no witness and no snapshot; one that
// cannot answer says nothing.
func TestLogThatAViewHasReadOtherwise(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	saw := func(m snapshots.Mark, err error) {
		r.view = func(context.Context, events.Partition) (snapshots.Mark, error) { return m, err }
	}
	saw(snapshots.Mark{}, errors.New("no Postgres"))
	_, stop := r.run(quick())
	r.awaitStage(r.accept(order{text: "sent"}), events.StageDispatched)
	stop()
	for _, m := range []snapshots.Mark{{Sequence: 40}, {Sequence: 40, EventID: "x"}, {Sequence: 1, EventID: "x"}} {
		saw(m, nil)
		d, stop := r.run(quick())
		if found := r.disagrees(d); found.Sequence != m.Sequence || found.Last != r.last() || found.Witness != snapshots.ByView {
			t.Errorf("%+v", found)
		}
		stop()
	}
	for _, m := range []snapshots.Mark{{}, {Sequence: 2}, {Sequence: 1, EventID: r.history()[0].ID}} {
		saw(m, nil)
		d, stop := r.run(quick())
		r.awaitFolded(d)
		stop()
	}
}

func TestDamagedWitnessStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keeps()
	dir := t.TempDir()
	r.witness = snapshots.NewWitness(dir)
	if err := os.WriteFile(dir+"/"+r.p.String()+".json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, stop := r.run(quick())
	if found := r.disagrees(d); !strings.Contains(found.Found, "damaged") {
		t.Error(found)
	}
	stop()
	set := quick()
	set.Accept = map[events.Partition]uint64{r.p: 0} // there is nothing in the log
	d, _ = r.run(set)
	r.awaitFolded(d)
	r.awaitStage(r.accept(order{text: "goes"}), events.StageDispatched)
}

// The chain of ids tells two logs apart that hold the same event at the place of the witness.
func TestChainOfIDs(t *testing.T) {
	t.Parallel()
	rec := func(seq uint64, id string) events.Recorded {
		return events.Recorded{Event: events.Event{Envelope: events.Envelope{ID: id}}, Position: events.Position{Sequence: seq}}
	}
	r := newRig(t)
	p := r.dispatcherPartition()
	at, err := p.walk([]events.Recorded{rec(1, "a"), rec(2, "b")})
	if err != nil {
		t.Fatal(err)
	}
	p.keep.at = at
	m := p.mark()
	p.keep.at = place{}
	p.keep.expect = []expected{{m, "the witness"}}
	if _, err := p.walk([]events.Recorded{rec(1, "a"), rec(2, "b")}); err != nil {
		t.Errorf("the same: %v", err)
	}
	var d *snapshots.Disagreement
	if _, err := p.walk([]events.Recorded{rec(1, "x"), rec(2, "b")}); !errors.As(err, &d) || !errors.As(p.trust(t.Context()), &d) {
		t.Errorf("another: %v", err)
	}
}
