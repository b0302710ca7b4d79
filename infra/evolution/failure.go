package evolution

import (
	"context"
	"errors"
	"os"
)

// JudgeFailure says what it means that a call got no answer. wrote tells whether any byte of the request was written; stopped whether
// the last check refused a write. A send without a byte written had no effect; after the first byte nothing is known.
func JudgeFailure(call Call, wrote, stopped bool, err error) Verdict {
	switch {
	case !wrote && stopped:
		return outcomeFor(call, deferred(CauseStopped, ScopeMessage))
	case !wrote:
		return outcomeFor(call, deferred(CauseNotConnected, ScopeGateway))
	case isTimeout(err):
		// The gateway sends one message at a time per number: what follows a hanging send would hang behind it.
		v := unknown(CauseNoAnswer)
		v.Scope = ScopeInstance
		return outcomeFor(call, v)
	}
	return outcomeFor(call, unknown(CauseBroken))
}

func outcomeFor(call Call, v Verdict) Verdict {
	if !call.IsSend() {
		v.Outcome = Failed
	}
	return v
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)
}
