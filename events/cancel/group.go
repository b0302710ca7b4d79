package cancel

import (
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// Message is one of the messages to cancel, as it is known before the group is read.
type Message struct {
	ID        string
	QueuedSeq uint64
	Tenant    string
	ReadyAt   time.Time      // the later of its acceptance and its deliverAt: no call was ever made before
	Record    message.Record // its facts up to where the reading of the group begins; empty when that is its acceptance
	// Unreadable says that an event about it, before where the reading begins, could not be read.
	Unreadable bool
}

// Group folds what the fenced group of one instance says of some of its messages. Make it with NewGroup.
type Group struct {
	messages []*Message
	byID     map[string]*Message
	at       uint64 // the group is folded up to here
	restored restored
	broken   bool // an event is missing

	unreadable map[uint64]struct{} // events of a kind unknown to this process, unless an operator passed over them
}

// restored is the newest dispatch.restored of the instance; the zero value is none.
type restored struct {
	seq, upTo uint64
	since     time.Time
}

// NewGroup begins at a sequence up to which the records of the messages are complete, each id given once.
func NewGroup(after uint64, messages []Message) *Group {
	g := &Group{at: after, byID: make(map[string]*Message, len(messages)), unreadable: map[uint64]struct{}{}}
	for _, m := range messages {
		g.messages = append(g.messages, &m)
		g.byID[m.ID] = &m
	}
	return g
}

// At gives the sequence up to which the group was folded: what is read next begins behind it.
func (g *Group) At() uint64 { return g.at }

// Apply takes in events of the group behind At, in order and without leaving one out; headers and the bodies that folds need are
// enough. Each names the one before it, so that a missing one is noticed (rule R3).
func (g *Group) Apply(recs ...events.Recorded) {
	for _, rec := range recs {
		g.apply(rec)
	}
}

func (g *Group) apply(rec events.Recorded) {
	seq := rec.Position.Sequence
	if seq <= g.at {
		return
	}
	// The first one names an event that lies before the reading, wherever that is; g.at is no event then.
	if rec.Prev > g.at {
		g.broken = true
	}
	g.at = seq
	if !rec.Known {
		g.unreadable[seq] = struct{}{}
		return
	}
	switch b := rec.Body.(type) {
	case *events.DispatchRestored:
		g.Restored(rec)
		return
	case *events.DispatchSkipped:
		delete(g.unreadable, b.Sequence)
		return
	}
	f, ok := message.FactOf(rec)
	if !ok {
		return
	}
	for _, s := range message.Subjects(rec) {
		if m := g.byID[s.ID]; m != nil {
			m.Record = m.Record.With(f)
		}
	}
}

// Restored takes in the newest dispatch.restored of the instance, which may lie before the reading.
func (g *Group) Restored(rec events.Recorded) {
	seq := rec.Position.Sequence
	if seq <= g.restored.seq {
		return
	}
	r := restored{seq: seq, upTo: seq, since: rec.Time}
	if b, ok := rec.Body.(*events.DispatchRestored); ok {
		r.upTo = min(r.upTo, b.UpTo)
	}
	g.restored = r
}

// inDoubt reports whether m may have left in a part of the log that was lost, with no start since: who starts it then has looked.
func (g *Group) inDoubt(m *Message) bool {
	if g.restored.seq == 0 || m.QueuedSeq > g.restored.upTo || m.ReadyAt.After(g.restored.since) {
		return false
	}
	for _, f := range m.Record {
		if f.Kind == message.KindStarted && f.Seq > g.restored.seq {
			return false
		}
	}
	return true
}

// Facts gives what is known of a message up to At: its record, whether it may have left in a part of the log that was lost, and whether
// every event that decides about it could be read. Nothing is known of one that was not given to NewGroup.
func (g *Group) Facts(id string) (r message.Record, inDoubt, whole bool) {
	m := g.byID[id]
	if m == nil {
		return nil, false, false
	}
	end := m.Record.Summarize().End
	inDoubt = g.inDoubt(m) && (end == nil || end.Seq > g.restored.seq)
	return m.Record, inDoubt, !g.broken && len(g.unreadable) == 0 && !m.Unreadable
}

// Verdict gives what is known of a message; NotFound for one that was not given to NewGroup.
func (g *Group) Verdict(id string) Verdict {
	m := g.byID[id]
	if m == nil {
		return NotFound
	}
	v := Judge(m.Record)
	switch {
	case v != May:
		return v
	case g.broken || len(g.unreadable) > 0 || m.Unreadable:
		return TryAgain
	case g.inDoubt(m):
		return Unconfirmed
	}
	return May
}

// Close gives the end to append with the fence at At, of every message that may be canceled now; false when there is none.
// At most events.MaxClosed messages are named.
func (g *Group) Close() (events.DispatchClosed, bool) {
	c := events.DispatchClosed{Reason: events.ClosedCanceled}
	for _, m := range g.messages {
		if len(c.Messages) < events.MaxClosed && g.Verdict(m.ID) == May {
			c.Messages = append(c.Messages, events.ClosedMessage{ID: m.ID, QueuedSeq: m.QueuedSeq})
		}
	}
	return c, len(c.Messages) > 0
}
