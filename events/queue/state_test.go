package queue

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

func TestPauseDrainPark(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		events []string
		want   Hold
	}{
		{"paused", []string{"paused"}, HoldPaused},
		{"resumed", []string{"paused", "resumed"}, HoldNone},
		{"paused again", []string{"paused", "resumed", "paused"}, HoldPaused},
		{"parked", []string{"parked"}, HoldParked},
		{"parked, opened", []string{"parked", "opened"}, HoldNone},
		{"parked, resumed", []string{"parked", "resumed"}, HoldNone},
		{"parked, unparked", []string{"parked", "unparked"}, HoldNone},
		{"unparked, parked", []string{"unparked", "parked"}, HoldParked},
		{"paused and unparked", []string{"parked", "paused", "unparked"}, HoldPaused},
		{"closed, unparked", []string{"closed", "unparked"}, HoldParked},
		{"opened, parked", []string{"opened", "parked"}, HoldParked},
		{"closed", []string{"closed"}, HoldParked},
		{"closed, opened", []string{"closed", "opened"}, HoldNone},
		{"closed, resumed", []string{"closed", "resumed"}, HoldNone},
		{"paused while parked", []string{"parked", "paused", "opened"}, HoldPaused},
		{"draining: what was accepted before", []string{"draining"}, HoldNone},
		{"draining ends a pause", []string{"paused", "draining"}, HoldNone},
		{"drained, paused", []string{"draining", "paused"}, HoldPaused},
		{"unknown event of the instance", []string{"polished"}, HoldNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newTape()
			p.queued(msg{id: "a", deliverUntil: after(60)})
			for _, n := range c.events {
				p.instance(n)
			}
			q := p.queue(DefaultRules())
			mustHold(t, q, "a", p.now, c.want)
			if q.Paused() != (c.want == HoldPaused) || (q.Parked() || q.Closed()) != (c.want == HoldParked) {
				t.Errorf("paused %v, parked %v, closed %v", q.Paused(), q.Parked(), q.Closed())
			}
			mustClose(t, q, "a", events.ClosedCanceled, p.now, HoldNone) // ends go on
			if ends := q.Closes(after(60), 10); len(ends) != 1 || ends[0].Code != events.FailExpired {
				t.Errorf("ends %+v", ends)
			}
		})
	}
}

// C3 case 50: a drain lets out what was accepted before it, whatever waits in the same lane; a resume lets all go, in order.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "old"})
	p.started("old", 1)
	p.deferred("old", 1, 50, events.DispatchDeferred{Called: true})
	p.instance("draining")
	p.at(1).queued(msg{id: "new"}) // ready before old's retry
	p.at(2).queued(msg{id: "newer"})
	q := p.queue(DefaultRules())
	mustHold(t, q, "new", after(10), HoldPaused)
	mustHold(t, q, "old", after(50), HoldNone)
	if s, ok := q.Next(after(51)); !ok || s.Entry.ID != "old" || s.Attempt != 2 {
		t.Fatalf("%+v %v: what the drain holds must not hold what was accepted before", s, ok)
	}
	p.at(52).started("old", 2)
	p.accepted("old", 2, "G")
	p.instance("paused")
	p.instance("resumed")
	for _, r := range p.log[len(p.log)-4:] {
		q.Apply(r)
	}
	for _, want := range []string{"new", "newer"} {
		s, ok := q.Next(after(53))
		if !ok || s.Entry.ID != want {
			t.Fatalf("%+v %v, want %s", s, ok, want)
		}
		p.started(want, 1)
		p.accepted(want, 1, "H"+want)
		q.Apply(p.log[len(p.log)-2])
		q.Apply(p.log[len(p.log)-1])
	}
	if ends := q.Closes(after(1e5), 10); len(ends) != 0 {
		t.Errorf("ends %+v", ends)
	}
}

// The breaker: after a call without an answer nothing starts until it is proved, disproved or 60 s are over.
func TestBreaker(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	p.queued(msg{id: "b"})
	p.started("a", 1)
	p.at(15).unknown("a", 1)
	q := p.queue(DefaultRules())
	mustHold(t, q, "b", after(74.9), HoldQuiet)
	if !q.QuietUntil().Equal(after(75)) || !q.Wake(after(20)).Equal(after(75)) {
		t.Errorf("quiet until %v, wakes at %v", q.QuietUntil(), q.Wake(after(20)))
	}
	mustHold(t, q, "b", after(75), HoldNone)
	mustClose(t, q, "b", events.ClosedCanceled, after(20), HoldNone)
	for name, settle := range map[string]func(*tape){
		"proved":           func(p *tape) { p.proved("a", 1) },
		"proved, unnamed":  func(p *tape) { p.proved("a", 0) },
		"disproved":        func(p *tape) { p.disproved("a", 1, "") },
		"ended, presuming": func(p *tape) { p.ended(events.ClosedTimeout, "a") },
	} {
		x := newTape()
		x.log, x.seq, x.group, x.now, x.queuedSeq = p.log[:len(p.log):len(p.log)], p.seq, p.group, p.now, p.queuedSeq
		settle(x)
		q := x.queue(DefaultRules())
		if !q.QuietUntil().IsZero() {
			t.Errorf("%s: quiet until %v", name, q.QuietUntil())
		}
		mustHold(t, q, "b", after(20), HoldNone)
	}
}

