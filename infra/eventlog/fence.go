package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
)

// AppendFenced stores an event of the group `dispatch` of an instance if the last sequence of that group is expected,
// 0 for an empty group, and gives its sequence; ev.Prev is set to expected. Rule R2: a missing acknowledgement or a
// refusal is resolved by reading the group from expected+1 at the stream's leader, looking for the event's own id.
//   - It is there: stored, no error.
//   - The group moved and it is not there: *Refused (events.CodeFenced), with the group's last sequence.
//   - The group has not moved: the same event is published again until ctx ends (Options.AppendLimit without a
//     deadline). Then events.CodeUnavailable: it may still land, and the caller must go on asking with the same
//     event, nonce and expectation before it believes anything.
//   - A sync has failed before (Options.Durability): events.CodeUnavailable, and it was not published.
func (l *Log) AppendFenced(ctx context.Context, p events.Partition, instance string, ev events.Event, expected uint64) (uint64, error) {
	return l.appendFenced(ctx, p, instance, ev, expected, l.durable)
}

// AppendUntold is AppendFenced for what nobody outside is told because of it: it does not wait until the event survives a power cut.
// The wait of any later append covers it.
func (l *Log) AppendUntold(ctx context.Context, p events.Partition, instance string, ev events.Event, expected uint64) (uint64, error) {
	return l.appendFenced(ctx, p, instance, ev, expected, func(context.Context) error { return nil })
}

func (l *Log) appendFenced(
	ctx context.Context, p events.Partition, instance string, ev events.Event, expected uint64, settle func(context.Context) error,
) (uint64, error) {
	if err := l.notFailed(); err != nil { // else each try would leave an event behind that nobody may act upon
		return 0, fmt.Errorf("append fenced event: %w", err)
	}
	ev.Prev = expected
	wire, err := l.opts.Registry.Encode(ev)
	if err != nil {
		return 0, fmt.Errorf("append fenced event: %w", err)
	}
	filter := events.DispatchFilter(p, instance)
	if len(wire.Header[events.HeaderMsgID]) > 0 || !strings.HasPrefix(ev.Address, strings.TrimSuffix(filter, ">")) {
		return 0, fmt.Errorf("append fenced event: %w", events.Errorf(events.CodeMalformed, "%s does not belong to the fenced group of the instance", ev.Type))
	}
	seq, err := l.appendExpected(ctx, events.EventsStream(p), wire, filter, expected, settle)
	if err != nil {
		return 0, fmt.Errorf("append fenced event: %w", err)
	}
	return seq, nil
}

// AppendExpecting stores an event of CONTROL if the last sequence of its own subject is expected, 0 when there must be
// none, and gives its sequence. Refused is events.CodeConflict with the detail "last"; a missing acknowledgement is
// resolved as in AppendFenced, and events.CodeUnavailable means the same.
func (l *Log) AppendExpecting(ctx context.Context, ev events.Event, expected uint64) (uint64, error) {
	return l.appendControl(ctx, ev, "", expected)
}

// appendExpected calls settle when the event is stored.
func (l *Log) appendExpected(
	ctx context.Context, stream string, wire events.Wire, filter string, expected uint64, settle func(context.Context) error,
) (uint64, error) {
	more := nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(expected, 10)}}
	if filter != wire.Subject {
		more[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{filter}
	}
	id := wire.Header[events.HeaderID][0]
	key, value := identity(wire)
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	for n := 0; ; n++ {
		ack, err := l.publish(ctx, wire, more)
		if err == nil { // a cluster looks for the id before it compares the sequence
			err = l.believed(ctx, ack, key, value)
		}
		switch {
		case err == nil && ack.Sequence > 0:
			return ack.Sequence, settle(ctx)
		case err != nil && !wrongLast(err) && fatal(err):
			return 0, coded(err)
		}
		seq, last, found, readErr := l.resolve(ctx, stream, filter, expected, id)
		switch {
		case readErr != nil:
			err = errors.Join(err, readErr)
		case found:
			return seq, settle(ctx)
		case last > expected, wrongLast(err) && last < expected:
			return 0, &Refused{Expected: expected, Last: last}
		}
		if !l.pause(ctx, n) {
			return 0, unavailable(ctx, err)
		}
		l.opts.Logger.Debug().Err(err).Int("try", n+2).Msg("append expecting a sequence again")
	}
}

// resolve reads what the group holds after expected, at the leader: a replica may lag and would hide the event.
func (l *Log) resolve(ctx context.Context, stream, filter string, expected uint64, id string) (seq, last uint64, found bool, err error) {
	for from := expected + 1; ; from = seq + 1 {
		m, err := l.leaderGet(ctx, stream, getRequest{Seq: from, NextFor: filter})
		if errors.Is(err, errNoMessage) {
			break
		}
		if err != nil {
			return 0, 0, false, err
		}
		seq, last = m.Position.Sequence, m.Position.Sequence
		if got := m.Header[events.HeaderID]; len(got) > 0 && got[0] == id {
			return seq, last, true, nil
		}
	}
	if last > 0 {
		return 0, last, false, nil
	}
	m, err := l.leaderGet(ctx, stream, getRequest{LastFor: filter})
	if errors.Is(err, errNoMessage) {
		return 0, 0, false, nil
	}
	if err != nil {
		return 0, 0, false, err
	}
	if m.Position.Sequence > expected {
		// It arrived between the two reads, unread: the next try reads it.
		return 0, expected, false, nil
	}
	return 0, m.Position.Sequence, false, nil
}
