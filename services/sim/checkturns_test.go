package sim

import (
	"math"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
)

// quiet reports whether a message was accepted for the calm gateway in the quiet end of the run.
func (h *history) quiet(m *told) bool {
	return (m.Instance == instanceID(sharedCalm) || m.Instance == instanceID(ownedCalm)) && m.state.Queued != nil &&
		m.state.Queued.Position.Sequence > 0 && !m.recs[0].Stored.Before(h.rec.Quiet)
}

// stirs counts how often who works may have changed in a time.
func (h *history) stirs(from, to time.Time) (n int) {
	for _, s := range h.rec.Stirred {
		if s.From.Before(to) && s.To.After(from) {
			n++
		}
	}
	return n
}

// checkTurns: in the quiet end of the run each class that waits has its turn within the turns of aging, a tenant within those that the
// others may have before it, a lane keeps its order, and nothing waits until its time is over. What could not have the turn that was its
// own, since calls of its slots were under way, goes as soon as it can, behind those that waited longer. Who takes over begins to count anew.
func (h *history) checkTurns() {
	for _, n := range []int{sharedCalm, ownedCalm} {
		h.turnsOf(instanceID(n))
	}
	if h.turns < (quietShared+quietOwned)/2 {
		h.broke("run", "", "only %d turns are judged in the quiet end, of %d messages", h.turns, quietShared+quietOwned)
	}
}

func (h *history) turnsOf(instance string) {
	t := &turns{
		h: h, instance: instance, begun: map[string]bool{}, classes: map[events.Class]*waiting{}, shares: map[share]*waiting{},
		under: map[attemptKey]uint8{}, freed: map[uint8]uint64{},
	}
	for _, m := range h.order {
		if m.Instance != instance {
			continue
		}
		t.line = append(t.line, m)
		if h.quiet(m) && m.sum.End != nil && m.sum.End.Reason == events.ClosedExpired { // a sixth of its time is enough for all
			h.broke("turns", m.ID, "it expired in the quiet end")
		}
	}
	for _, r := range h.fenced[instance] {
		t.take(r)
	}
}

// turns follows the turns of one instance, in the order of its fenced group.
type turns struct {
	h        *history
	instance string
	line     []*told         // its messages, as accepted
	begun    map[string]bool // of those that are judged
	classes  map[events.Class]*waiting
	shares   map[share]*waiting
	had      []hadTurn
	under    map[attemptKey]uint8 // calls under way → slot
	freed    map[uint8]uint64     // slot → sequence of the outcome that freed it last
	full     uint64               // sequence of the last outcome before which as many calls were under way as are allowed
}

// share is what a tenant has of a class.
type share struct {
	class  events.Class
	tenant string
}

// hadTurn is a turn that somebody had, or may have had.
type hadTurn struct {
	share
	at time.Time
}

// waiting is what waits in one line: a class of an instance, or a tenant in it.
type waiting struct {
	since  time.Time // something of it could start
	most   int       // turns of others that it may wait for: the most that it was meanwhile
	passed float64   // turns of others since then, or since its own last one
}

func (t *turns) take(r events.Recorded) {
	switch b := r.Body.(type) {
	case *events.DispatchStarted:
		if m := t.h.messages[r.Subject]; m != nil {
			t.start(r, m)
			t.under[attemptKey{r.Subject, r.Attempt}] = m.lane.Slot
		}
	case *events.DispatchClosed:
		if b.Reason == events.ClosedExpired || b.Reason == events.ClosedTimeout {
			return
		}
		for _, s := range message.Subjects(r) { // it ended by its turn, or while somebody typed for it: its class and its tenant had that turn
			if m := t.h.messages[s.ID]; m != nil {
				t.over(r, m)
			}
		}
	case *events.DispatchAccepted, *events.DispatchRefused, *events.DispatchDeferred, *events.DispatchUnknown:
		k := attemptKey{r.Subject, r.Attempt}
		if slot, ok := t.under[k]; ok {
			if len(t.under) >= t.h.callsAllowed(t.instance, r.Stored) {
				t.full = r.Position.Sequence
			}
			t.freed[slot] = r.Position.Sequence
			delete(t.under, k)
		}
	}
}

// over takes in that the class and the tenant of a message had a turn that is not judged.
func (t *turns) over(r events.Recorded, m *told) {
	s := share{m.lane.Class, m.lane.Tenant}
	delete(t.classes, s.class)
	delete(t.shares, s)
	t.had = append(t.had, hadTurn{s, r.Stored})
}

// start takes a turn in that came to a start, and judges it.
func (t *turns) start(r events.Recorded, m *told) {
	if !t.h.quiet(m) || r.Attempt > 1 { // of before: it is no turn that is judged
		t.over(r, m)
		return
	}
	t.h.turns++
	t.begun[m.ID] = true
	mine := share{m.lane.Class, m.lane.Tenant}
	waits, waitShares := map[events.Class]bool{}, map[share]bool{} // → one of its slots is free
	for _, other := range t.line {                                 // what was there when this turn was chosen, and could have had it
		chosen := r.Time.Add(-choosing)
		if !t.h.quiet(other) || t.begun[other.ID] || other.overAt(r.Position.Sequence) || !other.recs[0].Stored.Before(chosen) || other.ReadyAt.After(chosen) {
			continue
		}
		if other.lane == m.lane && other.before(m) && t.h.stirs(other.ReadyAt, r.Time) == 0 {
			t.h.broke("turns", m.ID, "it starts at %s before %s, which was ready before it in the same lane", clock(r.Time), other.ID)
		}
		free, s := t.free(other.lane.Slot, m.lane.Slot), share{other.lane.Class, other.lane.Tenant}
		waits[s.class], waitShares[s] = waits[s.class] || free, waitShares[s] || free
	}
	claim := t.mostPassed(r, func(s share) bool { return s.class == mine.class }, func(share) bool { return true })
	passes(t, t.classes, waits, mine.class, claim, r, func(c events.Class) (int, float64) {
		return queue.DefaultRules().AgingTurns * t.shared(r, mine.class, c, waits), t.counts(r, mine.class, c)
	})
	claim = t.mostPassed(r, func(s share) bool { return s == mine }, func(s share) bool { return s.class == mine.class })
	passes(t, t.shares, waitShares, mine, claim, r, func(s share) (int, float64) {
		if s.class != mine.class {
			return 0, 0
		}
		return 2 * (len(tenants) - 1), 1
	})
	t.had = append(t.had, hadTurn{mine, r.Stored})
}