// Once the quiet is over, one start at a time is let through until the gateway takes something: it is known to work again.
func TestHalfOpenLetsOneThroughAtATime(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i, id := range []string{"a", "b", "c", "d"} {
		p.queued(msg{id: id, slot: uint8(i)})
	}
	p.started("a", 1)
	p.at(15).unknown("a", 1)
	q := p.queue(concurrent(3))
	next := func() {
		q.Apply(p.log[len(p.log)-1])
	}
	if !q.HalfOpen() || q.Held(after(74)) != HoldQuiet || q.Held(after(75)) != HoldNone {
		t.Fatalf("half open %v, held by %q, then by %q", q.HalfOpen(), q.Held(after(74)), q.Held(after(75)))
	}
	p.at(75).started("b", 1)
	next()
	mustHold(t, q, "c", after(76), HoldConcurrency)
	p.at(76).deferred("b", 1, 100, events.DispatchDeferred{Called: false})
	next()
	if !q.HalfOpen() {
		t.Error("a call that was not made shows nothing")
	}
	p.at(80).started("c", 1)
	next()
	p.at(81).accepted("c", 1, "G-c")
	next()
	if q.HalfOpen() || q.Held(after(82)) != HoldNone {
		t.Errorf("half open %v after an acceptance, held by %q", q.HalfOpen(), q.Held(after(82)))
	}
	p.at(82).started("b", 2)
	next()
	mustHold(t, q, "d", after(83), HoldNone)
}

// The newest park says whom it concerns.
func TestParkedWide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scopes []string // of parks, or names of other events
		want   bool
	}{
		{[]string{events.ParkGateway}, true},
		{[]string{events.ParkInstance}, false},
		{[]string{events.ParkInstance, events.ParkGateway}, true},
		{[]string{events.ParkGateway, events.ParkInstance}, false},
		{[]string{events.ParkGateway, "opened"}, false},
		{[]string{events.ParkGateway, "closed"}, true},
		{[]string{events.ParkGateway, "unparked", events.ParkGateway}, true},
	} {
		p := newTape()
		for _, s := range c.scopes {
			if s == events.ParkGateway || s == events.ParkInstance {
				p.parked(s)
			} else {
				p.instance(s)
			}
		}
		if got := p.queue(DefaultRules()).ParkedWide(); got != c.want {
			t.Errorf("%v: %v", c.scopes, got)
		}
	}
}

func TestUnknownListsWhatLookUpsAskAbout(t *testing.T) {
	t.Parallel()
	p := newTape()
	for _, id := range []string{"a", "b", "c", "d"} {
		p.queued(msg{id: id})
	}
	p.started("b", 1)
	p.unknown("b", 1)
	p.started("a", 1)
	p.unknown("a", 1)
	p.started("c", 1)
	p.accepted("c", 1, "")
	p.started("d", 1)
	p.accepted("d", 1, "G-d")
	q := p.queue(DefaultRules())
	ids := func(es []*Entry) (out string) {
		for _, e := range es {
			out += e.ID
		}
		return out
	}
	if got := ids(q.Unknown()); got != "abc" {
		t.Errorf("unknown %q", got)
	}
	if !q.Bound("G-d") || q.Bound("G-c") {
		t.Error("a gateway id belongs to the message that left with it")
	}
	q.Compact(p.seq, p.now.Add(5*time.Minute)) // an acceptance without an id is looked up for a while
	if got := ids(q.Unknown()); got != "abc" {
		t.Errorf("unknown %q after compaction", got)
	}
	p.dispatch("c", "proved", 1, &events.DispatchProved{By: events.ProofBinding}, gateway("G-c"))
	q.Apply(p.log[len(p.log)-1])
	if got := ids(q.Unknown()); got != "ab" || !q.Bound("G-c") {
		t.Errorf("unknown %q, bound %v", got, q.Bound("G-c"))
	}
	q.Compact(p.seq, p.now)
	if q.Len() != 2 {
		t.Errorf("%d left", q.Len())
	}
}

func TestAnUnboundAcceptanceIsLetGoAfterItsWindow(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	p.started("a", 1)
	p.accepted("a", 1, "")
	q := p.queue(DefaultRules())
	q.Compact(p.seq, p.now.Add(11*time.Minute))
	if q.Len() != 0 || len(q.Unknown()) != 0 {
		t.Error("kept for ever")
	}
	q.Compact(p.seq-1, p.now)
	if q.Floor() != p.seq {
		t.Error("the floor went down")
	}
	q.Apply(p.log[0]) // below the floor
	if q.Len() != 0 {
		t.Error("what is folded for good came back")
	}
	p.dispatch("a", "proved", 1, &events.DispatchProved{}, gateway("late"))
	q.Apply(p.log[len(p.log)-1])
	if q.Len() != 0 || !q.Bound("late") {
		t.Error("a late fact of a dropped message made an entry, or its id was not noted")
	}
}

