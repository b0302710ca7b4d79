package message

import (
	"time"

	"pilotstatus.dev/events"
)

// The order of the fold (docs/adr/0005): a fact moves the stage only upwards. Without proof the order is (attempt, step);
// above all attempts come, in this order, the ranks below. CANCELED, FAILED and presumed FAILED are ends of the fenced group.
const (
	rankDispatched = (maxAttempts+2)*4 + iota
	rankCanceled
	rankFailed
	rankPresumed
	rankSent
	rankGatewayError
	rankNotConfirmed
	rankDelivered
	rankRead
)

func rankQueued(attempt int) int      { return attempt * 4 }
func rankSending(attempt int) int     { return attempt*4 + 1 }
func rankUnconfirmed(attempt int) int { return attempt*4 + 2 }

// walk is the running state of one pass over the facts.
type walk struct {
	sum       Summary
	rank      int
	corrected bool
}

func (w *walk) step(v *View, f Fact) {
	before, endBefore := v.Stage.Status(), w.sum.End
	w.sum.apply(f)
	rank, stage := w.target(f, endBefore)
	setTime(v, f)
	if stage != "" && w.corrected && (rank == rankGatewayError || rank == rankNotConfirmed) {
		stage = "" // corrected once towards the customer: never reported FAILED again
	}
	if stage == "" || rank <= w.rank {
		return
	}
	w.rank, v.Stage = rank, stage
	correction := 0
	switch stage {
	case events.StageFailed, events.StageCanceled:
		v.ErrorCode, v.Presumed = w.failure(f)
		if stage == events.StageCanceled {
			v.CanceledAt = f.At
		} else {
			v.FailedAt = f.At
		}
	default:
		if before == events.StatusFailed || before == events.StatusCanceled {
			w.corrected, v.Corrected, correction = true, true, 1
		}
		v.ErrorCode, v.Presumed = "", false
	}
	if after := stage.Status(); after != before || correction > 0 {
		v.Transitions = append(v.Transitions, Transition{Seq: f.Seq, At: f.At, Status: after, ErrorCode: v.ErrorCode, Correction: correction})
	}
}

// target gives the stage a fact argues for, and its rank; "" when it argues for none.
func (w *walk) target(f Fact, endBefore *End) (int, events.Stage) {
	if f.Attempt > maxAttempts {
		return 0, "" // as Summary: a number no writer of ours produces argues for nothing
	}
	switch f.Kind {
	case KindStarted:
		return rankSending(f.Attempt), events.StageSending
	case KindUnknown:
		return rankUnconfirmed(f.Attempt), events.StageUnconfirmed
	case KindDeferred, KindDisproved:
		switch newest := len(w.sum.Attempts); {
		case w.sum.Open() > 0:
			return 0, ""
		case w.sum.Outstanding() > 0: // another attempt may have had an effect
			return rankUnconfirmed(newest), events.StageUnconfirmed
		default: // none had: the message waits for the attempt after the newest, whichever this fact is about
			return rankQueued(newest + 1), events.StageQueued
		}
	case KindAccepted, KindProved:
		if endBefore != nil { // after an end a proof changes no state
			return 0, ""
		}
		return rankDispatched, events.StageDispatched
	case KindRefused, KindClosed:
		if end := w.sum.End; end != nil && endBefore == nil {
			switch {
			case end.Reason == events.ClosedCanceled:
				return rankCanceled, events.StageCanceled
			case end.Presumed:
				return rankPresumed, events.StageFailed
			}
			return rankFailed, events.StageFailed
		}
		return 0, ""
	case KindSent:
		return rankSent, events.StageSent
	case KindFailed:
		return rankGatewayError, events.StageFailed
	case KindNotConfirmed:
		return rankNotConfirmed, events.StageFailed
	case KindDelivered:
		return rankDelivered, events.StageDelivered
	case KindRead:
		return rankRead, events.StageRead
	default:
		return 0, ""
	}
}

func (w *walk) failure(f Fact) (events.ErrorCode, bool) {
	switch f.Kind {
	case KindFailed:
		if f.Code != "" {
			return f.Code, false
		}
		return events.FailGatewayRejected, false
	case KindNotConfirmed:
		return events.FailNotConfirmed, false
	default:
		return w.sum.End.Code, w.sum.End.Presumed
	}
}

// setTime keeps the first time of each receipt, both of a late pair and none that is invented, and what changes no stage.
func setTime(v *View, f Fact) {
	first := func(t *time.Time) {
		if t.IsZero() {
			*t = f.At
		}
	}
	switch f.Kind {
	case KindSent:
		first(&v.SentAt)
	case KindDelivered:
		first(&v.DeliveredAt)
	case KindRead:
		first(&v.ReadAt)
	case KindErased:
		v.Erased = true
	case KindAckOverdue:
		v.AckOverdue = true
	default:
	}
}
