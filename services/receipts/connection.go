package receipts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"pilotstatus.dev/events"
)

// instanceState is what is known of the connection of an instance.
type instanceState struct {
	recorded   string    // wire name of the last opened, closed or parked event, or of the resumed that ended a closed; "" when none was read
	recordedAt time.Time // stored time of it
	recordedBy uint64    // sequence of the observation it stands for; 0 when it is not a correlator's
	said       Connection
	saidAt     time.Time // stored time of the observation
	saidBy     events.Position
	changedAt  time.Time // when a correlator last recorded another word
	flaps      int       // changes in a row that came as soon as they could be recorded
}

// change notes that a correlator recorded another word of the gateway, for what it said at the sequence by. The event itself comes by
// the tail once more.
func (i *instanceState) change(wire string, by uint64, now time.Time, s Settings) {
	if by <= i.recordedBy || wire == i.recorded {
		return
	}
	if now.Sub(i.changedAt) < 2*s.calm(i.flaps) {
		i.flaps++
	} else {
		i.flaps = 0
	}
	i.changedAt = now
}

// calm is how long a word is not changed again: doubling while the connection flaps.
func (s Settings) calm(flaps int) time.Duration {
	return min(s.DebounceMax, s.Debounce<<min(flaps, 16))
}

// due gives what of the gateway's last word is to be recorded now. A word older than the log's own is history; one that comes too soon
// after another waits, and only the last of them counts.
func (i *instanceState) due(now time.Time, s Settings) (wire, name string, ok bool) {
	wire, name = events.TypeInstanceClosed, "closed"
	if i.said == ConnectionOpen {
		wire, name = events.TypeInstanceOpened, "opened"
	}
	ok = i.said != ConnectionSame && i.recorded != wire && !i.older() && !now.Before(i.changedAt.Add(s.calm(i.flaps)))
	return wire, name, ok
}

// learnInstance takes an event of an instance in. The caller holds mu.
func (c *Correlator) learnInstance(rec events.Recorded) {
	switch rec.Type {
	case events.TypeInstanceOpened, events.TypeInstanceClosed, events.TypeInstanceParked, events.TypeInstanceResumed:
		if addr, err := events.ParseEventSubject(rec.Address); err == nil {
			c.instanceState(addr.Instance).learn(rec, c.settings)
		}
	}
}

// learn takes in what the log says of the connection. An operator's resume ends a closed: the same word of the gateway is news again.
func (i *instanceState) learn(rec events.Recorded, s Settings) {
	if rec.Type == events.TypeInstanceResumed && i.recorded != events.TypeInstanceClosed {
		return
	}
	by := saidBy(rec)
	if by > 0 {
		i.change(rec.Type, by, rec.Stored, s)
	}
	i.recorded, i.recordedAt, i.recordedBy = rec.Type, rec.Stored, by
}

// saidBy gives the sequence of the observation that an event of a correlator stands for, 0 for an event of anybody else.
func saidBy(rec events.Recorded) uint64 {
	at, err := events.ParsePosition(rec.ID[strings.LastIndex(rec.ID, ".")+1:])
	if err != nil || rec.Source != source {
		return 0
	}
	return at.Sequence
}

// older reports whether what the gateway last said came before what the log says of the instance.
func (i instanceState) older() bool {
	if i.recordedBy > 0 {
		return i.saidBy.Sequence <= i.recordedBy
	}
	return !i.saidAt.After(i.recordedAt)
}

func (c *Correlator) instanceState(id string) *instanceState {
	i := c.instances[id]
	if i == nil {
		i = &instanceState{}
		c.instances[id] = i
	}
	return i
}

// connection takes what a gateway says of an instance's connection, in order. Of the past only the last word counts: it is
// compared with the log when the past was read.
func (c *Correlator) connection(ctx context.Context, instance string, rec events.Recorded, o events.GatewayObserved) {
	said := ConnectionOf(o)
	if said == ConnectionSame {
		return
	}
	c.mu.Lock()
	i := c.instanceState(instance)
	i.said, i.saidAt, i.saidBy = said, rec.Stored, rec.Position
	live := c.live
	c.mu.Unlock()
	if live {
		c.settle(ctx, instance)
	}
}

// settleAll settles every instance.
func (c *Correlator) settleAll(ctx context.Context) {
	c.mu.Lock()
	ids := make([]string, 0, len(c.instances))
	for id := range c.instances {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	for _, id := range ids {
		c.settle(ctx, id)
	}
}

// settle appends what the gateway last said of an instance where that changes what the log says, once.
func (c *Correlator) settle(ctx context.Context, instance string) {
	c.mu.Lock()
	i := *c.instanceState(instance)
	c.mu.Unlock()
	wire, name, ok := i.due(time.Now(), c.settings)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.settings.CallLimit)
	defer cancel()
	_, err := c.log.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: fmt.Sprintf("%s.%s.%s", instance, name, i.saidBy), Type: wire, Source: source, Time: time.Now(),
		},
		Address: events.EventSubject(c.partition, instance, events.GroupInstance, name),
		Body:    &events.InstanceChanged{By: "correlator", Reason: "the gateway said so"},
	})
	if err != nil { // the next sweep settles it
		c.settings.Logger.Warn().Err(err).Str("instance", instance).Msg("connection of an instance was not recorded")
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.instanceState(instance) // until the tail brings the event itself
	s.change(wire, i.saidBy.Sequence, time.Now(), c.settings)
	s.recorded, s.recordedAt, s.recordedBy = wire, i.saidAt, i.saidBy.Sequence
}
