package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

func TestEnds(t *testing.T) {
	t.Parallel()
	called := events.DispatchDeferred{Called: true}
	for _, c := range []struct {
		name   string
		class  events.Class
		steps  func(*tape)
		at     float64 // first time at which the end is due
		reason string
		code   events.ErrorCode
	}{
		{"nothing tried", "", func(*tape) {}, 100, events.ClosedExpired, events.FailExpired},
		{
			"tried without a call", "", func(p *tape) { p.started("a", 1); p.deferred("a", 1, 1, events.DispatchDeferred{}) },
			100, events.ClosedExpired, events.FailExpired,
		},
		{
			"tried with a call", "", func(p *tape) { p.started("a", 1); p.deferred("a", 1, 1, called) },
			100, events.ClosedExpired, events.FailExpiredAfterAttempts,
		},
		{
			"due after the deadline", "", func(p *tape) { p.started("a", 1); p.deferred("a", 1, 900, called) },
			100, events.ClosedExpired, events.FailExpiredAfterAttempts,
		},
		{
			"disproved", "", func(p *tape) { p.started("a", 1); p.unknown("a", 1); p.disproved("a", 1, "") },
			100, events.ClosedExpired, events.FailExpiredAfterAttempts,
		},
		{
			"a late refusal that is final", "",
			func(p *tape) { p.started("a", 1); p.unknown("a", 1); p.disproved("a", 1, events.FailNotOnWhatsApp) },
			0, events.ClosedFailed, events.FailNotOnWhatsApp,
		},
		{"unknown", "", func(p *tape) { p.started("a", 1); p.unknown("a", 1) }, 700, events.ClosedTimeout, events.FailDeliveryTimeout},
		{
			"out of attempts", events.ClassMarketing, func(p *tape) {
				for n := 1; n <= 5; n++ {
					p.started("a", n)
					p.deferred("a", n, 1, called)
				}
			}, 0, events.ClosedFailed, events.FailAttemptsExhausted,
		},
		{
			"out of attempts while one is unknown", events.ClassMarketing, func(p *tape) {
				p.started("a", 1)
				p.unknown("a", 1)
				p.absent("a", 1)
				for n := 2; n <= 5; n++ {
					p.started("a", n)
					p.deferred("a", n, 1, called)
				}
			}, 700, events.ClosedTimeout, events.FailDeliveryTimeout,
		},
		{
			"attempts that do not count", events.ClassMarketing, func(p *tape) {
				for n, b := range []events.DispatchDeferred{
					{}, {Called: true, Park: "instance"}, {Called: true, Park: "gateway"}, {Called: true, Limited: true}, {}, called, called,
				} {
					p.started("a", n+1)
					p.deferred("a", n+1, 1, b)
				}
			}, 100, events.ClosedExpired, events.FailExpiredAfterAttempts,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newTape()
			p.queued(msg{id: "a", class: c.class, deliverUntil: after(100)})
			c.steps(p)
			q := p.queue(policy(AfterAbsence))
			if c.at > 0 {
				if got := q.Closes(after(c.at-0.001), 10); len(got) != 0 {
					t.Errorf("too early: %+v", got)
				}
			}
			want := []Close{{
				Reason: c.reason, Code: c.code, Presumed: c.reason == events.ClosedTimeout,
				Messages: []events.ClosedMessage{{ID: "a", QueuedSeq: 1}},
			}}
			if diff := cmp.Diff(want, q.Closes(after(c.at), 10)); diff != "" {
				t.Error(diff)
			}
			p.at(c.at).closed(want[0])
			q.Apply(p.log[len(p.log)-1])
			if got := q.Closes(after(1e6), 10); len(got) != 0 {
				t.Errorf("ended twice: %+v", got)
			}
		})
	}
}

func TestAnOpenStartHasNoEnd(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a", deliverUntil: after(100)})
	p.at(99).started("a", 1)
	q := p.queue(DefaultRules())
	if got := q.Closes(after(105), 10); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	p.at(106).deferred("a", 1, 1, events.DispatchDeferred{Called: true})
	q.Apply(p.log[len(p.log)-1])
	if got := q.Closes(after(106), 10); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// A mass of messages with one deadline ends in seconds: in few appends, and without work that grows with its square.
func TestAMassOfEnds(t *testing.T) {
	t.Parallel()
	mass := 100_000
	if testing.Short() {
		mass = 10_000
	}
	p := newTape()
	for i := range mass {
		p.queued(msg{id: fmt.Sprintf("m%d", i), deliverUntil: after(10), tenant: fmt.Sprintf("t-%d", i%7)})
	}
	q := p.queue(DefaultRules())
	begun := time.Now()
	appends, ended := 0, map[string]bool{}
	for {
		cs := q.Closes(after(10), events.MaxClosed)
		if len(cs) == 0 {
			break
		}
		for _, c := range cs {
			if n := len(c.Messages); n == 0 || n > events.MaxClosed {
				t.Fatalf("%d messages in one append", n)
			}
			appends++
			for _, m := range c.Messages {
				if ended[m.ID] {
					t.Fatalf("%s ended twice", m.ID)
				}
				ended[m.ID] = true
			}
			p.closed(c)
			q.Apply(p.log[len(p.log)-1])
		}
	}
	if took := time.Since(begun); took > time.Minute { // a second on an idle machine, without the race detector
		t.Errorf("took %s", took)
	}
	if appends != mass/events.MaxClosed || len(ended) != mass {
		t.Errorf("%d ends in %d appends", len(ended), appends)
	}
	q.Compact(p.seq, p.now)
	if q.Len() != 0 || len(q.ix.deadlines)+len(q.ix.waiting) > 64 || len(q.ix.settled) != 0 {
		t.Errorf("after the end: %d entries, %d deadlines, %d waiting", q.Len(), len(q.ix.deadlines), len(q.ix.waiting))
	}
}

func TestClosesKeepsToItsLimit(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i := range 1200 {
		p.queued(msg{id: fmt.Sprintf("m%d", i), deliverUntil: after(10)})
	}
	p.started("m3", 1)
	p.deferred("m3", 1, 1, events.DispatchDeferred{Called: true})
	q := p.queue(DefaultRules())
	n := 0
	for _, c := range q.Closes(after(10), 700) {
		n += len(c.Messages)
	}
	if n != 700 {
		t.Errorf("%d messages", n)
	}
	n = 0
	var last uint64
	for _, c := range q.Closes(after(10), 5000) {
		n += len(c.Messages)
		if len(c.Messages) > events.MaxClosed || (c.Code == events.FailExpiredAfterAttempts) != (len(c.Messages) == 1) {
			t.Errorf("%s of %d", c.Code, len(c.Messages))
		}
		if first := c.Messages[0].QueuedSeq; first <= last {
			t.Error("not by sequence")
		} else {
			last = first
		}
	}
	if n != 1200 {
		t.Errorf("%d messages", n)
	}
}

// What is over and waits for its presumed end does not keep the ends of others away.
func TestWaitingForAPresumedEndHoldsNoOther(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i := range 20 {
		id := fmt.Sprintf("u%d", i)
		p.queued(msg{id: id, deliverUntil: after(10)})
		p.started(id, 1)
		p.unknown(id, 1)
	}
	p.queued(msg{id: "a", deliverUntil: after(10)})
	q := p.queue(DefaultRules())
	if c := q.Closes(after(11), 1); len(c) != 1 || c[0].Messages[0].ID != "a" {
		t.Errorf("%+v", c)
	}
	if w := q.Wake(after(100)); !w.Equal(after(610)) {
		t.Errorf("wakes at %v", w)
	}
}
