package cancel

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const instance = "inst-1"

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// tape writes the log of one instance as the protocol allows, with a queue that follows it.
type tape struct {
	recs  []events.Recorded
	q     *queue.Queue
	group uint64
	sums  map[string]message.Record
	seqs  map[string]uint64
}

func newTape() *tape {
	return &tape{q: queue.New(instance, queue.DefaultRules()), sums: map[string]message.Record{}, seqs: map[string]uint64{}}
}

func (p *tape) put(addr, typ string, body any, shape func(*events.Recorded)) events.Recorded {
	r := events.Recorded{Known: true}
	r.Position = events.Position{Partition: 1, Sequence: uint64(len(p.recs) + 1)}
	r.Address, r.Type, r.Body = addr, typ, body
	r.Time = epoch.Add(time.Duration(len(p.recs)) * time.Second)
	shape(&r)
	p.recs = append(p.recs, r)
	p.q.Apply(r)
	return r
}

func (p *tape) queued(id string) {
	lane := events.Lane{Instance: instance, Class: events.ClassUtility, Tenant: "t-1"}
	r := p.put(events.QueuedSubject(1, lane), events.TypeMessageQueued, &events.MessageQueued{}, func(r *events.Recorded) {
		r.Subject, r.DeliverUntil = id, epoch.Add(time.Hour)
	})
	p.seqs[id] = r.Position.Sequence
}

func (p *tape) dispatch(name, id string, attempt int, body any) events.Recorded {
	r := p.put(events.EventSubject(1, instance, events.GroupDispatch, name), "dispatch."+name+".v1", body, func(r *events.Recorded) {
		r.Subject, r.Attempt, r.Prev, r.QueuedSeq, r.Nonce = id, attempt, p.group, p.seqs[id], "n"
	})
	p.group = r.Position.Sequence
	if f, ok := message.FactOf(r); ok {
		for _, s := range message.Subjects(r) {
			p.sums[s.ID] = p.sums[s.ID].With(f)
		}
	}
	return r
}

func (p *tape) closed(reason string, ids ...string) {
	b := &events.DispatchClosed{Reason: reason, Presumed: reason == events.ClosedTimeout}
	for _, id := range ids {
		b.Messages = append(b.Messages, events.ClosedMessage{ID: id, QueuedSeq: p.seqs[id]})
	}
	p.dispatch("closed", "", 0, b)
}

// step appends one event about id that the protocol may write.
func (p *tape) step(t *rapid.T, id string) {
	s := p.sums[id].Summarize()
	n, open := len(s.Attempts), s.Open()
	var may []func()
	if open > 0 {
		may = append(may,
			func() { p.dispatch("accepted", id, open, &events.DispatchAccepted{}) },
			func() { p.dispatch("refused", id, open, &events.DispatchRefused{Code: events.FailGatewayRejected}) },
			func() { p.dispatch("deferred", id, open, &events.DispatchDeferred{}) },
			func() { p.dispatch("deferred", id, open, &events.DispatchDeferred{}) },
			func() { p.dispatch("unknown", id, open, &events.DispatchUnknown{}) },
			func() { p.dispatch("proved", id, open, &events.DispatchProved{}) })
	}
	if open == 0 && !s.Settled() {
		if last := s.Last().State; last == message.AttemptNone || last == message.AttemptDeferred || last == message.AttemptDisproved {
			may = append(may, func() { p.dispatch("started", id, n+1, &events.DispatchStarted{}) })
		}
		if s.Outstanding() > 0 {
			may = append(may, func() { p.dispatch("proved", id, n, &events.DispatchProved{}) },
				func() { p.dispatch("disproved", id, n, &events.DispatchDisproved{}) },
				func() { p.dispatch("absent", id, n, &events.DispatchAbsent{}) },
				func() { p.closed(events.ClosedTimeout, id) })
		} else {
			may = append(may, func() { p.closed(events.ClosedCanceled, id) }, func() { p.closed(events.ClosedExpired, id) })
		}
	}
	if len(may) > 0 {
		rapid.SampledFrom(may).Draw(t, "event")()
	}
}

