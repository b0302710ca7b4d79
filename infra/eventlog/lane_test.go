package eventlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
)

func (w *world) lane(t *testing.T, cfg eventlog.LaneConfig) *eventlog.Lane {
	t.Helper()
	cfg.Partition, cfg.Lane, cfg.Dispatcher = part, lane, "d1"
	var l *eventlog.Lane
	var err error
	// A cluster may be slow to place a consumer; whoever opens lanes asks again then.
	await.Until(t.Context(), 15*time.Second, 10*time.Millisecond, func() bool {
		l, err = w.log.Lane(t.Context(), cfg)
		return events.CodeOf(err) != events.CodeUnavailable
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.WithoutCancel(t.Context())) })
	return l
}

// head waits for the head of a lane and checks which one it is.
func head(t *testing.T, l *eventlog.Lane, want uint64) *eventlog.Delivery {
	t.Helper()
	d, err := l.Next(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if d.Position.Sequence != want || !d.Known || d.Partial {
		t.Fatalf("head = %+v, want sequence %d", d.Recorded, want)
	}
	return d
}

func TestR3LaneBringsOneHeadAtATimeInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 3)...)
	w.land(t, started("s1", "n1"), 0) // another subject: not of the lane
	l := w.lane(t, eventlog.LaneConfig{From: 2})
	d := head(t, l, 2)
	if _, err := l.Next(within(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second head came: %v", err)
	}
	if err := d.Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = head(t, l, 3)
	if err := d.Nak(100 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	w.append(t, "m5")
	if d = head(t, l, 3); d.Attempt != 2 {
		t.Errorf("attempt = %d, want 2: a head that was given back keeps its place", d.Attempt)
	}
	if err := d.Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := head(t, l, 5).Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := w.js.Consumer(t.Context(), events.EventsStream(part), events.LaneConsumer(lane, "d1"))
	if err != nil {
		t.Fatal(err)
	}
	if c := info.CachedInfo().Config; c.MaxAckPending != 1 || !c.MemoryStorage || c.Replicas != 1 || c.AckWait != time.Minute || c.InactiveThreshold != time.Minute {
		t.Errorf("config = %+v", c)
	}
}

func TestR3LaneComesAgainAfterAckWaitAndOutlivesItsPull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1")
	l := w.lane(t, eventlog.LaneConfig{AckWait: 300 * time.Millisecond, Inactive: 5 * time.Second})
	head(t, l, 1)
	if d := head(t, l, 1); d.Attempt != 2 {
		t.Errorf("attempt = %d", d.Attempt)
	}
}

func TestR3LaneIsGoneWhenItsConsumerIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 2)...)
	l := w.lane(t, eventlog.LaneConfig{})
	stale := head(t, l, 1)
	if err := w.js.DeleteConsumer(t.Context(), events.EventsStream(part), events.LaneConsumer(lane, "d1")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Next(within(t, 10*time.Second)); !errors.Is(err, eventlog.ErrLaneGone) {
		t.Fatalf("error = %v, want ErrLaneGone", err)
	}
	if err := stale.Ack(within(t, time.Second)); err == nil {
		t.Error("an acknowledgement without a consumer was taken")
	}
	l.Close(t.Context())
	again := w.lane(t, eventlog.LaneConfig{})
	if err := head(t, again, 1).Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	head(t, again, 2)
}

func TestR3LaneIsGoneWhenTheServerRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 2)...)
	l := w.lane(t, eventlog.LaneConfig{})
	head(t, l, 1)
	gone := make(chan error, 1)
	go func() {
		_, err := l.Next(t.Context())
		gone <- err
	}()
	w.node.stop()
	w.node.start()
	if err := <-gone; !errors.Is(err, eventlog.ErrLaneGone) {
		t.Fatalf("error = %v, want ErrLaneGone", err)
	}
	head(t, w.lane(t, eventlog.LaneConfig{From: 1}), 1)
}

func TestR3LaneOpenedAgainStartsWhereItIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 3)...)
	old := w.lane(t, eventlog.LaneConfig{})
	stale := head(t, old, 1)
	l := w.lane(t, eventlog.LaneConfig{From: 2}) // the one before is still there
	head(t, l, 2)
	_ = stale.Ack(within(t, time.Second)) // whatever it answers, it frees nothing here
	if _, err := l.Next(within(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stale acknowledgement freed the next head: %v", err)
	}
}

func TestR3LaneIdleIsDroppedByTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.lane(t, eventlog.LaneConfig{Inactive: time.Second})
	exists := func() bool {
		_, err := w.js.Consumer(t.Context(), events.EventsStream(part), events.LaneConsumer(lane, "d1"))
		return err == nil
	}
	if _, err := l.Next(within(t, 2500*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) || !exists() {
		t.Fatalf("a lane that is read is gone: %v", err)
	}
	l.Close(t.Context())
	eventually(t, "the consumer is gone", func() bool { return !exists() })
}

func TestR3LanesAreBounded(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	nc := dial(t, n.url())
	w := &world{node: n, nc: nc, js: jets(t, nc)}
	w.log = eventlog.New(w.js, fast)
	for _, r := range topology.Table(topology.Deployment{Partitions: 1}) {
		if r.Name == events.EventsStream(part) {
			r.Stream.MaxConsumers = 1
			if _, err := topology.Create(t.Context(), w.js, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.lane(t, eventlog.LaneConfig{})
	other := lane
	other.Slot = 1
	_, err := w.log.Lane(t.Context(), eventlog.LaneConfig{Partition: part, Lane: other, Dispatcher: "d1"})
	if !errors.Is(err, eventlog.ErrLanesFull) {
		t.Fatalf("error = %v, want ErrLanesFull", err)
	}
	w.nc.Close()
	_, err = w.log.Lane(t.Context(), eventlog.LaneConfig{Partition: part, Lane: other, Dispatcher: "d1"})
	wantCode(t, err, events.CodeUnavailable)
}
