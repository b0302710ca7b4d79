package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/silence"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/projections/views"
)

// silent is a message of which a receipt should have come by now.
type silent struct {
	views.Awaited
	now   time.Time    // by the log's clock
	due   silence.Step // what its silence leads to
	later bool         // it was not looked at in this round: its turn did not come
}

func (s *silent) message() silence.Message {
	return silence.Message{Stage: s.Stage, LeftAt: s.DispatchedAt, Corrected: s.Corrected}
}

// silent lists the candidates of a partition, by instance, with the pages that they are from, and counts the messages that were already
// said to be overdue.
func (r *Reconciler) silent(ctx context.Context, p events.Partition, now time.Time) (out []*silent, from []page, overdue int, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.set.CallLimit)
	defer cancel()
	undelivered, unacknowledged := page{of: listing{listUndelivered, p}}, page{of: listing{listUnacknowledged, p}}
	undelivered.rows, err = r.views.Undelivered(ctx, p, now.Add(-r.set.Silence.Delivery), r.set.PerInstance, r.reachedIn(undelivered.of))
	if err == nil {
		unacknowledged.rows, err = r.views.Unacknowledged(ctx, p, now.Add(-r.set.Silence.Ack), r.set.PerInstance, r.reachedIn(unacknowledged.of))
	}
	if err == nil {
		overdue, err = r.views.Overdue(ctx, p, overdueCounted)
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("partition %s: %w", p, err)
	}
	named := map[string]bool{}
	for _, a := range slices.Concat(undelivered.rows, unacknowledged.rows) {
		s := &silent{Awaited: a, now: now}
		if s.due = r.set.Silence.Due(s.message(), now); s.due == silence.Wait || named[a.ID] {
			continue
		}
		named[a.ID] = true
		out = append(out, s)
	}
	return out, []page{undelivered, unacknowledged}, overdue, nil
}

// gatewaysAtOnce bounds how many gateways are asked at a time.
const gatewaysAtOnce = 8

// breakSilence takes the candidates of each gateway in turn, gateways beside each other: one that hangs holds up no other.
func (r *Reconciler) breakSilence(ctx context.Context, todo []*silent) {
	ctx, cancel := context.WithTimeout(ctx, r.set.RoundLimit)
	defer cancel()
	r.forget(time.Now())
	instances := map[string]events.Instance{}
	by := map[string][]*silent{}
	var order []string
	r.catalog.Read(func(c *catalog.Catalog) {
		for _, s := range todo {
			in, known := c.Instance(s.InstanceID)
			if known {
				instances[s.InstanceID] = in
			}
			if by[in.GatewayURL] == nil {
				order = append(order, in.GatewayURL)
			}
			by[in.GatewayURL] = append(by[in.GatewayURL], s)
		}
	})
	var group sync.WaitGroup
	slots := make(chan struct{}, gatewaysAtOnce)
	for _, url := range order {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			pace := &pace{every: r.set.AskEvery, made: map[string]int{}, round: r.set.AskRound}
			for _, s := range by[url] {
				s.later = ctx.Err() != nil || !r.one(ctx, s, instances[s.InstanceID], pace)
			}
		})
	}
	group.Wait()
}

// one does what the silence of a message asks for; false when its turn did not come.
func (r *Reconciler) one(ctx context.Context, s *silent, in events.Instance, pace *pace) bool {
	m := s.message()
	m.Asking, m.FailingAt = r.asking(s, in)
	step := r.set.Silence.Next(m, s.now)
	if step == silence.Ask {
		if !r.ask(ctx, s, in, pace) {
			return false
		}
		m.Asking, m.FailingAt = r.asking(s, in)
		step = r.set.Silence.Next(m, s.now)
	}
	if step == silence.Overdue || step == silence.Unconfirmed {
		r.say(ctx, s, step)
	}
	return true
}

// sayTries bounds how often one decision is made anew because a receipt of the instance came between.
const sayTries = 3

// say appends that the silence of a message is too long. It reads the receipts that have come since the view was read, and carries
// the last of them: the log refuses it when another has come, and it is decided anew or dropped (C3 51).
func (r *Reconciler) say(ctx context.Context, s *silent, step silence.Step) {
	ctx, cancel := context.WithTimeout(ctx, r.set.CallLimit)
	defer cancel()
	p, m, read := s.Queued.Partition, s.message(), s.Checkpoint
	for range sayTries {
		recs, last, err := r.log.ReadReceipts(ctx, p, s.InstanceID, read)
		if err != nil {
			r.failed(ctx, s, err)
			return
		}
		for _, rec := range recs {
			if rec.Subject == s.ID {
				m.Stage = silence.After(m.Stage, events.ReceiptStatus(rec.Type))
			}
		}
		read = max(read, last)
		if r.set.Silence.Due(m, s.now) != step {
			break
		}
		_, err = r.log.AppendSeen(ctx, r.event(s, step, last), eventlog.ReceiptFilter(p, s.InstanceID), last)
		if refused := (*eventlog.Refused)(nil); errors.As(err, &refused) {
			continue
		}
		if err != nil {
			r.failed(ctx, s, err)
			return
		}
		r.remember(s, asked{asking: silence.Said})
		r.set.Metrics.acts.WithLabelValues(acts[step]).Inc()
		r.set.Logger.Info().Str("message", s.ID).Str("instance", s.InstanceID).Str("act", acts[step]).Dur("since", s.now.Sub(s.DispatchedAt)).
			Msg("no receipt came in time")
		return
	}
	r.set.Metrics.acts.WithLabelValues(actDropped).Inc()
	r.set.Logger.Debug().Str("message", s.ID).Str("act", acts[step]).Msg("dropped: receipts have come since")
}

func (r *Reconciler) failed(ctx context.Context, s *silent, err error) {
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.set.Logger.Warn().Err(err).Str("message", s.ID).Str("instance", s.InstanceID).Msg("silence of a message was not recorded; it is tried again")
	}
}

// event builds what is said. Its id is the same in every process.
func (r *Reconciler) event(s *silent, step silence.Step, seen uint64) events.Event {
	typ, group, name := events.TypeEvidenceAckOverdue, events.GroupEvidence, "ack_overdue"
	var body any = &events.EvidenceAckOverdue{AfterMS: s.now.Sub(s.DispatchedAt).Milliseconds(), Seen: seen}
	if step == silence.Unconfirmed {
		typ, group, name = events.TypeMessageDeliveryUnconfirmed, events.GroupMessage, "delivery_unconfirmed"
		body = &events.MessageDeliveryUnconfirmed{WindowDays: int(r.set.Silence.Delivery / (24 * time.Hour)), Seen: seen}
	}
	return events.Event{
		Envelope: events.Envelope{
			ID: s.ID + "." + name, Type: typ, Source: source, Time: s.now.UTC(), Subject: s.ID, TenantID: s.TenantID, QueuedSeq: s.Queued.Sequence,
		},
		Address: events.EventSubject(s.Queued.Partition, s.InstanceID, group, name), Body: body,
	}
}
