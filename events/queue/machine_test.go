package queue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// The machine is one instance as dispatch.pml has it: a log with a fence, two dispatchers that both believe they hold the
// lease, an API that cancels and ends, a gateway that may carry out or drop a request at any time, publishes that land late,
// crashes. Each decides on its own fold, which lags as it likes. What they decide is what Queue allows; what must hold is
// checked on the log itself, by code that shares nothing with the fold.

const (
	budget        = 2 * time.Second  // age after which an owner no longer calls
	callLimit     = 15 * time.Second // age after which no call is under way
	successorWait = 20 * time.Second
)

// Where a dispatcher stands.
const (
	idle     = iota
	unsure   // its start was published, the ack is missing
	mayCall  // its start is in the log and in its fold
	awaiting // the call is under way
	settling // the outcome is to be appended
)

type actor struct {
	q     *Queue
	read  int // events folded
	pc    int
	id    string
	n     int
	nonce string
	begun time.Time // before the first publish
	out   string    // outcome to append
	call  bool      // a call was made
	life  int
}

// publish is one whose fate its sender does not know.
type publish struct {
	expected uint64
	id       string
	n        int
	nonce    string
	looked   int // as machine.looked, when it was decided
}

type request struct{ state string } // "pending", "effect" or "none"

type machine struct {
	*tape
	rules  Rules
	actors [3]*actor // two dispatchers and the API
	net    []publish
	gw     map[string]*request // "<id>/<n>"
	calls  map[string]int
	inCall map[int]string // dispatcher → message
	until  map[string]time.Time
	slot   map[string]uint8
	ids    []string
	looked map[string]int // "<message>/<dispatcher>" → events its fold had when a look-up said that it had not left
}

func newMachine(rules Rules) *machine {
	m := &machine{
		tape: newTape(), rules: rules, gw: map[string]*request{}, calls: map[string]int{}, inCall: map[int]string{},
		until: map[string]time.Time{}, slot: map[string]uint8{}, looked: map[string]int{},
	}
	for i := range m.actors {
		m.actors[i] = &actor{q: New(instance, rules)}
	}
	return m
}

func key(id string, n int) string { return fmt.Sprintf("%s/%d", id, n) }

// catchUp folds up to k further events.
func (m *machine) catchUp(a *actor, k int) {
	for ; a.read < len(m.log) && k > 0; k-- {
		a.q.Apply(m.log[a.read])
		a.read++
	}
}

func (m *machine) accept(t *rapid.T) {
	if len(m.ids) >= 4 {
		return
	}
	x := msg{
		id: fmt.Sprintf("m%d", len(m.ids)), class: rapid.SampledFrom(events.Classes()).Draw(t, "class"),
		tenant: rapid.SampledFrom([]string{"t-a", "t-b"}).Draw(t, "tenant"), slot: rapid.Uint8Range(0, 1).Draw(t, "slot"),
		deliverUntil: m.now.Add(time.Duration(rapid.SampledFrom([]int{30, 1200, 1200}).Draw(t, "window")) * time.Second),
	}
	m.ids = append(m.ids, x.id)
	m.until[x.id], m.slot[x.id] = x.deliverUntil, x.slot
	m.queued(x)
}

// tick moves time; a call never outlives its limit, which counts from its intent.
func (m *machine) tick(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{1, 1, 3, 10, 21, 61, 200, 700}).Draw(t, "seconds")) * time.Second)
	m.limitCalls()
}

func (m *machine) limitCalls() {
	for i, a := range m.actors {
		if a.pc == awaiting && m.now.Sub(a.begun) >= callLimit {
			m.answered(i, "unknown")
		}
	}
}

func (m *machine) answered(d int, out string) {
	a := m.actors[d]
	a.pc, a.out, a.call = settling, out, true
	delete(m.inCall, d)
}

// take is a turn begun: who is next, or a lane's hint at any message.
func (m *machine) take(t *rapid.T, d int) {
	a := m.actors[d]
	if a.pc != idle || len(m.ids) == 0 {
		return
	}
	var e *Entry
	if rapid.Bool().Draw(t, "hint") {
		id := rapid.SampledFrom(m.ids).Draw(t, "hinted")
		if a.q.MayStart(id, m.now) != HoldNone {
			return
		}
		e, _ = a.q.Entry(id)
	} else if s, ok := a.q.Next(m.now); ok {
		e = s.Entry
	}
	if e == nil {
		return
	}
	a.life++
	p := publish{a.q.GroupSequence(), e.ID, e.NextAttempt(), fmt.Sprintf("d%d-%d", d, a.life), m.looked[key(e.ID, d)]}
	a.id, a.n, a.nonce, a.begun = p.id, p.n, p.nonce, m.now
	a.pc = unsure
	if rapid.IntRange(0, 3).Draw(t, "ack") == 0 {
		m.net = append(m.net, p) // it may land later, or never
		return
	}
	m.land(t, p)
}

