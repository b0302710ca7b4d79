package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pilotstatus.dev/events"
)

// errEnough ends a tail that has what it was made for.
var errEnough = errors.New("enough")

// readSingly is how many events of a group are asked for one by one: a reader that lags by a few decides sooner than with a consumer,
// and has less to fear from whoever appends meanwhile.
const readSingly = 16

// ReadGroup gives the events behind a sequence in the fenced group of an instance, up to its last one as the leader knew it, and that
// one's sequence, 0 for an empty group: what the next append expects. Of many events only the bodies that folds need are read. An end
// that is given is on disk; the others may be lost with what is appended behind them. ctx bounds the reading.
func (l *Log) ReadGroup(ctx context.Context, p events.Partition, instance string, after uint64) (recs []events.Recorded, last uint64, err error) {
	return l.readBehind(ctx, events.EventsStream(p), events.DispatchFilter(p, instance), after)
}

// ReadReceipts does the same for the receipts of an instance: last is what AppendSeen expects under ReceiptFilter.
func (l *Log) ReadReceipts(ctx context.Context, p events.Partition, instance string, after uint64) (recs []events.Recorded, last uint64, err error) {
	return l.readBehind(ctx, events.EventsStream(p), ReceiptFilter(p, instance), after)
}

// ReceiptFilter covers the receipts of an instance.
func ReceiptFilter(p events.Partition, instance string) string {
	return events.EventSubject(p, instance, events.GroupReceipt, ">")
}

func (l *Log) readBehind(ctx context.Context, stream, filter string, after uint64) (recs []events.Recorded, last uint64, err error) {
	fail := func(err error) ([]events.Recorded, uint64, error) {
		return nil, 0, fmt.Errorf("read group: %w", unavailable(ctx, err))
	}
	for last = after; len(recs) < readSingly; {
		m, err := l.leaderGet(ctx, stream, getRequest{Seq: last + 1, NextFor: filter})
		if errors.Is(err, errNoMessage) {
			if len(recs) > 0 {
				return recs, last, l.onDisk(ctx, recs)
			}
			if end, err := l.lastOfGroup(ctx, stream, filter); err != nil || end <= after {
				return nil, end, err
			}
			continue // one came between the two questions
		}
		if err != nil {
			return fail(err)
		}
		last = m.Position.Sequence
		recs = append(recs, l.read(m))
	}
	from := last
	if last, err = l.lastOfGroup(ctx, stream, filter); err != nil {
		return nil, 0, err
	}
	if last <= from {
		return recs, from, l.onDisk(ctx, recs)
	}
	cfg := TailConfig{Stream: stream, Filters: []string{filter}, From: from + 1, HeadersOnly: true}
	err = l.Tail(ctx, cfg, func(_ context.Context, b Batch) error {
		for _, rec := range b.Events {
			if rec.Position.Sequence > last {
				return errEnough
			}
			recs = append(recs, rec)
			if rec.Position.Sequence == last {
				return errEnough
			}
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return fail(err)
	}
	return recs, last, l.onDisk(ctx, recs)
}

// lastOfGroup gives the last sequence of a group, 0 when it is empty.
func (l *Log) lastOfGroup(ctx context.Context, stream, filter string) (uint64, error) {
	m, err := l.leaderGet(ctx, stream, getRequest{LastFor: filter})
	switch {
	case errors.Is(err, errNoMessage):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read group: %w", unavailable(ctx, err))
	}
	return m.Position.Sequence, nil
}

// read decodes what was stored; what does not decode is of an unknown type.
func (l *Log) read(m events.Stored) events.Recorded {
	rec, err := l.opts.Registry.Decode(m)
	if err != nil {
		return events.Recorded{Event: events.Event{Address: m.Subject}, Position: m.Position, Stored: m.Time}
	}
	return rec
}

// onDisk makes durable what was read of a group, whoever appended it: somebody is told of it, and who appended it need not have waited.
func (l *Log) onDisk(ctx context.Context, recs []events.Recorded) error {
	if len(recs) == 0 {
		return nil
	}
	return l.durable(ctx)
}

// FindQueued looks for accepted messages by id among those that a partition stored from since to until, by the server's clock, and
// gives those it finds as headers: all of them, or an error. ctx bounds the reading.
func (l *Log) FindQueued(ctx context.Context, p events.Partition, since, until time.Time, ids []string) (map[string]events.Recorded, error) {
	wanted := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		wanted[id] = struct{}{}
	}
	found := make(map[string]events.Recorded, len(ids))
	cfg := TailConfig{Stream: events.EventsStream(p), Filters: []string{events.GroupFilter(p, events.GroupQueued)}, FromTime: since, HeadersOnly: true}
	err := l.Tail(ctx, cfg, func(_ context.Context, b Batch) error {
		for _, rec := range b.Events {
			if rec.Stored.After(until) {
				return errEnough
			}
			if _, ok := wanted[rec.Subject]; !ok || !rec.Known {
				continue
			}
			if _, again := found[rec.Subject]; !again { // the first one is the message
				found[rec.Subject] = rec
			}
			if len(found) == len(wanted) {
				return errEnough
			}
		}
		if b.CaughtUp {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("find accepted messages: %w", unavailable(ctx, err))
	}
	return found, nil
}
