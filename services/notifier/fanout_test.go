package notifier

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
)

// names takes calls until one of the event last arrives, and gives all events in order of their names.
func names(t *testing.T, rc *receiver, last string) (out []string, ids map[string]bool) {
	t.Helper()
	ids = map[string]bool{}
	for {
		h := rc.next(t)
		out = append(out, h.Event)
		ids[h.ID] = true
		if h.Event == last {
			for len(rc.calls) > 0 {
				h := <-rc.calls
				out = append(out, h.Event)
				ids[h.ID] = true
			}
			slices.Sort(out)
			return out, ids
		}
	}
}

// TestEachStateIsToldOnce holds promise P10 for receipts that come repeated and reversed.
func TestEachStateIsToldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.endpoint("ep2", rc.URL, func(e *events.Endpoint) { e.Environment = events.Test })
	r.endpoint("ep3", rc.URL, func(e *events.Endpoint) { e.TenantID = "other" })
	r.endpoint("ep4", rc.URL, func(e *events.Endpoint) { e.Events = nil })
	r.fanout(FanoutSettings{Concurrency: 1})
	r.worker(WorkerSettings{Concurrency: 1})
	q := r.accept("msg_1", 30)
	r.fenced("started", "msg_1", q, &events.DispatchStarted{})
	r.fenced("accepted", "msg_1", q, &events.DispatchAccepted{HTTPStatus: 201})
	for _, s := range []string{"sent", "delivered", "delivered", "sent", "read", "delivered", "read"} {
		r.receipt("msg_1", q, s, "."+time.Now().String())
	}
	h := rc.next(t)
	if h.Event != events.CustomerMessageSent || h.Data["content"] != "your code" || h.Data["to"] != "+5511999990000" ||
		h.Data["id"] != "msg_1" || h.Data["messageId"] != "3EB0AA" || len(h.ID) != idLength {
		t.Errorf("first: %+v", h)
	}
	// A second message behind the first: when it is told, so is everything before it.
	q2 := r.accept("msg_2", 30)
	r.fenced("started", "msg_2", q2, &events.DispatchStarted{})
	r.fenced("refused", "msg_2", q2, &events.DispatchRefused{Code: events.FailNotOnWhatsApp})
	got, ids := names(t, rc, events.CustomerMessageFailed)
	want := []string{events.CustomerMessageDelivered, events.CustomerMessageFailed, events.CustomerMessageRead}
	if !slices.Equal(got, want) || len(ids) != 3 {
		t.Errorf("told %v under %d ids, want %v", got, len(ids), want)
	}
}

func TestRefusalAndCorrection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{Concurrency: 1})
	r.worker(WorkerSettings{Concurrency: 1})
	q := r.accept("msg_1", 30)
	canceled := r.accept("msg_2", 30)
	r.fenced("closed", "msg_2", canceled, &events.DispatchClosed{Reason: events.ClosedCanceled, Messages: []events.ClosedMessage{{ID: "msg_2", QueuedSeq: canceled}}})
	r.fenced("started", "msg_1", q, &events.DispatchStarted{})
	r.fenced("unknown", "msg_1", q, &events.DispatchUnknown{Cause: "timeout"})
	r.fenced("closed", "msg_1", q, &events.DispatchClosed{
		Reason: events.ClosedTimeout, Code: events.FailDeliveryTimeout, Presumed: true, Messages: []events.ClosedMessage{{ID: "msg_1", QueuedSeq: q}},
	})
	failed := rc.next(t)
	if failed.Event != events.CustomerMessageFailed || failed.Data["errorCode"] != string(events.FailDeliveryTimeout) || failed.Data["errorMessage"] == "" || failed.Data["id"] != "msg_1" {
		t.Errorf("failed: %+v", failed)
	}
	r.receipt("msg_1", q, "delivered", "")
	if h := rc.next(t); h.Event != events.CustomerMessageDelivered || h.Data["id"] != "msg_1" {
		t.Errorf("correction: %+v", h)
	}
}

func TestFanoutGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.worker(WorkerSettings{Concurrency: 1})
	stop := r.fanout(FanoutSettings{Concurrency: 1})
	q := r.accept("msg_1", 30)
	r.receipt("msg_1", q, "sent", "")
	if h := rc.next(t); h.Event != events.CustomerMessageSent {
		t.Errorf("before: %+v", h)
	}
	stop()
	r.receipt("msg_1", q, "sent", ".again")
	r.receipt("msg_1", q, "delivered", "")
	r.fanout(FanoutSettings{Concurrency: 1})
	r.receipt("msg_1", q, "read", "")
	if got, ids := names(t, rc, events.CustomerMessageRead); !slices.Equal(got, []string{events.CustomerMessageDelivered, events.CustomerMessageRead}) || len(ids) != 2 {
		t.Errorf("after the restart: %v", got)
	}
}

