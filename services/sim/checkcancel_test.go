package sim

import (
	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
)

// checkCancels: what was answered as canceled is canceled for good and never left; what was answered as sent or over is; nothing is
// canceled that nobody asked for. Operators' words about attempts were true, as this run means them to be.
func (h *history) checkCancels() {
	asked := map[string]bool{}
	for _, c := range h.rec.Cancels {
		asked[c.ID] = true
		m := h.messages[c.ID]
		if m == nil {
			h.broke("run", c.ID, "a message was canceled that nobody accepted")
			continue
		}
		switch end := m.sum.End; c.Verdict {
		case cancel.Canceled:
			if end == nil || end.Reason != events.ClosedCanceled || m.view.Stage != events.StageCanceled {
				h.broke("cancel", c.ID, "it was answered as canceled at %s, and is %s", clock(c.Asked), m.view.Stage)
			}
		case cancel.AlreadySent:
			if !m.sum.Accepted && !m.sum.Proved {
				h.broke("cancel", c.ID, "it was answered as sent at %s, and is %s", clock(c.Asked), m.view.Stage)
			}
		case cancel.AlreadyFinal:
			if end == nil {
				h.broke("cancel", c.ID, "it was answered as over at %s, and did not end", clock(c.Asked))
			}
		default: // it was not canceled by this, or that is not known
		}
	}
	for _, m := range h.order {
		if m.view.Stage != events.StageCanceled {
			continue
		}
		if !asked[m.ID] {
			h.broke("cancel", m.ID, "it is canceled, and nobody asked for that")
		}
		if left := h.ledger[m.ID]; len(left) > 0 {
			h.broke("cancel", m.ID, "it is canceled, and left at %s", clock(left[0].AcceptedAt))
		}
	}
	for _, m := range h.order {
		h.checkWords(m)
	}
}

// checkWords: an operator of this run says that an attempt had no effect only where it had none.
func (h *history) checkWords(m *told) {
	for _, r := range m.recs {
		b, ok := r.Body.(*events.DispatchDisproved)
		if !ok || b.By != events.DisprovedOperator {
			continue
		}
		for _, e := range h.ledger[m.ID] {
			if e.attempt == r.Attempt {
				h.broke("run", m.ID, "an operator said that attempt %d had no effect, and it left at %s", r.Attempt, clock(e.AcceptedAt))
			}
		}
	}
}
