// Package cancel decides, by the fenced group of one instance, which of its messages may be canceled and what to say of the others.
package cancel

import (
	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// Verdict is what is said to a request to cancel a message. Except for May and Canceled it is the reason of a refusal, as customers
// see it (docs/reference/api.md).
type Verdict string

// The verdicts.
const (
	May            Verdict = ""                // nothing stands against it: closed{canceled} may be appended with the fence
	Canceled       Verdict = "CANCELED"        // it is canceled, by whomever: the log says so
	NotFound       Verdict = "NOT_FOUND"       // no such message inside the caller's scope
	AlreadySending Verdict = "ALREADY_SENDING" // a call to the gateway may be under way
	Unconfirmed    Verdict = "UNCONFIRMED"     // an earlier call may have had an effect (rule R7)
	AlreadySent    Verdict = "ALREADY_SENT"    // it left
	AlreadyFinal   Verdict = "ALREADY_FINAL"   // it failed
	TryAgain       Verdict = "TRY_AGAIN"       // not known now; nothing is changed, or it is not known whether it is
)

// Judge decides by the facts of one message (rules R1 and R7): no open start, no end, and no attempt that was neither deferred nor
// disproved. It is queue.MayClose for a cancel, of one message.
func Judge(r message.Record) Verdict {
	s := r.Summarize()
	switch (message.State{Record: r}).View().Stage {
	case events.StageCanceled:
		return Canceled
	case events.StageFailed:
		return AlreadyFinal
	case events.StageDispatched, events.StageSent, events.StageDelivered, events.StageRead:
		return AlreadySent
	default: // what may still change is decided by the summary: a stage never goes back, an attempt may
	}
	switch {
	case s.Settled():
		return AlreadyFinal
	case s.Open() > 0:
		return AlreadySending
	}
	for _, a := range s.Attempts {
		if a.State != message.AttemptDeferred && a.State != message.AttemptDisproved {
			return Unconfirmed
		}
	}
	return May
}
