package eventlog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"pilotstatus.dev/events"
)

// Delivery is one event that a consumer brings until it is acknowledged.
type Delivery struct {
	events.Recorded
	// Attempt counts the deliveries by this consumer, 1 for the first. It begins anew with the consumer, so it is no
	// memory of what was tried.
	Attempt int
	// Malformed says why the event does not decode; Known is then false and Wire holds what was stored.
	Malformed error

	nc      *nats.Conn
	reply   string
	wire    events.Wire
	settled func() // told when the delivery needs no other one
}

// Wire gives the event as it is stored, for DEAD.
func (d *Delivery) Wire() events.Wire { return d.wire }

// ackLimit bounds the wait for the server's word: to a delivery from before a reset of its consumer it never comes.
const ackLimit = 5 * time.Second

// Ack ends the delivery for good and waits for the server's word, 5 s at most. An error means that it may be delivered
// again.
func (d *Delivery) Ack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ackLimit)
	defer cancel()
	if _, err := d.nc.RequestWithContext(ctx, d.reply, []byte("+ACK")); err != nil {
		return fmt.Errorf("acknowledge %s: %w", d.Position, events.Errorf(events.CodeUnavailable, "the log did not answer").WithCause(err))
	}
	d.settle()
	return nil
}

// Done ends the delivery without waiting for the server's word: for handlers to which another delivery does no harm.
func (d *Delivery) Done() error {
	if err := d.send("acknowledge", []byte("+ACK")); err != nil {
		return err
	}
	d.settle()
	return nil
}

// Nak asks for another delivery after a delay; 0 is at once. The delivery keeps its place at the head of a lane.
func (d *Delivery) Nak(delay time.Duration) error {
	body := []byte("-NAK")
	if delay > 0 {
		spec, err := json.Marshal(struct {
			Delay time.Duration `json:"delay"` // nanoseconds
		}{delay})
		if err != nil {
			return fmt.Errorf("give back %s: %w", d.Position, err)
		}
		body = append(append(body, ' '), spec...)
	}
	return d.send("give back", body)
}

// Term ends the delivery for good without success; the reason shows in the server's advisory and holds no personal data.
func (d *Delivery) Term(reason string) error {
	if err := d.send("terminate", []byte("+TERM "+reason)); err != nil {
		return err
	}
	d.settle()
	return nil
}

// InProgress restarts the wait for the acknowledgement.
func (d *Delivery) InProgress() error { return d.send("extend", []byte("+WPI")) }

func (d *Delivery) send(act string, body []byte) error {
	if err := d.nc.Publish(d.reply, body); err != nil {
		return fmt.Errorf("%s %s: %w", act, d.Position, err)
	}
	return nil
}

func (d *Delivery) settle() {
	if d.settled != nil {
		d.settled()
	}
}

// placed is what the server says about a delivery.
type placed struct {
	seq     uint64
	attempt uint64
	at      time.Time
	reply   string
}

func (l *Log) delivery(stream string, at placed, wire events.Wire) *Delivery {
	d := &Delivery{Attempt: int(at.attempt), nc: l.nc, reply: at.reply, wire: wire}
	d.Recorded, d.Malformed = l.decode(events.Stored{Wire: wire, Position: position(stream, at.seq), Time: at.at})
	return d
}
