package receipts

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// Receipts of messages that nobody knows hold up none of those that are known, however many they are.
func TestUnmatchedReceiptsHoldUpNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := quick
	s.Grace = time.Hour
	r.correlate(r.log, s)
	r.started("msg_1", "")
	r.accepted("msg_1", "K1")
	var group sync.WaitGroup
	const many = 1500 // more than may be unacknowledged
	for range 8 {
		group.Go(func() {
			for i := range many / 8 {
				r.receipt(fmt.Sprint("F", i), "READ")
			}
		})
	}
	group.Wait()
	r.receipt("K1", "SERVER_ACK")
	r.wait(receiptFilter, "msg_1.sent")
}

// deaf is the log of a correlator to which the consumer brings nothing: another one took it.
type deaf struct{ Log }

func (deaf) Consume(ctx context.Context, _ eventlog.DurableConfig, _ func(context.Context, *eventlog.Delivery)) error {
	<-ctx.Done()
	return ctx.Err()
}

// Whoever consumed a receipt of a known message dies before it is recorded: another one, which has heard of it, records it.
func TestReceiptOfADeadConsumerIsRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.started("msg_1", "")
	r.accepted("msg_1", "K1")
	s := quick
	s.Prune = 20 * time.Millisecond
	r.correlate(deaf{r.log}, s)
	r.receipt("K1", "SERVER_ACK")
	r.wait(receiptFilter, "msg_1.sent")
}

// counted is a log that counts what is appended outside of the fenced group.
type counted struct {
	Log
	n *atomic.Int32
}

func (c counted) Append(ctx context.Context, ev events.Event) (eventlog.Ack, error) {
	c.n.Add(1)
	return c.Log.Append(ctx, ev)
}

// Of two correlators the one that consumes a receipt records it; the other one lets go of it.
func TestTwoCorrelatorsRecordAReceiptOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := quick
	s.Grace, s.Prune = time.Hour, 20*time.Millisecond
	var appended atomic.Int32
	for range 2 {
		r.correlate(counted{r.log, &appended}, s)
	}
	const messages = 10
	var want []string
	for i := range messages {
		id, k := fmt.Sprint("msg_", i), fmt.Sprint("K", i)
		r.started(id, "")
		r.accepted(id, k)
		want = append(want, id+".sent", id+".delivered")
	}
	// Both have read the acceptances when one of them records a receipt of the last.
	r.receipt(fmt.Sprint("K", messages-1), "READ")
	r.waitAny(receiptFilter, fmt.Sprintf("msg_%d.read", messages-1))
	for i := range messages {
		r.receipt(fmt.Sprint("K", i), "SERVER_ACK")
		r.receipt(fmt.Sprint("K", i), "DELIVERY_ACK")
	}
	r.waitAny(receiptFilter, append(want, fmt.Sprintf("msg_%d.read", messages-1))...)
	if n := appended.Load(); n > 2*messages+2 {
		t.Errorf("%d appends for %d receipts", n, 2*messages+1)
	}
}

// What anybody recorded is held no longer, also when only the receipt names the key id: its message is older than memory.
func TestWhatIsRecordedIsLetGo(t *testing.T) {
	t.Parallel()
	b, now := newBook(10, 10), time.Now()
	put := func(seq uint64, typ, group, name, gatewayID string) []key {
		return b.apply(events.Recorded{
			Event: events.Event{
				Envelope: events.Envelope{Type: typ, Subject: "msg_1", TenantID: "acme", Attempt: 1, QueuedSeq: 1, GatewayID: gatewayID, Time: now},
				Address:  events.EventSubject(partition, instance, group, name),
			}, Known: true, Stored: now, Position: events.Position{Partition: partition, Sequence: seq},
		}, now)
	}
	hold := func(id string, state events.Status, others bool) {
		b.hold(key{instance, id}, sighting{state: state, received: now, others: others}, time.Second)
	}
	put(1, events.TypeDispatchAccepted, events.GroupDispatch, "accepted", "K1")
	hold("K1", events.StatusSent, true)
	hold("K1", events.StatusRead, true)
	hold("OLD", events.StatusSent, false)
	if ready := put(2, events.TypeReceiptDelivered, events.GroupReceipt, "delivered", "OLD"); len(ready) != 0 || len(b.held) != 2 {
		t.Errorf("%v is ready although others record it, %d held", ready, len(b.held))
	}
	put(3, events.TypeReceiptSent, events.GroupReceipt, "sent", "OLD")
	if len(b.held) != 1 || len(b.sightings(key{instance, "K1"})) != 0 || len(b.held[key{instance, "K1"}].Value.(*held).seen) != 1 {
		t.Errorf("%d held", len(b.held))
	}
	if left := b.overdue(now); len(left) != 0 {
		t.Errorf("%v at once", left)
	}
	if left := b.overdue(now.Add(time.Second)); len(left) != 1 || len(b.sightings(left[0])) != 1 {
		t.Errorf("%v is left", left)
	}
	put(4, events.TypeReceiptRead, events.GroupReceipt, "read", "K1")
	if len(b.held)+len(b.questions) != 0 {
		t.Errorf("%d held", len(b.held))
	}
}

