package eventlog

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
)

// Ack says where an event is stored.
type Ack struct {
	Sequence  uint64
	Duplicate bool // it was stored before, by an earlier try or an earlier caller with the same deduplication id
}

// Append stores an event outside the fenced group, once per deduplication id within the stream's window. A missing
// acknowledgement is resolved by publishing the same event and id again until ctx ends (Options.AppendLimit without a
// deadline); then the error is events.CodeUnavailable and the event may or may not be stored. That it was stored before
// is believed when it is found where the server says, at the leader; else nothing is known. An event too large is
// events.CodeTooLarge, one that does not encode events.CodeMalformed.
func (l *Log) Append(ctx context.Context, ev events.Event) (Ack, error) {
	wire, err := l.opts.Registry.Encode(ev)
	if err != nil {
		return Ack{}, fmt.Errorf("append event: %w", err)
	}
	return l.appendWire(ctx, wire, nil)
}

// AppendSeen is Append for a decision made on what stood under filter up to seen, the last sequence there, 0 for none. Where more
// has come since, the server refuses it: *Refused without Last; a try before, whose acknowledgement was lost, may be stored. A cluster
// may let an event through beside one that is on its way at that moment: what is appended so must do no harm next to it.
func (l *Log) AppendSeen(ctx context.Context, ev events.Event, filter string, seen uint64) (Ack, error) {
	wire, err := l.opts.Registry.Encode(ev)
	if err != nil {
		return Ack{}, fmt.Errorf("append event: %w", err)
	}
	ack, err := l.appendWire(ctx, wire, nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(seen, 10)}, jetstream.ExpectedLastSubjSeqSubjHeader: {filter},
	})
	if wrongLast(err) {
		return Ack{}, fmt.Errorf("append event: %w", &Refused{Expected: seen})
	}
	return ack, err
}

// Schedule stores an event that the server moves to ev.Address at the given time, never earlier and up to about a
// second later; a time that has passed means at once. A crash while it fires can bring it twice. The schedule is
// kept at scheduleSubject, one per subject: a newer one replaces it. Both subjects must belong to the same stream.
func (l *Log) Schedule(ctx context.Context, ev events.Event, scheduleSubject string, at time.Time) (Ack, error) {
	wire, err := l.opts.Registry.Encode(ev)
	if err != nil {
		return Ack{}, fmt.Errorf("schedule event: %w", err)
	}
	// Written here because the library's option cuts the time to whole seconds, which fires too early.
	wire.Header[jetstream.ScheduleHeader] = []string{"@at " + at.UTC().Format(time.RFC3339Nano)}
	wire.Header[jetstream.ScheduleTargetHeader] = []string{wire.Subject}
	wire.Subject = scheduleSubject
	return l.appendWire(ctx, wire, nil)
}

func (l *Log) appendWire(ctx context.Context, wire events.Wire, more nats.Header) (Ack, error) {
	if len(wire.Header[events.HeaderMsgID]) == 0 {
		return Ack{}, fmt.Errorf("append event: %w",
			events.Errorf(events.CodeMalformed, "%s belongs to the fenced group", wire.Header[events.HeaderType][0]))
	}
	key, id := identity(wire)
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	for n := 0; ; n++ {
		ack, err := l.publish(ctx, wire, more)
		if err == nil {
			err = l.believed(ctx, ack, key, id)
		}
		if err == nil && ack.Sequence > 0 {
			if err := l.durable(ctx); err != nil {
				return Ack{}, fmt.Errorf("append event: %w", err)
			}
			return Ack{Sequence: ack.Sequence, Duplicate: ack.Duplicate}, nil
		}
		if wrongLast(err) {
			return Ack{}, fmt.Errorf("append event: %w", err)
		}
		if err != nil && fatal(err) {
			return Ack{}, fmt.Errorf("append event: %w", coded(err))
		}
		if !l.pause(ctx, n) {
			return Ack{}, fmt.Errorf("append event: %w", unavailable(ctx, err))
		}
		l.opts.Logger.Debug().Err(err).Int("try", n+2).Msg("append again")
	}
}

// publish tries once. The wire is left as it is, so that every try sends the same.
func (l *Log) publish(ctx context.Context, wire events.Wire, more nats.Header) (*jetstream.PubAck, error) {
	ctx, cancel := l.try(ctx)
	defer cancel()
	header := make(nats.Header, len(wire.Header)+len(more))
	maps.Copy(header, wire.Header)
	maps.Copy(header, more)
	return l.js.PublishMsg(ctx, &nats.Msg{Subject: wire.Subject, Header: header, Data: wire.Data}, jetstream.WithRetryAttempts(0))
}

// bounded gives an append a deadline when it has none.
func (l *Log) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, l.opts.AppendLimit)
}