// draw writes a log about some messages and gives their ids.
func draw(t *rapid.T) (*tape, []string) {
	p := newTape()
	var ids []string
	for i := range rapid.IntRange(1, 4).Draw(t, "messages") {
		ids = append(ids, fmt.Sprintf("msg_%d", i))
		p.queued(ids[i])
	}
	for range rapid.IntRange(0, 20).Draw(t, "steps") {
		p.step(t, rapid.SampledFrom(ids).Draw(t, "about"))
	}
	return p, ids
}

// from folds the group from a place on, with the records as a view of that place has them.
func (p *tape) from(after uint64, ids []string) *Group {
	var ms []Message
	for _, id := range ids {
		m := Message{ID: id, QueuedSeq: p.seqs[id]}
		for _, r := range p.recs[:after] {
			f, ok := message.FactOf(r)
			for _, s := range message.Subjects(r) {
				if ok && s.ID == id {
					m.Record = m.Record.With(f)
				}
			}
		}
		ms = append(ms, m)
	}
	g := NewGroup(after, ms)
	for _, r := range p.recs {
		if addr, err := events.ParseEventSubject(r.Address); err == nil && addr.Group == events.GroupDispatch {
			g.Apply(r)
		}
	}
	return g
}

// P1, R1, R7: wherever the reading begins, a cancel is decided as the dispatcher's own fold decides it.
func TestDecidesAsTheQueueDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, ids := draw(t)
		first := p.from(uint64(len(ids)), ids)
		g := p.from(uint64(rapid.IntRange(len(ids), len(p.recs)).Draw(t, "after")), ids)
		for _, id := range ids {
			may := p.q.MayClose(id, events.ClosedCanceled, epoch) == queue.HoldNone
			if got := g.Verdict(id); (got == May) != may || got != first.Verdict(id) {
				t.Fatalf("%s: %q, from the first event %q, the queue allows it: %v", id, got, first.Verdict(id), may)
			}
		}
		if p.group > uint64(len(ids)) && (first.At() != p.group || g.At() < p.group) {
			t.Fatalf("at %d and %d, the group at %d", first.At(), g.At(), p.group)
		}
	})
}

// What is said agrees with what the message ended as, and with what may have reached the gateway.
func TestVerdictsAreTrue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, ids := draw(t)
		g := p.from(uint64(len(ids)), ids)
		c, some := g.Close()
		named := map[string]bool{}
		for _, m := range c.Messages {
			named[m.ID] = true
		}
		for _, id := range ids {
			s := p.sums[id].Summarize()
			want := May
			switch {
			case s.End != nil && s.End.Reason == events.ClosedCanceled:
				want = Canceled
			case s.Accepted || s.Proved:
				want = AlreadySent
			case s.End != nil:
				want = AlreadyFinal
			case s.Open() > 0:
				want = AlreadySending
			case s.Outstanding() > 0:
				want = Unconfirmed
			}
			if got := g.Verdict(id); got != want {
				t.Fatalf("%s: %q, want %q: %+v", id, got, want, s)
			}
			if named[id] != (want == May) {
				t.Fatalf("%s is named to be canceled: %v, %q", id, named[id], want)
			}
		}
		if some != (len(c.Messages) > 0) {
			t.Fatal("an end of no message")
		}
		if !some {
			return
		}
		// Once appended, all it names are canceled, and nothing else has changed.
		before := map[string]Verdict{}
		for _, id := range ids {
			before[id] = g.Verdict(id)
		}
		p.put(events.EventSubject(1, instance, events.GroupDispatch, "closed"), events.TypeDispatchClosed, &c, func(r *events.Recorded) { r.Prev = p.group })
		g.Apply(p.recs[len(p.recs)-1])
		for _, id := range ids {
			want := before[id]
			if named[id] {
				want = Canceled
			}
			if got := g.Verdict(id); got != want {
				t.Fatalf("%s: %q after the end, want %q", id, got, want)
			}
			if e, ok := p.q.Entry(id); named[id] && (!ok || e.Summary().End == nil || e.Summary().End.Reason != events.ClosedCanceled) {
				t.Fatalf("the dispatcher does not know that %s is canceled", id)
			}
		}
	})
}

