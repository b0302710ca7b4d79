package queue

import (
	"maps"
	"time"
	"unique"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// Queue is the fold of one instance. Make one with New.
type Queue struct {
	instance string
	rules    Rules
	entries  map[string]*Entry

	chain   chain
	floor   uint64 // events up to here are folded for good
	latest  time.Time
	trimmed time.Time            // latest when gateway ids were last let go
	bound   map[string]time.Time // gateway ids of messages that left, by when

	opened, closed, paused, resumed, draining, parked, unparked uint64    // sequence of the newest event of each kind
	wide                                                        uint64    // of the newest park for the gateway's sake
	left                                                        time.Time // of the newest acceptance by the gateway

	doubt  doubt
	pace   pace
	said   []saying         // by sequence
	taken  map[string]uint8 // slots of the messages that turns of this process are busy with; no part of the state
	claims map[string]claim // what those turns were given for

	ix index
}

// New gives the empty queue of an instance.
func New(instance string, rules Rules) *Queue {
	return &Queue{instance: instance, rules: rules, entries: map[string]*Entry{}, bound: map[string]time.Time{}, chain: newChain(), ix: newIndex(), taken: map[string]uint8{}, claims: map[string]claim{}}
}

// SetRules replaces the rules; the fold does not depend on them. What is ready or over does on some, and is sorted anew.
func (q *Queue) SetRules(r Rules) {
	old := q.rules
	q.rules = r
	q.pace.known = q.pace.known && old.Pace == r.Pace
	if maps.Equal(old.Attempts, r.Attempts) && maps.Equal(old.Policies, r.Policies) {
		return
	}
	ix := q.ix
	q.ix = newIndex()
	q.ix.passed, q.ix.saved, q.ix.had, q.ix.picked = ix.passed, ix.saved, ix.had, ix.picked
	for _, e := range q.entries {
		q.reindex(e)
	}
}

// Rules gives the rules in force.
func (q *Queue) Rules() Rules { return q.rules }

// Apply takes an event in. It cannot fail, and an event taken in twice changes nothing.
func (q *Queue) Apply(rec events.Recorded) {
	addr, err := events.ParseEventSubject(rec.Address)
	seq := rec.Position.Sequence
	if err != nil { // a stranger moves the group under any name
		addr.Instance, _ = events.FencedInstance(rec.Address)
		addr.Group, rec.Known = events.GroupDispatch, false
	}
	if addr.Instance != q.instance || seq <= q.floor {
		return
	}
	if rec.Time.After(q.latest) {
		q.latest = rec.Time
	}
	switch addr.Group {
	case events.GroupQueued:
		q.applyQueued(rec, addr.Lane)
	case events.GroupInstance:
		q.applyInstance(rec, addr.Name, seq)
	case events.GroupDispatch:
		q.chain.add(link{seq: seq, prev: rec.Prev, unread: !rec.Known})
		q.applyDispatch(rec)
	case events.GroupMessage:
		q.applyWord(rec)
	case events.GroupReceipt:
		q.noteReceipt(rec)
	default: // evidence decides nothing here
	}
}

// applyWord takes in an operator's word about a message: it decides no start, but when a retry is due.
func (q *Queue) applyWord(rec events.Recorded) {
	if rec.Known && events.NameOf(rec.Type) == events.NameOf(events.TypeMessageRetryRequested) {
		q.applyFact(rec)
	}
}

func (q *Queue) applyQueued(rec events.Recorded, lane events.Lane) {
	if !rec.Known || rec.Subject == "" {
		return
	}
	e := q.entries[rec.Subject]
	if e == nil {
		e = &Entry{ID: rec.Subject}
		q.entries[rec.Subject] = e
	}
	if e.queued && e.QueuedSeq <= rec.Position.Sequence {
		return
	}
	// Copies that entries share, so that none keeps its whole subject.
	e.Lane = events.Lane{
		Instance: q.instance, Class: events.Class(unique.Make(string(lane.Class)).Value()), Tenant: unique.Make(lane.Tenant).Value(), Slot: lane.Slot,
	}
	e.queued, e.QueuedSeq = true, rec.Position.Sequence
	e.AcceptedAt, e.DeliverAt, e.DeliverUntil = rec.Time, rec.DeliverAt, rec.DeliverUntil
	q.notePace(e)
	q.reindex(e)
}

func (q *Queue) applyInstance(rec events.Recorded, name string, seq uint64) {
	newer := func(s *uint64) { *s = max(*s, seq) }
	switch name {
	case "opened":
		newer(&q.opened)
	case "closed":
		newer(&q.closed)
	case "paused":
		newer(&q.paused)
	case "resumed":
		newer(&q.resumed)
	case "draining":
		newer(&q.draining)
	case "parked":
		newer(&q.parked)
		if b, ok := rec.Body.(*events.InstanceChanged); ok && b.Scope == events.ParkGateway {
			newer(&q.wide)
		}
	case "unparked":
		newer(&q.unparked)
	}
	q.drains()
	for _, e := range q.ix.takeAside() {
		q.reindex(e)
	}
}

// applyDispatch takes in what an event of the fenced group says.
func (q *Queue) applyDispatch(rec events.Recorded) {
	if !rec.Known {
		return
	}
	switch events.NameOf(rec.Type) {
	case events.NameOf(events.TypeDispatchRestored):
		q.applyRestored(rec)
	case events.NameOf(events.TypeDispatchSkipped):
		if b, ok := rec.Body.(*events.DispatchSkipped); ok && b.Sequence < rec.Position.Sequence {
			q.chain.skip(b.Sequence, q.floor)
		}
	default:
		q.applyFact(rec)
	}
}

func (q *Queue) applyFact(rec events.Recorded) {
	f, ok := message.FactOf(rec)
	if !ok {
		return
	}
	if f.GatewayID != "" && f.Kind != message.KindStarted && !f.At.Before(q.bound[f.GatewayID]) {
		q.bound[f.GatewayID] = f.At
	}
	if f.Kind == message.KindAccepted && f.At.After(q.left) {
		q.left = f.At
	}
	for _, m := range message.Subjects(rec) {
		e := q.entries[m.ID]
		if e == nil {
			if m.QueuedSeq > 0 && m.QueuedSeq <= q.floor { // ended before the floor, and dropped
				continue
			}
			e = &Entry{ID: m.ID}
			q.entries[m.ID] = e
		}
		if next := e.Record().With(f); len(next) != len(e.Record()) {
			e.take(next)
			q.notePace(e)
			q.noteSaid(e, rec, f.Kind)
			q.adopt(e)
			q.reindex(e)
		}
	}
}

// Compact makes everything up to seq final: the owner has folded every event up to there. Settled messages are dropped.
// now bounds how long an acceptance without a key id is kept for its look-up.
func (q *Queue) Compact(seq uint64, now time.Time) {
	if seq < q.floor {
		return
	}
	q.floor = seq
	q.chain.compact(seq)
	for _, e := range q.ix.takeSettled() {
		if e.queued && !e.sum().Settled() { // its acceptance arrived after its facts
			continue
		}
		if !q.droppable(e, now) {
			q.ix.settled = append(q.ix.settled, e)
			continue
		}
		if q.entries[e.ID] == e {
			delete(q.entries, e.ID)
		}
		delete(q.ix.ghosts, e)
		delete(q.ix.unknown, e) // its look-up is given up
	}
	q.ix.waiting.prune(len(q.entries))
	q.ix.deadlines.prune(len(q.entries))
	q.trimBound()
	q.trimSaid()
}

// boundLimit is how many gateway ids are kept before the old ones are let go.
const boundLimit = 256

// LookBack is how long before an attempt the rows of the gateway are still looked at for its text: the ids of what left are remembered for so
// long, and can explain them.
const LookBack = time.Hour

// trimBound lets go of the gateway ids that are older than what any look-up asks about.
func (q *Queue) trimBound() {
	if len(q.bound) <= boundLimit || q.latest.Sub(q.trimmed) < time.Minute {
		return
	}
	q.trimmed = q.latest
	oldest := q.latest
	for _, suspects := range []map[*Entry]struct{}{q.ix.unknown, q.ix.ghosts, q.ix.silent} {
		for e := range suspects {
			for _, a := range e.sum().Attempts {
				if a.StartedAt.Before(oldest) {
					oldest = a.StartedAt
				}
			}
		}
	}
	oldest = oldest.Add(-LookBack - time.Minute)
	for id, at := range q.bound {
		if at.Before(oldest) {
			delete(q.bound, id)
		}
	}
}

func (q *Queue) droppable(e *Entry, now time.Time) bool {
	if r := e.Record(); len(r) > 0 && r[len(r)-1].Seq > q.floor {
		return false
	}
	if e.sum().Open() > 0 { // it holds its slot until its outcome
		return false
	}
	if !e.queued {
		return true // a fact of a message whose acceptance lies below the floor and was dropped
	}
	if e.Ghost() { // a row at the gateway may be its
		return len(q.ix.unknown) == 0 && now.Sub(e.sum().End.At) > q.rules.BindWindow
	}
	// Its row, under an id that nobody knows, must not prove another attempt with its text.
	return !e.Unbound() || len(q.ix.silent) == 0 && now.Sub(e.sum().LeftAt) > q.rules.BindWindow
}

// GroupSequence is the sequence of the newest fenced event the fold has seen: the expectation of the next append (rule R1).
func (q *Queue) GroupSequence() uint64 { return q.chain.last() }

// ChainIntact reports whether each fenced event names the one before it (rule R3), but for those that an operator skipped.
func (q *Queue) ChainIntact() bool { return q.chain.breaks == 0 }

// Unreadable lists the fenced events that hold the instance because they cannot be read: an operator may skip each.
func (q *Queue) Unreadable() []uint64 { return q.chain.unreadable() }

// Postpone keeps a message from being chosen before until, for a reason of this process that is no event (its data key cannot
// be read just now). It is forgotten on load.
func (q *Queue) Postpone(id string, until time.Time) {
	if e, ok := q.Entry(id); ok {
		e.became().postponed = until
		q.reindex(e)
	}
}

// Bound reports whether a gateway id already belongs to a message of ours, or is reserved for one that left without a known id.
func (q *Queue) Bound(gatewayID string) bool { _, ok := q.bound[gatewayID]; return ok }

// Entry gives a message the queue still has to do with.
func (q *Queue) Entry(id string) (*Entry, bool) { e, ok := q.entries[id]; return e, ok && e.queued }

// Len counts the messages the queue still has to do with.
func (q *Queue) Len() int { return len(q.entries) }

// Floor is the sequence up to which everything is folded for good.
func (q *Queue) Floor() uint64 { return q.floor }

// Paused reports an operator's pause.
func (q *Queue) Paused() bool { return q.paused > max(q.resumed, q.draining) }

// Parked reports that the sender or its gateway is unusable.
func (q *Queue) Parked() bool { return q.parked > max(q.opened, q.resumed, q.unparked) }

// ParkedWide reports that it is parked for its gateway's sake, as the newest word says: nothing behind that gateway can be used.
func (q *Queue) ParkedWide() bool { return q.Parked() && q.wide == q.parked }

// Closed reports that the gateway says the instance is not connected, for good.
func (q *Queue) Closed() bool { return q.closed > max(q.opened, q.resumed) }
