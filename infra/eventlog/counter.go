package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
)

// incrHeader makes a message of a counter stream an addition (ADR 49 of NATS, message counters).
const incrHeader = "Nats-Incr"

// Count adds n to the counter of a subject, once for each id within the stream's window, and gives the total after it. A missing
// acknowledgement is resolved by adding again under the same id until ctx ends; the total is then one that others may have added
// to since. An error of code events.CodeUnavailable leaves open whether n was added.
//
// It does not wait for a sync (Options.Durability): whoever counts before an append has both covered by the append's.
func (l *Log) Count(ctx context.Context, subject string, n int64, id string) (int64, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	for i := 0; ; i++ {
		total, err := l.count(ctx, subject, n, id)
		if err == nil {
			return total, nil
		}
		if fatal(err) {
			return 0, fmt.Errorf("count: %w", coded(err))
		}
		if !l.pause(ctx, i) {
			return 0, fmt.Errorf("count: %w", unavailable(ctx, err))
		}
	}
}

func (l *Log) count(ctx context.Context, subject string, n int64, id string) (int64, error) {
	bounded, cancel := l.try(ctx)
	defer cancel()
	ack, err := l.js.PublishMsg(bounded, &nats.Msg{Subject: subject, Header: nats.Header{
		incrHeader: {strconv.FormatInt(n, 10)}, events.HeaderMsgID: {id},
	}}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	if err := l.believed(bounded, ack, events.HeaderMsgID, id); err != nil {
		return 0, err
	}
	if ack.Value == "" { // the server does not say it of a repeated addition
		return l.Counted(ctx, subject)
	}
	return strconv.ParseInt(ack.Value, 10, 64)
}

// Counted gives the total of a counter as the leader knows it, 0 when nothing was ever added.
func (l *Log) Counted(ctx context.Context, subject string) (int64, error) {
	total, _, err := l.CountedAt(ctx, subject)
	return total, err
}

// CountedAt gives the total of a counter and the sequence of the last addition, both 0 when nothing was ever added.
func (l *Log) CountedAt(ctx context.Context, subject string) (total int64, sequence uint64, err error) {
	m, err := l.leaderGet(ctx, events.StreamQuota, getRequest{LastFor: subject})
	if errors.Is(err, errNoMessage) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read counter: %w", events.Errorf(events.CodeUnavailable, "the log did not answer").WithCause(err))
	}
	var body struct {
		Value string `json:"val"`
	}
	if err := json.Unmarshal(m.Data, &body); err != nil {
		return 0, 0, fmt.Errorf("read counter: %w", events.Errorf(events.CodeMalformed, "the body of a counter does not decode").WithCause(err))
	}
	total, err = strconv.ParseInt(body.Value, 10, 64)
	return total, m.Position.Sequence, err
}
