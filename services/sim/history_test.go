package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolutionsim"
)

// history is a recording, read: what the log says of each message and instance, and what the gateways took.
type history struct {
	rec      recording
	logs     [][]events.Recorded
	messages map[string]*told
	order    []*told // as accepted
	fenced   map[string][]events.Recorded
	byCall   map[int]attemptKey           // index in rec.Calls → the attempt that made it
	ledger   map[string][]ledgerEntry     // by message
	called   map[attemptKey]bool          // what the log says: not of starts that made no call
	words    map[string][]events.Recorded // of instances as a whole
	turns    int                          // that were judged
	silences int                          // that were said
	parked   int                          // minutes of parked gateways that were judged
	found    []violation
	off      map[string]bool // endpoints that were switched off
	absences int             // attempts that were found absent
}

// told is one message: what its sender was told, and what the log says.
type told struct {
	acceptedMessage
	lane  events.Lane
	recs  []events.Recorded
	state message.State
	view  message.View
	sum   message.Summary
}

type attemptKey struct {
	message string
	attempt int
}

type ledgerEntry struct {
	evolutionsim.Entry
	attempt int
}

// violation is one broken promise.
type violation struct {
	Invariant string
	MessageID string
	What      string
}

func (v violation) String() string { return v.Invariant + " " + v.MessageID + ": " + v.What }

// maxViolations bounds what is told of one run.
const maxViolations = 200

func (h *history) broke(invariant, id, format string, args ...any) {
	if len(h.found) < maxViolations {
		h.found = append(h.found, violation{invariant, id, fmt.Sprintf(format, args...)})
	}
}

// readHistory folds a recording.
func readHistory(rec recording) (*history, error) {
	logs, err := rec.decoded()
	if err != nil {
		return nil, err
	}
	h := &history{
		off: map[string]bool{},
		rec: rec, logs: logs, messages: map[string]*told{}, fenced: map[string][]events.Recorded{}, byCall: map[int]attemptKey{},
		ledger: map[string][]ledgerEntry{}, called: map[attemptKey]bool{}, words: map[string][]events.Recorded{},
	}
	for _, a := range rec.Accepted {
		m := &told{acceptedMessage: a, state: message.State{ID: a.ID}}
		h.messages[a.ID], h.order = m, append(h.order, m)
	}
	for _, log := range logs {
		for _, r := range log {
			h.take(r)
		}
	}
	h.order = slices.DeleteFunc(h.order, func(m *told) bool { return m.Unknown && len(m.recs) == 0 }) // it was never stored
	for _, m := range h.order {
		m.view, m.sum = m.state.View(), m.state.Record.Summarize()
		h.callers(m)
	}
	return h, nil
}

func (h *history) take(r events.Recorded) {
	addr, err := events.ParseEventSubject(r.Address)
	if err != nil {
		h.broke("log", "", "%s has no readable subject", r.Position)
		return
	}
	if addr.Group == events.GroupInstance {
		h.words[addr.Instance] = append(h.words[addr.Instance], r)
	}
	if addr.Group == events.GroupDispatch {
		h.fenced[addr.Instance] = append(h.fenced[addr.Instance], r)
	}
	for _, s := range message.Subjects(r) {
		m := h.messages[s.ID]
		if m == nil {
			h.broke("log", s.ID, "%s is about a message that nobody accepted", r.Position)
			continue
		}
		m.recs = append(m.recs, r)
		if addr.Group == events.GroupQueued {
			m.lane = addr.Lane
		}
		m.state = m.state.Apply(r)
	}
}

// callers notes which attempts called the gateway, as the log says.
func (h *history) callers(m *told) {
	for _, f := range m.state.Record {
		if f.Kind != message.KindStarted {
			continue
		}
		k := attemptKey{m.ID, f.Attempt}
		h.called[k] = true
		for _, o := range m.state.Record {
			if o.Attempt == f.Attempt && o.Kind == message.KindDeferred && !o.Called {
				delete(h.called, k)
			}
		}
	}
}

// story tells all that is known of a message, in the order of the log.
func (h *history) story(id string) string {
	m := h.messages[id]
	if m == nil {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "  %s on %s, text %s, until %s\n", id, m.Instance, m.Text, clock(m.DeliverUntil))
	for _, r := range m.recs {
		body := fmt.Sprintf("%+v", r.Body)
		if _, ok := r.Body.(*events.MessageQueued); ok {
			body = r.Address
		}
		if b, ok := r.Body.(*events.DispatchClosed); ok && len(b.Messages) > 1 {
			body = fmt.Sprintf("&{%s %s presumed:%t, of %d messages}", b.Reason, b.Code, b.Presumed, len(b.Messages))
		}
		fmt.Fprintf(&out, "  %s %-7s %-26s attempt %d %s\n", clock(r.Stored), r.Position, r.Type, r.Attempt, body)
	}
	for i, c := range h.rec.Calls {
		if k := h.byCall[i]; k.message == id {
			fmt.Fprintf(&out, "  %s call of attempt %d reached the gateway; the group stood at %d\n", clock(c.At), k.attempt, c.Group)
		}
	}
	for _, e := range h.ledger[id] {
		fmt.Fprintf(&out, "  %s the gateway took it, key id %s, answered %s\n", clock(e.AcceptedAt), e.KeyID, clock(e.FinishedAt))
	}
	lines := strings.SplitAfter(out.String(), "\n")
	if n := len(lines); n > maxLines {
		lines = append(append(lines[:maxLines/2:maxLines/2], "  …\n"), lines[n-maxLines/2:]...)
	}
	return strings.Join(lines, "")
}

// maxLines bounds a story; its middle is left out.
const maxLines = 40

// clock shows a time of the run: day and time.
func clock(t time.Time) string { return t.UTC().Format("02T15:04:05.000") }