// land is a start reaching the log, if the fence lets it in.
func (m *machine) land(t *rapid.T, p publish) {
	if p.expected != m.group {
		return
	}
	m.mustStart(t, p)
	m.dispatch(p.id, "started", p.n, &events.DispatchStarted{}, nonce(p.nonce))
}

func (m *machine) dropNet(n string) (p publish, ok bool) {
	for i, x := range m.net {
		if x.nonce == n {
			m.net = append(m.net[:i:i], m.net[i+1:]...)
			return x, true
		}
	}
	return publish{}, false
}

// confirm is rule R2: the same again until the group has moved past it; only a nonce that is seen is mine.
func (m *machine) confirm(t *rapid.T, d int) {
	a := m.actors[d]
	if a.pc != unsure {
		return
	}
	if p, ok := m.dropNet(a.nonce); ok {
		m.land(t, p)
	}
	m.catchUp(a, len(m.log))
	e, ok := a.q.Entry(a.id)
	a.pc = idle
	if ok {
		if at := e.Summary().Attempts; len(at) >= a.n && at[a.n-1].Nonce == a.nonce {
			a.pc = mayCall
		}
	}
}

// call is the last look and the write (rule R4).
func (m *machine) call(t *rapid.T, d int) {
	a := m.actors[d]
	if a.pc != mayCall {
		return
	}
	e, ok := a.q.Entry(a.id)
	open := ok && e.Summary().Open() == a.n && e.Summary().Attempts[a.n-1].Nonce == a.nonce
	if !open || e.Summary().Settled() || a.q.Paused() || m.now.Sub(a.begun) >= budget || !m.now.Before(m.until[a.id]) || a.q.InDoubt(a.id) || !a.q.MayCall(a.id) {
		a.pc, a.out, a.call = settling, "deferred", false
		return
	}
	m.mustCall(t, d)
	m.calls[key(a.id, a.n)]++
	m.gw[key(a.id, a.n)] = &request{"pending"}
	m.inCall[d], a.pc = a.id, awaiting
}

func (m *machine) gateway(t *rapid.T) {
	for _, id := range m.ids {
		for n := 1; n <= 9; n++ {
			if r := m.gw[key(id, n)]; r != nil && r.state == "pending" && rapid.Bool().Draw(t, "carried out now") {
				r.state = rapid.SampledFrom([]string{"effect", "none"}).Draw(t, "fate")
			}
		}
	}
}

func (m *machine) answer(t *rapid.T, d int) {
	a := m.actors[d]
	if a.pc != awaiting {
		return
	}
	outs := []string{"unknown"}
	switch m.gw[key(a.id, a.n)].state {
	case "effect":
		outs = append(outs, "accepted", "accepted")
	case "none":
		outs = append(outs, "deferred", "refused", "deferred")
	}
	m.answered(d, rapid.SampledFrom(outs).Draw(t, "answer"))
}

// settle appends the outcome, or what has become of it since (rule R1).
func (m *machine) settle(t *rapid.T, d int) {
	a := m.actors[d]
	if a.pc != settling {
		return
	}
	if a.q.GroupSequence() != m.group { // refused: re-read, decide anew
		m.catchUp(a, len(m.log))
		return
	}
	a.pc = idle
	e, ok := a.q.Entry(a.id)
	if !ok || len(e.Summary().Attempts) < a.n {
		return
	}
	switch at := e.Summary().Attempts[a.n-1]; {
	case at.State == message.AttemptOpen && at.Nonce == a.nonce:
		switch a.out {
		case "accepted":
			m.accepted(a.id, a.n, rapid.SampledFrom([]string{"", "G"}).Draw(t, "gateway id"))
		case "refused":
			m.refused(a.id, a.n)
		case "deferred":
			m.deferred(a.id, a.n, 3, events.DispatchDeferred{Called: a.call})
		default:
			m.unknown(a.id, a.n)
		}
	case at.State == message.AttemptUnknown && at.Nonce == a.nonce && !e.Summary().Settled() && a.out != "unknown":
		switch a.out {
		case "accepted":
			m.proved(a.id, a.n)
		case "refused":
			m.disproved(a.id, a.n, events.FailGatewayRejected)
		default:
			m.disproved(a.id, a.n, "")
		}
	}
}

