package crash

import (
	"fmt"

	"pilotstatus.dev/events"
)

// attempt is where one attempt stands, by the rules of the dispatch protocol alone (docs/events.md). It is written apart from
// the folds that the product decides with, so that a fault of theirs shows.
type attempt uint8

const (
	open attempt = iota + 1
	accepted
	refused
	deferred
	unknown
	absent // unknown, and found to have left no trace: the next attempt is permitted, a definite end is not
	disproved
)

// story is what the fenced group has said of one message.
type story struct {
	attempts []attempt
	until    events.Recorded // its acceptance
	slot     uint8
	code     bool // its category is OTP
	held     bool // its open start came while the instance was paused or parked
	proved   bool
	ended    bool
}

func (s *story) last() attempt {
	if len(s.attempts) == 0 {
		return 0
	}
	return s.attempts[len(s.attempts)-1]
}

// court judges the fenced groups of one partition in the order of the log.
type court struct {
	stories map[string]*story
	group   map[string]uint64            // instance → last fenced sequence
	calling map[string]map[string]*story // instance → messages with an open start
	paused  map[string]bool
	parked  map[string]bool
	faults  []string
}

// illegal lists what the order of a partition's log breaks: the chain of each group, no more open
// starts of an instance than it may make calls at once and one in a slot (P5), none that calls though the instance was paused or parked before it,
// a start only where the attempt before had no effect or, unless it is of a code, was found absent (R8), no end while a start is open, one end.
func illegal(log []events.Recorded) []string {
	c := court{stories: map[string]*story{}, group: map[string]uint64{}, calling: map[string]map[string]*story{}, paused: map[string]bool{}, parked: map[string]bool{}}
	for _, rec := range log {
		addr, err := events.ParseEventSubject(rec.Address)
		if err != nil {
			c.fault(rec, "its subject is not one of ours")
			continue
		}
		switch {
		case rec.Type == events.TypeMessageQueued:
			c.stories[rec.Subject] = &story{until: rec, slot: addr.Lane.Slot, code: addr.Lane.Class.Category() == events.OTP}
		case addr.Group == events.GroupInstance:
			c.word(rec, addr.Instance)
		case addr.Group == events.GroupDispatch:
			if rec.Prev != c.group[addr.Instance] {
				c.fault(rec, fmt.Sprintf("it names %d as the fenced event before it, which is %d", rec.Prev, c.group[addr.Instance]))
			}
			c.group[addr.Instance] = rec.Position.Sequence
			c.take(rec, addr.Instance)
		}
	}
	return c.faults
}

func (c *court) fault(rec events.Recorded, text string) {
	c.faults = append(c.faults, fmt.Sprintf("%s %s of %s: %s", rec.Position, rec.Type, rec.Subject, text))
}

func (c *court) take(rec events.Recorded, instance string) {
	for _, id := range concerned(rec) {
		s := c.stories[id]
		if s == nil {
			c.fault(rec, "nothing of this message was accepted before")
			continue
		}
		switch rec.Type {
		case events.TypeDispatchStarted:
			c.started(rec, instance, s)
		case events.TypeDispatchClosed:
			c.closed(rec, s)
		case events.TypeDispatchProved:
			s.proved = true
		case events.TypeDispatchDisproved:
			c.disproved(rec, instance, s)
		case events.TypeDispatchAccepted:
			c.outcome(rec, instance, s, open, accepted)
		case events.TypeDispatchRefused:
			c.outcome(rec, instance, s, open, refused)
		case events.TypeDispatchDeferred:
			c.outcome(rec, instance, s, open, deferred)
		case events.TypeDispatchUnknown:
			c.outcome(rec, instance, s, open, unknown)
		case events.TypeDispatchAbsent:
			c.outcome(rec, instance, s, unknown, absent)
		default:
			c.fault(rec, "a type that does not belong here")
		}
	}
}

func (c *court) started(rec events.Recorded, instance string, s *story) {
	for other, o := range c.calling[instance] {
		switch {
		case o.slot == s.slot:
			c.fault(rec, "a start of "+other+" is open")
		case len(c.calling[instance]) >= allowed(instance):
			c.fault(rec, "as many starts are open as may be")
		}
	}
	if s.ended || s.proved {
		c.fault(rec, "the message has ended or left")
	}
	again := s.last() == deferred || s.last() == disproved || s.last() == absent && !s.code
	if n := len(s.attempts); rec.Attempt != n+1 || n > 0 && !again {
		c.fault(rec, fmt.Sprintf("attempt %d after %v", rec.Attempt, s.attempts))
	}
	if !rec.Stored.Before(s.until.DeliverUntil) {
		c.fault(rec, "deliverUntil has passed")
	}
	s.attempts, s.held = append(s.attempts, open), c.paused[instance] || c.parked[instance]
	if c.calling[instance] == nil {
		c.calling[instance] = map[string]*story{}
	}
	c.calling[instance][rec.Subject] = s
}

// word takes in what holds an instance, or the end of it: a start that was appended while it was held may call once nothing holds it.
func (c *court) word(rec events.Recorded, instance string) {
	switch rec.Type {
	case events.TypeInstancePaused:
		c.paused[instance] = true
	case events.TypeInstanceParked:
		c.parked[instance] = true
	case events.TypeInstanceOpened, events.TypeInstanceUnparked:
		c.parked[instance] = false
	case events.TypeInstanceResumed:
		c.paused[instance], c.parked[instance] = false, false
	default:
	}
	if c.paused[instance] || c.parked[instance] {
		return
	}
	for _, s := range c.calling[instance] {
		s.held = false
	}
}

func (c *court) outcome(rec events.Recorded, instance string, s *story, from, to attempt) {
	if rec.Attempt < 1 || rec.Attempt > len(s.attempts) || s.attempts[rec.Attempt-1] != from {
		c.fault(rec, fmt.Sprintf("attempt %d of %v", rec.Attempt, s.attempts))
		return
	}
	s.attempts[rec.Attempt-1] = to
	switch to {
	case accepted:
		s.proved = true
	case refused:
		s.ended = !s.proved
	default:
	}
	if from == open {
		if s.held && (to == accepted || to == refused || rec.Called) {
			c.fault(rec, "it called, and the instance was paused or parked before its start")
		}
		delete(c.calling[instance], rec.Subject)
	}
}

// disproved: an attempt that is unknown, absent or not.
func (c *court) disproved(rec events.Recorded, instance string, s *story) {
	from := unknown
	if n := rec.Attempt; n >= 1 && n <= len(s.attempts) && s.attempts[n-1] == absent {
		from = absent
	}
	c.outcome(rec, instance, s, from, disproved)
}

func (c *court) closed(rec events.Recorded, s *story) {
	if s.ended || s.proved || s.last() == open {
		c.fault(rec, fmt.Sprintf("an end after %v, ended %v, left %v", s.attempts, s.ended, s.proved))
	}
	s.ended = true
}
