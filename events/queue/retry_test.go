package queue

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/retry"
)

func readyAt(t *testing.T, q *Queue, id string) time.Time {
	t.Helper()
	e, ok := q.Entry(id)
	if !ok {
		t.Fatalf("%s is not there", id)
	}
	return e.ReadyAt()
}

// operator says a word about the instance, or wants a message to go now: that moves when it goes, never whether.
func (m *machine) operator(t *rapid.T) {
	if len(m.ids) > 0 && rapid.Bool().Draw(t, "now") {
		m.retryRequested(rapid.SampledFrom(m.ids).Draw(t, "wanted now"))
		return
	}
	m.instance(rapid.SampledFrom([]string{"paused", "resumed", "resumed", "draining"}).Draw(t, "instance"))
}

// An operator's word brings the next attempt forward, once; the one after it is due as drawn.
func TestRetryRequestedBringsTheNextAttemptForward(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	p.started("a", 1)
	p.deferred("a", 1, 300, events.DispatchDeferred{Called: true})
	mustHold(t, p.queue(DefaultRules()), "a", after(10), HoldNotDue)
	p.at(10).retryRequested("a")
	p.at(20).retryRequested("a") // later than what is due already: it changes nothing
	q := p.queue(DefaultRules())
	if at := readyAt(t, q, "a"); !at.Equal(after(10)) {
		t.Fatalf("ready at %v", at)
	}
	if s, ok := q.Next(after(20)); !ok || s.Entry.ID != "a" || s.Attempt != 2 {
		t.Fatalf("%+v %v", s, ok)
	}
	p.at(21).started("a", 2)
	p.at(22).deferred("a", 2, 300, events.DispatchDeferred{Called: true})
	if at := readyAt(t, p.queue(DefaultRules()), "a"); !at.Equal(after(322)) {
		t.Errorf("the retry after it is ready at %v", at)
	}
}

// R1, R8: the word decides no start. What may not start before it may not start after it.
func TestR1RetryRequestedDecidesNoStart(t *testing.T) {
	t.Parallel()
	rules := DefaultRules()
	rules.Attempts = map[events.Category]int{events.Utility: 1}
	for name, c := range map[string]struct {
		log  func(*tape)
		want Hold
	}{
		"scheduled": {func(p *tape) { p.queued(msg{id: "a", deliverAt: after(60)}) }, HoldNotDue},
		"open":      {func(p *tape) { p.queued(msg{id: "a"}); p.started("a", 1) }, HoldConcurrency},
		"unknown":   {func(p *tape) { p.queued(msg{id: "a"}); p.started("a", 1); p.unknown("a", 1) }, HoldQuiet},
		"exhausted": {func(p *tape) {
			p.queued(msg{id: "a"})
			p.started("a", 1)
			p.deferred("a", 1, 9, events.DispatchDeferred{Called: true})
		}, HoldExhausted},
		"ended":         {func(p *tape) { p.queued(msg{id: "a"}); p.ended(events.ClosedCanceled, "a") }, HoldNotPending},
		"accepted":      {func(p *tape) { p.queued(msg{id: "a"}); p.started("a", 1); p.accepted("a", 1, "G") }, HoldNotPending},
		"never queued":  {func(*tape) {}, HoldNotPending},
		"in doubt":      {func(p *tape) { p.queued(msg{id: "a"}); p.restored(1) }, HoldDoubt},
		"paused":        {func(p *tape) { p.queued(msg{id: "a"}); p.instance("paused") }, HoldPaused},
		"after a drain": {func(p *tape) { p.instance("draining"); p.queued(msg{id: "a"}) }, HoldPaused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTape()
			c.log(p)
			mustHold(t, p.queue(rules), "a", after(1), c.want)
			p.at(0.5).retryRequested("a")
			mustHold(t, p.queue(rules), "a", after(1), c.want)
		})
	}
}

// An operator's word that a call had no effect grants one attempt more, also when the call was the last of the budget: the message is not
// ended at the word. Then the budget is spent again, until there is another word.
func TestForcedRetryOfAnExhaustedMessageGrantsOneAttempt(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a", class: events.ClassMarketing})
	budget := DefaultRules().Attempts[events.Marketing]
	for n := 1; n < budget; n++ {
		p.started("a", n)
		p.deferred("a", n, 0, events.DispatchDeferred{Called: true})
	}
	for n := budget; n < budget+2; n++ {
		p.started("a", n)
		p.unknown("a", n)
		q := p.queue(DefaultRules())
		mustHold(t, q, "a", after(100), HoldExhausted)
		e, _ := q.Entry("a")
		d, err := retry.Judge(retry.Facts{Record: e.Record(), Whole: true, Budget: budget, DeliverUntil: e.DeliverUntil}, true, p.now)
		if err != nil || d != (retry.Decision{Action: retry.Disprove, Attempt: n, Risk: true}) {
			t.Fatalf("%+v %v", d, err)
		}
		p.disprovedBy(events.DisprovedOperator, "a", n)
		q = p.queue(DefaultRules())
		back, err := DecodeState(q.AppendState(nil), DefaultRules())
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []*Queue{q, back} {
			mustHold(t, q, "a", after(1), HoldNone)
			if c := q.Closes(after(1), 10); len(c) != 0 {
				t.Fatalf("ended at the word: %+v", c)
			}
		}
	}
	p.started("a", budget+2)
	p.deferred("a", budget+2, 0, events.DispatchDeferred{Called: true})
	if c := p.queue(DefaultRules()).Closes(after(1), 10); len(c) != 1 || c[0].Code != events.FailAttemptsExhausted {
		t.Errorf("a word grants one attempt: %+v", c)
	}
	late := newTape()
	late.queued(msg{id: "a", class: events.ClassMarketing})
	for n := 1; n <= budget; n++ {
		late.started("a", n)
		late.unknown("a", n)
		late.disprovedBy(events.DisprovedLate, "a", n)
	}
	if c := late.queue(DefaultRules()).Closes(after(1), 10); len(c) != 1 || c[0].Code != events.FailAttemptsExhausted {
		t.Errorf("a late answer grants none: %+v", c)
	}
}

// C3 case 50: what a drain still lets out is counted down to none, and a word ends the count.
func TestDrainCountsWhatIsLeft(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "sent"})
	p.queued(msg{id: "later", deliverAt: after(100)})
	p.queued(msg{id: "unknown", slot: 1})
	left := func(want int) {
		t.Helper()
		q := p.queue(DefaultRules())
		back, err := DecodeState(q.AppendState(nil), DefaultRules())
		if err != nil {
			t.Fatal(err)
		}
		if q.Left() != want || back.Left() != want {
			t.Fatalf("%d left, %d from a snapshot, want %d", q.Left(), back.Left(), want)
		}
	}
	left(0)
	p.instance("draining")
	p.queued(msg{id: "new"})
	left(3)
	p.started("sent", 1)
	left(3)
	p.accepted("sent", 1, "G")
	left(2)
	p.started("unknown", 1)
	p.unknown("unknown", 1)
	left(2) // it may yet come to an end of its own
	p.proved("unknown", 1)
	left(1)
	p.ended(events.ClosedExpired, "later")
	left(0)
	if q := p.queue(DefaultRules()); !q.Draining() {
		t.Error("a drain goes on when nothing is left: what comes after waits")
	}
	p.instance("resumed")
	if q := p.queue(DefaultRules()); q.Draining() || q.Left() != 0 {
		t.Error("resumed")
	}
}