// asks is a read side that knows one message and counts the questions about each key id.
type asks struct {
	of    map[string]int
	known string
}

func (a *asks) ByGatewayID(_ context.Context, _, id string) (Known, bool, error) {
	a.of[id]++
	return Known{MessageID: "msg_1", TenantID: "acme", QueuedSeq: 1, Attempt: 1, Left: true}, id == a.known, nil
}

// However many key ids nobody knows, a new one is asked about soon, and each of the others ever less often.
func TestNoKeyWaitsForThoseThatNobodyKnows(t *testing.T) {
	t.Parallel()
	const many, perSweep, sweep = 30_000, 20, 500 * time.Millisecond
	b, first, most := newBook(10, 2*many), 10*time.Minute, 6*time.Hour
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for i := range many {
		b.hold(key{instance, fmt.Sprint("F", i)}, sighting{state: events.StatusRead, received: start}, 30*time.Second)
	}
	mine := key{instance, "MINE"}
	var held, found time.Time
	asked := map[key]int{}
	for at := start; at.Before(start.Add(12 * time.Hour)); at = at.Add(sweep) {
		if held.IsZero() && at.Sub(start) >= time.Hour {
			held = at
			b.hold(mine, sighting{state: events.StatusDelivered, received: at}, 30*time.Second)
		}
		for range perSweep {
			k, ok := b.question(at, first)
			if !ok {
				break
			}
			asked[k]++
			b.asked(k, at, first, most)
			if k == mine && found.IsZero() {
				found = at
			}
		}
	}
	if found.IsZero() || found.Sub(held) > 15*time.Minute {
		t.Errorf("asked about after %s", found.Sub(held))
	}
	least, largest := many, 0
	for _, n := range asked {
		least, largest = min(least, n), max(largest, n)
	}
	if len(asked) != many+1 || least < 5 || largest > 7 {
		t.Errorf("%d key ids were asked about, %d to %d times in 12 hours", len(asked), least, largest)
	}
}

// The sweep asks in that order, goes on where the read side failed, and adopts what it finds.
func TestTheFinderIsAskedInTurn(t *testing.T) {
	t.Parallel()
	f := &asks{of: map[string]int{}, known: "OLD"}
	c := NewCorrelator(nil, partition, Settings{Finder: f, AskLimit: 2, Grace: time.Second})
	received := time.Now().Add(-time.Hour)
	for i, id := range []string{"A", "B", "C", "OLD"} {
		c.book.hold(key{instance, id}, sighting{state: events.StatusSent, received: received.Add(time.Duration(i) * time.Second)}, time.Second)
	}
	c.book.hold(key{instance, "NEW"}, sighting{state: events.StatusSent, received: time.Now()}, time.Hour)
	for range 3 {
		c.ask(t.Context())
	}
	if len(f.of) != 4 || f.of["A"]+f.of["B"]+f.of["C"]+f.of["OLD"] != 4 || f.of["NEW"] != 0 {
		t.Errorf("asked %v", f.of)
	}
	if cl, known := c.book.claims[key{instance, "OLD"}]; !known || cl.message.id != "msg_1" {
		t.Error("what was found is not known")
	}
	c.settings.Finder = down{}
	c.book.held[key{instance, "A"}].Value.(*held).nextAsk = received
	c.ask(t.Context())
	if h := c.book.held[key{instance, "A"}].Value.(*held); h.asked != 1 || !h.nextAsk.Equal(received) {
		t.Error("a question that failed counts")
	}
}

