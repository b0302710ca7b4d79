package receipts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/failpoint"
)

// source names the correlator in envelopes.
const source = "pilot/correlator"

// maxProofs bounds how often one proof is decided anew before it waits for the next sweep.
const maxProofs = 10

// outcome is what came of trying to record a sighting.
type outcome string

const (
	outcomeBound    outcome = "bound"
	outcomeRepeated outcome = "repeated"
	outcomeHeld     outcome = "held"
)

// handle is the consumer's turn with one observation.
func (c *Correlator) handle(ctx context.Context, d *eventlog.Delivery) {
	ctx, cancel := context.WithTimeout(ctx, c.settings.CallLimit)
	defer cancel()
	result, again := c.judge(ctx, d)
	failpoint.Hit("correlator.before_ack")
	c.settings.Metrics.observed.WithLabelValues(result).Inc()
	var err error
	if again > 0 {
		err = d.Nak(again)
	} else {
		err = d.Ack(ctx)
	}
	if err != nil { // it comes again
		c.settings.Logger.Debug().Err(err).Stringer("position", d.Position).Msg("observation was not acknowledged")
	}
}

// judge records what an observation says. again is the delay after which it must be delivered again, 0 when it is done with.
func (c *Correlator) judge(ctx context.Context, d *eventlog.Delivery) (result string, again time.Duration) {
	_, instance, err := events.ParseReceiptSubject(d.Address)
	o, ok := d.Body.(*events.GatewayObserved)
	if err != nil || !ok {
		c.settings.Logger.Error().Err(d.Malformed).Stringer("position", d.Position).Msg("observation does not decode")
		return "malformed", 0
	}
	state, means := StateOf(o.Status)
	switch {
	case o.Event != EventMessagesUpdate:
		return "connection", 0 // taken in order, by the tail
	case !o.FromMe:
		return "foreign", 0
	case !means:
		return "meaningless", 0
	}
	out, err := c.record(ctx, key{instance, o.KeyID}, sightingOf(*o, state))
	if err != nil {
		c.settings.Logger.Warn().Err(err).Str("instance", instance).Stringer("position", d.Position).Msg("receipt was not recorded")
		return "retried", max(c.settings.Sweep, time.Second)
	}
	return string(out), 0 // what is held is in the memory of every correlator, and a restart reads it again: others need not wait behind it
}

// record appends the receipt of a sighting, and before it the proof where the message is not known to have left.
func (c *Correlator) record(ctx context.Context, k key, s sighting) (outcome, error) {
	c.mu.Lock()
	cl, known := c.book.claims[k]
	switch {
	case !known, cl.message.open == cl.attempt && cl.attempt > 0 && !cl.message.left && time.Since(cl.message.openedAt) < c.settings.ProveAfter:
		// Its answer is still to come: the dispatcher's own word is better than a proof.
		c.book.hold(k, s, c.settings.Grace)
		if known {
			c.due[k] = struct{}{}
		}
		c.mu.Unlock()
		return outcomeHeld, nil
	case cl.message.recorded.has(s.state):
		c.book.release(k, s.state)
		c.mu.Unlock()
		return outcomeRepeated, nil
	}
	left := cl.message.left
	c.mu.Unlock()
	if !left {
		if err := c.prove(ctx, k); err != nil {
			return "", err
		}
	}
	c.mu.Lock()
	m := *cl.message // as it is after the proof: an end may have come to light
	c.mu.Unlock()
	if err := c.appendReceipt(ctx, k, m, s); err != nil {
		return "", err
	}
	if m.ended {
		if err := c.appendAnomaly(ctx, m); err != nil {
			return "", err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.message.recorded |= bit(s.state)
	c.book.release(k, s.state)
	return outcomeBound, nil
}

func (c *Correlator) appendReceipt(ctx context.Context, k key, m tracked, s sighting) error {
	name := strings.ToLower(string(s.state))
	body := &events.Receipt{GatewayStatus: s.word, At: s.at, ReceivedAt: s.received}
	if s.state == events.StatusFailed {
		body.Code = events.FailGatewayRejected
	}
	_, err := c.log.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: m.id + "." + name, Type: events.ReceiptType(s.state), Source: source, Time: time.Now(),
			Subject: m.id, TenantID: m.tenant, QueuedSeq: m.queuedSeq, GatewayID: k.id,
		},
		Address: events.EventSubject(c.partition, k.instance, events.GroupReceipt, name),
		Body:    body,
	})
	if err != nil {
		return fmt.Errorf("record receipt: %w", err)
	}
	return nil
}

