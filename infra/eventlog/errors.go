package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
)

// Refused says that the fenced group moved past the expected sequence without the event: it is not in the log and
// never will be by this append. Its code is events.CodeFenced.
type Refused struct {
	Expected uint64
	Last     uint64 // last sequence of the group when it was read; below Expected when the log is behind the caller
}

func (e *Refused) Error() string {
	return fmt.Sprintf("append refused: the group is at %d, not at %d", e.Last, e.Expected)
}

// Unwrap gives the coded error.
func (e *Refused) Unwrap() error {
	return events.Errorf(events.CodeFenced, "the fenced group has moved")
}

// Gap says that a log which never deletes lacks the event Want. Have is what came instead: a later sequence, or, when
// below Want, the last one of a log that ends too early. Its code is events.CodeLogGap.
type Gap struct {
	Stream string
	Want   uint64
	Have   uint64
}

func (e *Gap) Error() string {
	return fmt.Sprintf("gap in %s: want sequence %d, have %d", e.Stream, e.Want, e.Have)
}

// Unwrap gives the coded error.
func (e *Gap) Unwrap() error {
	return events.Errorf(events.CodeLogGap, "an event is missing from the log")
}

var (
	// ErrLaneGone says that the server no longer has a lane's consumer; the caller makes the lane again when it has work.
	ErrLaneGone = errors.New("lane consumer is gone")
	// ErrLanesFull says that the stream takes no more consumers: the lane is served from the fold.
	ErrLanesFull = errors.New("no room for another lane consumer")
	// ErrLeaseHeld says that somebody else holds a lease.
	ErrLeaseHeld = errors.New("lease is held")
	// ErrLeaseLost says that a lease expired or has another owner.
	ErrLeaseLost = errors.New("lease is lost")
)

// unavailable is the answer when the fate of an append or read stays unknown.
func unavailable(ctx context.Context, last error) error {
	if cause := context.Cause(ctx); cause != nil {
		last = errors.Join(cause, last)
	}
	return events.Errorf(events.CodeUnavailable, "the log did not answer in time").WithCause(last)
}

// errCode gives the JetStream error code in err's chain, 0 when there is none.
func errCode(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.ErrorCode
	}
	return 0
}

// wrongLast reports a refusal by the expected sequence; clusters know two forms of it.
func wrongLast(err error) bool {
	code := errCode(err)
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// fatal reports a publish error that no further try can heal: the request itself is wrong, or the connection closed.
func fatal(err error) bool {
	if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubject) {
		return true
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code == 400 && !wrongLast(err)
}

// coded gives a fatal publish error its code.
func coded(err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		return events.Errorf(events.CodeUnavailable, "the connection to the log is closed").WithCause(err)
	case errors.Is(err, nats.ErrMaxPayload), errCode(err) == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return events.Errorf(events.CodeTooLarge, "the event is larger than the log takes").WithCause(err)
	default:
		return err
	}
}
