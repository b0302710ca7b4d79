// Package retry decides what an operator's word that one message is tried again comes to: never a call beside one that may have had an
// effect, unless a person takes that on himself.
package retry

import (
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// Codes of refusals. Those of which details.forceable is true are not refused when the retry is forced.
const (
	CodeSending     events.Code = "RETRY_WHILE_SENDING"    // a call to the gateway may be under way
	CodeUnconfirmed events.Code = "RETRY_UNCONFIRMED"      // it may have left, and is being verified
	CodeSent        events.Code = "RETRY_ALREADY_SENT"     // it left
	CodeMayHave     events.Code = "RETRY_MAY_HAVE_ARRIVED" // it ended, and may have arrived all the same
	CodeEnding      events.Code = "RETRY_ENDING"           // no attempt may follow, and its end is not recorded yet
)

// Forceable is the detail of a refusal that says whether the retry may be forced.
const Forceable = "forceable"

// Action is what is done.
type Action string

// Actions.
const (
	NextAttempt Action = "next_attempt" // message.retry_requested: the next attempt is due now
	Disprove    Action = "disproved"    // dispatch.disproved by the operator, which permits the next attempt (rule R8)
	Anew        Action = "new_message"  // a new message with retryOf and a fresh window
)

// Facts is what is known of a message.
type Facts struct {
	Record       message.Record
	InDoubt      bool // it may have left in a part of the log that was lost
	Whole        bool // every event about it could be read
	Budget       int  // of attempts with a call
	DeliverUntil time.Time
}

// Decision is an action that is allowed.
type Decision struct {
	Action  Action
	Attempt int  // of Disprove
	Risk    bool // it may arrive twice: an operator's word is all that speaks against it
}

// Judge decides. Its error is a refusal with one of the codes, or UNAVAILABLE while an event about the message cannot be read.
func Judge(f Facts, force bool, now time.Time) (Decision, error) {
	if !f.Whole {
		return Decision{}, events.Errorf(events.CodeUnavailable, "An event about the message cannot be read; nothing was changed.")
	}
	s := f.Record.Summarize()
	if s.Open() > 0 {
		return refuse(CodeSending, false, "A call to the gateway is under way.")
	}
	switch (message.State{Record: f.Record}).View().Stage {
	case events.StageCanceled, events.StageFailed:
		return final(f, s, force)
	case events.StageDispatched, events.StageSent, events.StageDelivered, events.StageRead:
		return refuse(CodeSent, false, "The message left: its retry would arrive twice.")
	default: // what may still change is decided by the summary: a stage never goes back, an attempt may
	}
	switch {
	case s.Settled():
		return refuse(CodeSent, false, "The message left: its retry would arrive twice.")
	case s.Final != "" || !now.Before(f.DeliverUntil):
		return refuse(CodeEnding, false, "No attempt may follow any more. The message ends by itself: retry it then.")
	case f.InDoubt:
		return refuse(CodeUnconfirmed, false, "The message may have left in a part of the log that was lost: it waits for its look-up.")
	}
	switch s.Last().State {
	case message.AttemptNone, message.AttemptDeferred, message.AttemptDisproved:
		if s.Counted() >= f.Budget {
			return refuse(CodeEnding, false, "No attempt is left. The message ends by itself: retry it then.")
		}
		return Decision{Action: NextAttempt}, nil
	case message.AttemptUnknown:
		if !force {
			return refuse(CodeUnconfirmed, true, "The last call may have had an effect. Forced, it may arrive twice.")
		}
		return Decision{Action: Disprove, Attempt: len(s.Attempts), Risk: true}, nil
	default:
		return refuse(CodeSent, false, "The message left: its retry would arrive twice.")
	}
}

// final decides about a message that ended.
func final(f Facts, s message.Summary, force bool) (Decision, error) {
	reported := false // WhatsApp, or the long window, says that what left did not arrive
	for _, x := range f.Record {
		reported = reported || x.Kind == message.KindFailed || x.Kind == message.KindNotConfirmed
	}
	switch {
	case !reported && (s.Proved || s.Accepted):
		return refuse(CodeSent, false, "The message left after all: its retry would arrive twice.")
	case !reported && s.Refunded() && !f.InDoubt:
		return Decision{Action: Anew}, nil
	case !force:
		return refuse(CodeMayHave, true, "The message may have arrived. Forced, it may arrive twice.")
	}
	return Decision{Action: Anew, Risk: true}, nil
}

func refuse(code events.Code, forceable bool, text string) (Decision, error) {
	return Decision{}, events.Errorf(code, "%s", text).WithDetails(Forceable, forceable)
}

// Codes lists the codes of refusals.
func Codes() []events.Code {
	return []events.Code{CodeSending, CodeUnconfirmed, CodeSent, CodeMayHave, CodeEnding}
}