func (c *Correlator) appendAnomaly(ctx context.Context, m tracked) error {
	_, err := c.log.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: m.id + "." + events.AnomalyReceiptAfterEnd, Type: events.TypeEvidenceAnomaly, Source: source, Time: time.Now(),
			Subject: m.id, TenantID: m.tenant, QueuedSeq: m.queuedSeq,
		},
		Address: events.EventSubject(c.partition, m.instance, events.GroupEvidence, "anomaly"),
		Body:    &events.EvidenceAnomaly{Kind: events.AnomalyReceiptAfterEnd},
	})
	if err != nil {
		return fmt.Errorf("record anomaly: %w", err)
	}
	return nil
}

// prove appends the proof that the message of k left, on the state of the fenced group that this correlator has read (rule R1).
// What the fence refuses is decided anew: by then the answer may be there. The id of a proof is the same in every process, so a
// proof that another one appended counts as this one.
func (c *Correlator) prove(ctx context.Context, k key) error {
	c.proving.Lock()
	defer c.proving.Unlock()
	var beyond uint64 // the group's last sequence where it is older than all that was read
	for range maxProofs {
		c.mu.Lock()
		cl, known := c.book.claims[k]
		if !known || cl.message.left {
			c.mu.Unlock()
			return nil
		}
		m, expected := *cl.message, max(c.book.group[k.instance], beyond)
		c.mu.Unlock()
		seq, err := c.log.AppendFenced(ctx, c.partition, k.instance, events.Event{
			Envelope: events.Envelope{
				ID: fmt.Sprintf("%s.proved.%d", m.id, cl.attempt), Type: events.TypeDispatchProved, Source: source, Time: time.Now(),
				Subject: m.id, TenantID: m.tenant, Attempt: cl.attempt, QueuedSeq: m.queuedSeq, GatewayID: k.id,
			},
			Address: events.EventSubject(c.partition, k.instance, events.GroupDispatch, "proved"),
			Body:    &events.DispatchProved{By: events.ProofReceipt},
		}, expected)
		refused := (*eventlog.Refused)(nil)
		switch {
		case err == nil:
			return c.reach(ctx, k.instance, seq)
		case !errors.As(err, &refused):
			return fmt.Errorf("prove by receipt: %w", err)
		}
		if beyond, err = c.readTo(ctx, k.instance, refused.Last); err != nil {
			return fmt.Errorf("prove by receipt: %w", err)
		}
	}
	return fmt.Errorf("prove by receipt: %w", events.Errorf(events.CodeFenced, "the fenced group moves too fast"))
}

// readTo waits until the tail has read the group up to last. A group whose last event is older than all that is read is given back.
func (c *Correlator) readTo(ctx context.Context, instance string, last uint64) (beyond uint64, err error) {
	c.mu.Lock()
	old := c.book.first == 0 || last < c.book.first
	c.mu.Unlock()
	if old && last > 0 {
		return last, nil
	}
	return 0, c.reach(ctx, instance, last)
}

// reach waits until the tail has read the fenced group of an instance up to seq.
func (c *Correlator) reach(ctx context.Context, instance string, seq uint64) error {
	for {
		c.mu.Lock()
		at, moved := c.book.group[instance], c.moved
		c.mu.Unlock()
		if at >= seq {
			return nil
		}
		if !await.Closed(ctx, moved) {
			return fmt.Errorf("read the fenced group up to %d: %w", seq, ctx.Err())
		}
	}
}