// turn goes some way through a turn without anyone between, so that long histories are common.
func (m *machine) turn(t *rapid.T, d int) {
	a := m.actors[d]
	way := []func(){
		func() { m.catchUp(a, len(m.log)) },
		func() { m.resolve(d); m.catchUp(a, len(m.log)) },
		func() { m.take(t, d) },
		func() { m.confirm(t, d) },
		func() { m.call(t, d) },
		func() { m.gateway(t) },
		func() { m.answer(t, d) },
		func() { m.catchUp(a, len(m.log)); m.settle(t, d) },
		func() { m.catchUp(a, len(m.log)) },
	}
	for _, f := range way[:rapid.IntRange(2, len(way)).Draw(t, "way")] {
		f()
	}
}

// step does one thing that may happen.
func (m *machine) step(t *rapid.T) {
	d := rapid.IntRange(0, 1).Draw(t, "dispatcher")
	switch rapid.IntRange(0, 34).Draw(t, "step") {
	case 0, 1:
		m.accept(t)
	case 2, 3:
		m.tick(t)
	case 4:
		m.catchUp(m.actors[rapid.IntRange(0, 2).Draw(t, "who reads")], rapid.IntRange(1, 5).Draw(t, "events"))
	case 5:
		m.catchUp(m.actors[rapid.IntRange(0, 2).Draw(t, "who reads")], len(m.log))
	case 6, 7, 8:
		m.take(t, d)
	case 9, 10:
		m.confirm(t, d)
	case 11, 12:
		m.call(t, d)
	case 13:
		m.gateway(t)
	case 14, 15:
		m.answer(t, d)
	case 16, 17:
		m.settle(t, d)
	case 18:
		m.resolve(d)
	case 19:
		m.catchUp(m.actors[2], len(m.log))
		rapid.SampledFrom([]func(*rapid.T){m.lookUp, m.receipt, m.cancel}).Draw(t, "other")(t)
	case 20:
		m.end(t, rapid.IntRange(0, 2).Draw(t, "who ends"))
	case 21:
		if rapid.Bool().Draw(t, "crash") {
			m.crash(d)
		} else if len(m.net) > 0 {
			p := m.net[rapid.IntRange(0, len(m.net)-1).Draw(t, "publish")]
			m.dropNet(p.nonce)
			m.land(t, p)
		}
	case 23, 24, 25, 26, 27, 28:
		m.turn(t, d)
	case 29, 30, 31:
		m.catchUp(m.actors[2], len(m.log))
		rapid.SampledFrom([]func(*rapid.T){m.lookUp, m.receipt}).Draw(t, "news")(t)
	case 32:
		m.now = m.now.Add(successorWait + time.Second)
		m.limitCalls()
	case 33, 34:
		m.doubt(t, d)
	case 22:
		m.operator(t)
	}
	m.mustBeTrue(t)
}

// settled runs everything to its end: what is fair happens, in the end.
func (m *machine) settled(t *rapid.T) {
	m.instance("resumed")
	for range 200 {
		m.now = m.now.Add(21 * time.Second)
		m.limitCalls()
		for d := range m.actors {
			m.catchUp(m.actors[d], len(m.log))
			if d < 2 {
				m.confirm(t, d)
				m.call(t, d)
				m.settle(t, d)
				m.settle(t, d)
				m.resolve(d)
			}
			m.catchUp(m.actors[d], len(m.log))
			m.end(t, d)
			m.mustBeTrue(t)
		}
	}
}

func TestMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		c      int
		policy Policy
	}{{"one at a time, never", 1, Never}, {"one at a time, after absence", 1, AfterAbsence}, {"two slots, never", 2, Never}, {"two slots, after absence", 2, AfterAbsence}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := newMachine(machineRules(c.c, c.policy))
				for range rapid.IntRange(1, 120).Draw(t, "steps") {
					m.step(t)
				}
				m.settled(t)
				m.mustBeSettled(t)
			})
		})
	}
}

func machineRules(c int, p Policy) Rules {
	r := policy(p)
	r.Concurrency = c
	r.Attempts = map[events.Category]int{events.OTP: 3, events.Utility: 3, events.Marketing: 2}
	r.Quiet = 5 * time.Second
	return r
}
