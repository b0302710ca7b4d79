package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var errConsumerGone = errors.New("consumer is gone")

// puller is one long pull on one consumer: deliveries arrive by themselves on its own inbox, without a goroutine. The
// wire protocol is that of ADR-37 of nats-architecture-and-design.
type puller struct {
	log      *Log
	stream   string
	consumer string
	batch    int
	expires  time.Duration
	msgs     chan *nats.Msg
	sub      *nats.Subscription
	status   chan nats.Status
	quiet    *time.Timer
}

// pullFrom begins a pull that may bring up to outstanding messages before one of them is acknowledged.
func (l *Log) pullFrom(stream, consumer string, batch, outstanding int, expires time.Duration) (*puller, error) {
	p := &puller{
		log: l, stream: stream, consumer: consumer, batch: batch, expires: max(expires, 2*l.opts.Heartbeat),
		msgs: make(chan *nats.Msg, outstanding+64), // room for status messages beside the deliveries
	}
	sub, err := l.nc.ChanSubscribe(l.nc.NewInbox(), p.msgs)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	p.sub = sub
	p.status = l.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	p.quiet = time.NewTimer(2 * l.opts.Heartbeat)
	if err := p.request(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// stop ends the pull. What was delivered and not read stays unacknowledged.
func (p *puller) stop() {
	p.quiet.Stop()
	p.log.nc.RemoveStatusListener(p.status)
	_ = p.sub.Unsubscribe() // fails on a closed connection only, where there is nothing left to end
}

func (p *puller) request() error {
	body, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{p.batch, p.expires, p.log.opts.Heartbeat})
	if err != nil {
		return fmt.Errorf("encode pull: %w", err)
	}
	subject := p.log.prefix + "CONSUMER.MSG.NEXT." + p.stream + "." + p.consumer
	if err := p.log.nc.PublishRequest(subject, p.sub.Subject, body); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	return nil
}

// next waits for a delivery. errConsumerGone says that the server no longer has the consumer.
func (p *puller) next(ctx context.Context) (*nats.Msg, error) {
	for {
		select {
		case m, ok := <-p.msgs:
			if !ok {
				return nil, nats.ErrBadSubscription
			}
			p.quiet.Reset(2 * p.log.opts.Heartbeat)
			if m.Reply != "" && m.Header.Get("Status") == "" {
				return m, nil
			}
			if err := p.hear(ctx, m); err != nil {
				return nil, err
			}
		case s := <-p.status:
			if s == nats.CLOSED || p.log.nc.IsClosed() {
				return nil, nats.ErrConnectionClosed
			}
			if err := p.probe(ctx); err != nil {
				return nil, err
			}
		case <-p.quiet.C:
			if err := p.probe(ctx); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// hear acts on a status message.
func (p *puller) hear(ctx context.Context, m *nats.Msg) error {
	switch m.Header.Get("Status") {
	case "100": // heartbeat
		return nil
	case "404", "408": // the pull is over
		return p.request()
	case "400":
		return fmt.Errorf("pull: the server refuses it: %s", m.Header.Get("Description"))
	default: // consumer deleted, leader changed, server going down, nobody answers
		return p.probe(ctx)
	}
}

// probe asks whether the consumer is still there and pulls anew when it is. While the server does not answer nothing
// is known, and the next silence asks again.
func (p *puller) probe(ctx context.Context) error {
	p.quiet.Reset(2 * p.log.opts.Heartbeat)
	if !p.log.nc.IsConnected() {
		return nil
	}
	tctx, cancel := p.log.try(ctx)
	defer cancel()
	_, err := p.log.js.Consumer(tctx, p.stream, p.consumer)
	switch {
	case err == nil:
		if err := p.request(); err != nil && p.log.nc.IsClosed() {
			return err
		}
		return nil
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return errConsumerGone
	}
	return ctx.Err()
}