// free reports that a slot was free when the turn of another one was chosen, for all that the log tells: that was not before the last call
// of that one's slot had ended, nor before there was room for one more.
func (t *turns) free(slot, chosen uint8) bool {
	for _, s := range t.under {
		if s == slot {
			return false
		}
	}
	return t.freed[slot] <= max(t.freed[chosen], t.full)
}

// mostPassed gives how many turns of others a line may have waited for when it has its own: all that count since its last one, and since
// something waited in it. What is to wait longest goes first, and it waits from the moment on when it is stored and ready.
func (t *turns) mostPassed(r events.Recorded, mine, counts func(share) bool) (n float64) {
	first := r.Stored
	for _, m := range t.line {
		if !mine(share{m.lane.Class, m.lane.Tenant}) || m.leftAt(r.Position.Sequence) || m.overAt(r.Position.Sequence) || len(m.recs) == 0 {
			continue
		}
		if at := newer(m.recs[0].Stored, m.ReadyAt); at.Before(first) {
			first = at
		}
	}
	for i := len(t.had) - 1; i >= 0 && !mine(t.had[i].share) && !t.had[i].at.Before(first); i-- {
		if counts(t.had[i].share) {
			n++
		}
	}
	return n
}

// counts gives as how much of a turn one counts that a class has while another waits. Where it takes less from the bucket than the other
// waits for, it counts as that part of a turn: else what costs little would wait for what costs much.
func (t *turns) counts(r events.Recorded, has, waits events.Class) float64 {
	part := 1.0
	t.h.inForce(t.instance, r.Stored, func(s setting) {
		took, saves := s.Pace.Cost(has.Category()), s.Pace.Cost(waits.Category())
		if !s.Pace.Free() && took < saves {
			part = min(part, took/saves)
		}
	})
	return part
}

// shared gives how many turns of a class the share comes to that it has together with others, when one of class has goes while others wait:
// those that are dearer than another share one token in as many as aging says.
func (t *turns) shared(r events.Recorded, has, class events.Class, others map[events.Class]bool) int {
	n := 1
	t.h.inForce(t.instance, r.Stored, func(s setting) {
		least, all := s.Pace.Cost(has.Category()), s.Pace.Cost(class.Category())
		for c := range others {
			least = min(least, s.Pace.Cost(c.Category()))
		}
		if mine := all; !s.Pace.Free() && mine > least {
			for _, c := range events.Classes() {
				_, waits := others[c]
				if cost := s.Pace.Cost(c.Category()); (waits || c == has) && c != class && cost > least {
					all += cost
				}
			}
			n = max(n, int(math.Ceil(all/mine-1e-9)))
		}
	})
	return n
}

// passes takes one turn of mine into account for all that waits, with whether it could have had this turn. Mine had waited for claim turns at
// most. limit gives how many turns of others each may wait for, 0 where this one does not count, and as how many this one counts.
func passes[K comparable](t *turns, lines map[K]*waiting, waits map[K]bool, mine K, claim float64, r events.Recorded, limit func(K) (int, float64)) {
	for k := range waits {
		if lines[k] == nil {
			lines[k] = &waiting{since: r.Time}
		}
	}
	if w := lines[mine]; w != nil {
		claim = max(claim, w.passed)
	}
	delete(lines, mine)
	for k, w := range lines {
		most, part := limit(k)
		free, there := waits[k]
		switch {
		case !there:
			delete(lines, k)
			continue
		case most == 0:
			continue
		}
		const rounding = 1e-6
		w.passed += part
		w.most = max(w.most, most)
		if allowed := w.most * (1 + t.h.stirs(w.since, r.Time)); free && w.passed > claim+1+rounding && w.passed > float64(allowed)+rounding {
			t.h.broke("turns", r.Subject, "%v waits since %s, and by %s others had %.1f turns: %d are allowed, and as many once more with each change of who works",
				k, clock(w.since), clock(r.Time), w.passed, w.most)
		}
	}
}

// overAt reports that a message had ended before a place in its log.
func (m *told) overAt(seq uint64) bool {
	return m.saidBefore(seq, events.TypeDispatchClosed, events.TypeDispatchRefused)
}

// leftAt reports that it had left before a place in its log.
func (m *told) leftAt(seq uint64) bool {
	return m.saidBefore(seq, events.TypeDispatchAccepted, events.TypeDispatchProved)
}

func (m *told) saidBefore(seq uint64, either ...string) bool {
	return slices.ContainsFunc(m.recs, func(r events.Recorded) bool {
		return r.Position.Sequence < seq && slices.Contains(either, r.Type)
	})
}

// choosing is how long before its start a turn may have been chosen: a number check and typing come between.
const choosing = 20 * time.Second

// before is the order inside a lane.
func (m *told) before(o *told) bool {
	if !m.ReadyAt.Equal(o.ReadyAt) {
		return m.ReadyAt.Before(o.ReadyAt)
	}
	return m.Seq < o.Seq
}