func TestWhatCannotBeReadStopsACancel(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(p *tape)
		want   Verdict
	}{
		"nothing since": {want: May},
		"an event of a kind unknown here": {
			change: func(p *tape) {
				p.dispatch("delegated", "msg_other", 1, nil)
				p.recs[len(p.recs)-1].Known = false
			}, want: TryAgain,
		},
		"an operator passed over it": {
			change: func(p *tape) {
				r := p.dispatch("delegated", "msg_other", 1, nil)
				p.recs[len(p.recs)-1].Known = false
				p.dispatch("skipped", "", 0, &events.DispatchSkipped{Sequence: r.Position.Sequence})
			}, want: May,
		},
		"an operator passed over another": {
			change: func(p *tape) {
				p.dispatch("delegated", "msg_other", 1, nil)
				p.recs[len(p.recs)-1].Known = false
				p.dispatch("skipped", "", 0, &events.DispatchSkipped{Sequence: 1})
			}, want: TryAgain,
		},
		"an event is missing": {
			change: func(p *tape) {
				p.dispatch("started", "msg_other", 1, &events.DispatchStarted{})
				p.dispatch("accepted", "msg_other", 1, &events.DispatchAccepted{})
				p.recs = append(p.recs[:len(p.recs)-2], p.recs[len(p.recs)-1])
			}, want: TryAgain,
		},
		"a restored log, message older": {
			change: func(p *tape) { p.dispatch("restored", "", 0, &events.DispatchRestored{UpTo: 1}) }, want: Unconfirmed,
		},
		"a restored log, message younger": {
			change: func(p *tape) { p.dispatch("restored", "", 0, &events.DispatchRestored{UpTo: 0}) }, want: May,
		},
		"a restored log, tried again since": {
			change: func(p *tape) {
				p.dispatch("restored", "", 0, &events.DispatchRestored{UpTo: 1})
				p.dispatch("started", "msg_0", 1, &events.DispatchStarted{})
				p.dispatch("deferred", "msg_0", 1, &events.DispatchDeferred{})
			}, want: May,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTape()
			p.queued("msg_0")
			if tt.change != nil {
				tt.change(p)
			}
			if got := p.from(1, []string{"msg_0"}).Verdict("msg_0"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A log that lost events cannot have lost a call of a message whose time had not come.
func TestRestoredBeforeItsTime(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued("msg_0")
	r := p.dispatch("restored", "", 0, &events.DispatchRestored{UpTo: 1})
	for at, want := range map[time.Time]Verdict{r.Time.Add(time.Hour): May, r.Time.Add(-time.Second): Unconfirmed} {
		g := NewGroup(2, []Message{{ID: "msg_0", QueuedSeq: 1, ReadyAt: at}})
		g.Restored(r)
		if got := g.Verdict("msg_0"); got != want {
			t.Errorf("ready at %s: %q, want %q", at, got, want)
		}
	}
}

func TestUnreadableBefore(t *testing.T) {
	t.Parallel()
	g := NewGroup(9, []Message{{ID: "msg_0", QueuedSeq: 1, Unreadable: true}, {ID: "msg_1", QueuedSeq: 2}})
	got := map[string]Verdict{}
	for _, id := range []string{"msg_0", "msg_1", "msg_stranger"} {
		got[id] = g.Verdict(id)
	}
	if diff := cmp.Diff(map[string]Verdict{"msg_0": TryAgain, "msg_1": May, "msg_stranger": NotFound}, got); diff != "" {
		t.Error(diff)
	}
}

// A receipt after the end says that the message left all the same.
func TestReceiptAfterACancel(t *testing.T) {
	t.Parallel()
	r := message.Record{}.With(message.Fact{Seq: 2, Kind: message.KindClosed, Reason: events.ClosedCanceled}).With(message.Fact{Seq: 3, Kind: message.KindSent})
	if got := Judge(r); got != AlreadySent {
		t.Errorf("%q", got)
	}
}
