package sim

import (
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// checkSilence: that a receipt is overdue, or that no delivery was confirmed, is said once, late enough, and only of a message of which
// the log has no such receipt; nothing that left is without a word for ever.
func (h *history) checkSilence(m *told) {
	state := message.State{ID: m.ID}
	said := map[string]bool{}
	for _, r := range m.recs {
		before := state.View()
		state = state.Apply(r)
		var least time.Duration
		silent := before.Stage == events.StageDispatched
		switch r.Type {
		case events.TypeEvidenceAckOverdue:
			least = silences.Ack
		case events.TypeMessageDeliveryUnconfirmed:
			least, silent = silences.Delivery, silent || before.Stage == events.StageSent
		default:
			continue
		}
		h.silences++
		if said[r.Type] {
			h.broke("silence", m.ID, "%s is said twice", r.Type)
		}
		said[r.Type] = true
		if !silent || before.Corrected {
			h.broke("silence", m.ID, "%s is said at %s, and it was %s", r.Type, clock(r.Stored), before.Stage)
		}
		if age := r.Stored.Sub(before.DispatchedAt); age < least-time.Second-maxClockSkew {
			h.broke("silence", m.ID, "%s is said %s after it left", r.Type, age)
		}
	}
	stage := m.view.Stage
	if (stage != events.StageDispatched && stage != events.StageSent) || m.view.Corrected { // what was corrected is never FAILED again
		return
	}
	if age := h.rec.Ended.Sub(m.view.DispatchedAt); age > silences.Delivery+silences.AskFor+10*time.Minute {
		h.broke("silence", m.ID, "it left %s ago, and nobody says that its delivery is not confirmed", age)
	}
}