// TestMessagesBeyondMemoryAreReadAgain keeps one message in memory, so that each other one is folded from the log.
func TestMessagesBeyondMemoryAreReadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.worker(WorkerSettings{Concurrency: 1})
	r.fanout(FanoutSettings{MaxKept: 1, Concurrency: 1})
	q := r.accept("msg_1", 30)
	r.receipt("msg_1", q, "read", "")
	if h := rc.next(t); h.Event != events.CustomerMessageRead {
		t.Errorf("first: %+v", h)
	}
	other := r.accept("msg_2", 30)
	r.receipt("msg_2", other, "sent", "")
	if h := rc.next(t); h.Data["id"] != "msg_2" {
		t.Errorf("second: %+v", h)
	}
	r.receipt("msg_1", q, "delivered", "") // known as READ only to the log
	r.receipt("msg_1", q, "failed", "")
	r.receipt("msg_2", other, "delivered", "")
	if h := rc.next(t); h.Data["id"] != "msg_2" || h.Event != events.CustomerMessageDelivered {
		t.Errorf("a forgotten message went backwards: %+v", h)
	}
}

func TestMemoryForgetsWhatIsOld(t *testing.T) {
	t.Parallel()
	m := newMemory(10, time.Hour)
	fact := func(id string, seq, queued uint64, at time.Time) {
		m.take([]events.Recorded{{
			Event: events.Event{
				Envelope: events.Envelope{Type: events.TypeReceiptSent, Subject: id, QueuedSeq: queued},
				Address:  events.EventSubject(partition, instance, events.GroupReceipt, "sent"),
			},
			Position: events.Position{Sequence: seq}, Stored: at, Known: true,
		}})
	}
	now := time.Now()
	old, first, second := idOf(now.Add(-2*time.Hour)), idOf(now), idOf(now)
	fact(old, 5, 1, now) // accepted before memory begins
	fact(first, 7, 6, now)
	fact(second, 9, 8, now.Add(2*time.Hour))
	if _, there := m.get(first); there {
		t.Error("an old message stays")
	}
	if e, there := m.get(second); !there || !e.whole {
		t.Errorf("second: %+v, %t", e, there)
	}
	fact(first, 10, 6, now.Add(2*time.Hour))
	if e, _ := m.get(first); e.whole {
		t.Error("a forgotten message counts as whole")
	}
	fact(old, 11, 1, now.Add(2*time.Hour))
	if e, _ := m.get(old); e.whole {
		t.Error("a message older than what was read counts as whole")
	}
}

// A first start has no fact before it, however long ago its message was accepted.
func TestMemoryTakesAFirstStartForTheBeginning(t *testing.T) {
	t.Parallel()
	m := newMemory(10, time.Hour)
	id := idOf(time.Now().Add(-48 * time.Hour))
	m.take([]events.Recorded{{
		Event: events.Event{
			Envelope: events.Envelope{Type: events.TypeDispatchStarted, Subject: id, QueuedSeq: 1, Attempt: 1},
			Address:  events.EventSubject(partition, instance, events.GroupDispatch, "started"),
		},
		Position: events.Position{Sequence: 900}, Stored: time.Now(), Known: true,
	}})
	if e, ok := m.get(id); !ok || !e.whole {
		t.Errorf("%+v, %t", e, ok)
	}
}

// idOf gives a message id made at a time.
func idOf(at time.Time) string {
	u := uuid.Must(uuid.NewV7())
	ms := at.UnixMilli()
	for i := range 6 {
		u[i] = byte(ms >> (8 * (5 - i)))
	}
	return events.MessageID(u, partition)
}

// The process was down for longer than memory goes back, and nothing happened since: what was not told is told all the same.
func TestOldEventsAreToldAfterALongStop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.worker(WorkerSettings{Concurrency: 1})
	q := r.accept("msg_1", 30)
	r.receipt("msg_1", q, "sent", "")
	tick := time.NewTimer(50 * time.Millisecond) // until the receipt is older than Kept
	<-tick.C
	r.fanout(FanoutSettings{Concurrency: 1, Kept: 10 * time.Millisecond})
	if h := rc.next(t); h.Event != events.CustomerMessageSent {
		t.Errorf("%+v", h)
	}
}

// An event about a message that is not in the log is recorded as dead, once, and holds up nothing.
func TestEventThatCannotBeToldIsDead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.worker(WorkerSettings{Concurrency: 1})
	r.receipt("msg_nope", 99999, "sent", "")
	q := r.accept("msg_1", 30)
	r.receipt("msg_1", q, "sent", "")
	r.fanout(FanoutSettings{Concurrency: 1})
	if h := rc.next(t); h.Data["id"] != "msg_1" {
		t.Errorf("%+v", h)
	}
	dead, err := r.log.LastBySubject(r.ctx(), events.StreamDead, events.DeadSubject(events.DeadFanout, instance))
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := dead.Body.(*events.DeadLetter); !ok || b.Stream != events.EventsStream(partition) || b.Sequence != 1 {
		t.Errorf("%+v", dead.Body)
	}
}
