package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
)

// errNotStored says that a duplicate was acknowledged whose first copy is not where the acknowledgement says.
var errNotStored = errors.New("the duplicate that was acknowledged is not stored")

// believed gives nil when what an acknowledgement calls stored before is there: servers have answered so for publishes that a change
// of leader had lost, until the window of the ids was over. Only the leader is asked. Anything else leaves the append as unknown as a
// missing acknowledgement does. An acknowledgement of a first copy needs no look.
func (l *Log) believed(ctx context.Context, ack *jetstream.PubAck, key, value string) error {
	switch {
	case !ack.Duplicate:
		return nil
	case ack.Sequence == 0: // the first copy may still be on its way
		return errNotStored
	}
	m, err := l.leaderGet(ctx, ack.Stream, getRequest{Seq: ack.Sequence})
	switch {
	case err == nil:
		if got := m.Header[key]; len(got) > 0 && got[0] == value {
			return nil
		}
	case errors.Is(err, errNoMessage):
		ended, err := l.ended(ctx, ack.Stream, ack.Sequence)
		if err != nil {
			return fmt.Errorf("look for the duplicate: %w", err)
		}
		if ended {
			return nil
		}
	default:
		return fmt.Errorf("look for the duplicate: %w", err)
	}
	l.opts.Logger.Warn().Str("stream", ack.Stream).Uint64("sequence", ack.Sequence).Msg("a duplicate was acknowledged and is not stored")
	return errNotStored
}

// ended reports that a sequence may be gone in good order: done in a work queue, or too old for its stream.
func (l *Log) ended(ctx context.Context, stream string, seq uint64) (bool, error) {
	now, err := l.streamNow(ctx, stream, "")
	if err != nil {
		return false, err
	}
	if now.retention != jetstream.LimitsPolicy {
		return seq <= now.state.LastSeq, nil
	}
	return seq < now.state.FirstSeq, nil
}

// identity gives the header by which a wire is told from others, and its value: that of deduplication where it has one.
func identity(w events.Wire) (key, value string) {
	for _, key := range []string{events.HeaderMsgID, events.HeaderID} {
		if v := w.Header[key]; len(v) > 0 {
			return key, v[0]
		}
	}
	return events.HeaderID, ""
}