type down struct{}

func (down) ByGatewayID(context.Context, string, string) (Known, bool, error) {
	return Known{}, false, errors.New("read side is down")
}

// Whatever is held, released and asked about, the order of questions holds what is held, and gives the earliest.
func TestQuestionsAreAboutWhatIsHeld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, now := newBook(100, 8), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			k := key{instance, string(rune('a' + rapid.IntRange(0, 11).Draw(t, "key")))}
			state := rapid.SampledFrom([]events.Status{events.StatusSent, events.StatusRead}).Draw(t, "state")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				b.hold(k, sighting{state: state, received: now}, time.Minute)
			case 2:
				b.release(k, state)
			default:
				if k, ok := b.question(now, time.Hour); ok {
					for _, h := range b.questions {
						if h.nextAsk.Before(b.held[k].Value.(*held).nextAsk) {
							t.Fatalf("%v is asked about before %v", k, h.key)
						}
					}
					b.asked(k, now, time.Minute, time.Hour)
				}
			}
			if len(b.questions) != len(b.held) || b.heldOrder.Len() != len(b.held) {
				t.Fatalf("%d held, %d in order, %d to ask about", len(b.held), b.heldOrder.Len(), len(b.questions))
			}
			for i, h := range b.questions {
				if e := b.held[h.key]; h.place != i || e == nil || e.Value.(*held) != h || len(h.seen) == 0 {
					t.Fatalf("%+v at %d", h, i)
				}
			}
		}
	})
}

// What a message takes of memory is what docs/operate.md says; it is measured alone.
func TestMemoryOfAMessage(t *testing.T) {
	b := newBook(1_000_000, 1)
	const n = 50_000
	now := time.Now()
	var seq uint64
	put := func(typ, group, name, id, gatewayID string) {
		seq++
		b.apply(events.Recorded{
			Event: events.Event{
				Envelope: events.Envelope{Type: typ, Subject: id, TenantID: "acme", Attempt: 1, QueuedSeq: seq, GatewayID: gatewayID, Time: now},
				Address:  events.EventSubject(partition, instance, group, name),
			}, Known: true, Stored: now, Position: events.Position{Partition: partition, Sequence: seq},
		}, now)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range n {
		id, k := fmt.Sprintf("msg_0198c5d3a6a07c2b8d1f%012d", i), fmt.Sprintf("3EB0%018d", i)
		put(events.TypeDispatchStarted, events.GroupDispatch, "started", id, "")
		put(events.TypeDispatchAccepted, events.GroupDispatch, "accepted", id, k)
		put(events.TypeReceiptSent, events.GroupReceipt, "sent", id, k)
		put(events.TypeReceiptDelivered, events.GroupReceipt, "delivered", id, k)
		put(events.TypeReceiptRead, events.GroupReceipt, "read", id, k)
	}
	each := (heap() - before) / n
	t.Logf("%d bytes a message", each)
	if each > memoryOfMessage {
		t.Errorf("%d bytes a message, and docs/operate.md says at most %d", each, memoryOfMessage)
	}
	before = heap()
	b.maxHeld = n
	for i := range n {
		k := key{instance, strings.Clone(fmt.Sprintf("3EB0F%017d", i))}
		for _, state := range []events.Status{events.StatusSent, events.StatusDelivered, events.StatusRead} {
			b.hold(k, sighting{state: state, word: "READ", received: now}, time.Second)
		}
	}
	each = (heap() - before) / n
	t.Logf("%d bytes a key id without a message", each)
	if each > memoryOfHeld {
		t.Errorf("%d bytes a key id without a message, and docs/operate.md says at most %d", each, memoryOfHeld)
	}
	runtime.KeepAlive(b)
}

// What docs/operate.md says, in bytes, and a fifth more.
const (
	memoryOfMessage = 540
	memoryOfHeld    = 840
)