func TestPostpone(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	q := p.queue(DefaultRules())
	q.Postpone("a", after(30))
	q.Postpone("nobody", after(30))
	mustHold(t, q, "a", after(29), HoldNotDue)
	if !q.Wake(after(1)).Equal(after(30)) {
		t.Errorf("wakes at %v", q.Wake(after(1)))
	}
	mustHold(t, q, "a", after(30), HoldNone)
	mustHold(t, p.queue(DefaultRules()), "a", p.now, HoldNone) // it is no fact
}

func TestEventsOfOthersAreNotOurs(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	for _, r := range p.log {
		r.Address = events.QueuedSubject(1, events.Lane{Instance: "inst-2", Class: events.ClassOTP, Tenant: "t-1"})
		q := New(instance, DefaultRules())
		q.Apply(r)
		r.Address = "not.a.subject"
		q.Apply(r)
		r.Address, r.Known = p.log[0].Address, false
		q.Apply(r)
		if q.Len() != 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	r := DefaultRules()
	for _, c := range []struct {
		category events.Category
		counted  int
		draw     float64
		want     time.Duration
	}{
		{events.OTP, 1, 0.5, time.Second},
		{events.OTP, 2, 0.5, 2 * time.Second},
		{events.OTP, 50, 0.5, 10 * time.Second},
		{events.Utility, 0, 0.5, 2500 * time.Millisecond},
		{events.Marketing, 3, 0.5, 30 * time.Second},
		{events.Marketing, 1000, 0.5, 450 * time.Second},
		{"PROMO", 1, 0.5, 7500 * time.Millisecond},
		{events.OTP, 1, 0, minDelay},
	} {
		if got := r.RetryDelay(c.category, c.counted, c.draw); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if DefaultRules().Attempts[events.OTP] != 6 || DefaultRules().Attempts[events.Utility] != 8 || DefaultRules().Attempts[events.Marketing] != 5 {
		t.Error("the attempts of DefaultRules")
	}
	if got := New(instance, r).Rules(); got.AgingTurns != 10 || got.Quiet != time.Minute || got.PresumedAfter != 10*time.Minute {
		t.Errorf("%+v", got)
	}
}

// A retry is never drawn so late that its message is over, where an earlier try fits; it is never later than the backoff draws it, and
// over the draws it lies anywhere in the time that there is.
func TestARetryFitsIntoTheWindow(t *testing.T) {
	t.Parallel()
	r := DefaultRules()
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom([]events.Category{events.OTP, events.Utility, events.Marketing}).Draw(t, "category")
		counted, draw := rapid.IntRange(0, 10).Draw(t, "counted"), rapid.Float64Range(0, 0.9999).Draw(t, "draw")
		left := time.Duration(rapid.Int64Range(-int64(time.Second), int64(20*time.Minute)).Draw(t, "left"))
		at := r.RetryAt(c, counted, draw, epoch, epoch.Add(left))
		delay := at.Sub(epoch)
		switch {
		case delay < minDelay:
			t.Fatalf("after %s: a hot loop", delay)
		case delay > r.RetryDelay(c, counted, draw):
			t.Fatalf("after %s, later than the backoff's %s", delay, r.RetryDelay(c, counted, draw))
		case left >= lastTry+minDelay && delay > left-lastTry:
			t.Fatalf("after %s of %s: too late", delay, left)
		}
		if later := r.RetryAt(c, counted+1, draw, epoch, epoch.Add(24*time.Hour)); later.Before(r.RetryAt(c, counted, draw, epoch, epoch.Add(24*time.Hour))) {
			t.Fatal("it does not grow")
		}
	})
	if at := r.RetryAt(events.Marketing, 9, 0.5, epoch, after(61)); !at.Equal(after(30)) {
		t.Errorf("half way at %v", at)
	}
}

// A message that ended while an attempt was unknown is over, but a row at the gateway may be its: look-ups of others must know.
func TestGhosts(t *testing.T) {
	t.Parallel()
	p := newTape()
	for _, id := range []string{"a", "b"} {
		p.queued(msg{id: id})
		p.started(id, 1)
		p.unknown(id, 1)
	}
	p.ended(events.ClosedTimeout, "a")
	q := p.queue(DefaultRules())
	if g := q.Ghosts(); len(g) != 1 || g[0].ID != "a" {
		t.Fatalf("ghosts %v", g)
	}
	late := p.now.Add(11 * time.Minute)
	q.Compact(p.seq, late)
	if len(q.Ghosts()) != 1 {
		t.Error("let go while another attempt is looked up")
	}
	p.proved("b", 1)
	q.Apply(p.log[len(p.log)-1])
	q.Compact(p.seq, p.now.Add(9*time.Minute))
	if len(q.Ghosts()) != 1 {
		t.Error("let go within its window")
	}
	q.Compact(p.seq, late) // no event came since: time alone lets it go
	if len(q.Ghosts()) != 0 || q.Len() != 0 {
		t.Errorf("%d left", q.Len())
	}
}
