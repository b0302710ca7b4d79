package notifier

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// A process that was killed with every turn of an endpoint in its hands once stopped the endpoint's deliveries for 95 seconds.
func TestDeliveriesOfADeadProcessComeAgainSoon(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	set := WorkerSettings{Concurrency: 2, AckWait: 500 * time.Millisecond}
	held := make(chan struct{}, 2)
	dead := r.run(func(ctx context.Context) error {
		return r.log.Consume(ctx, eventlog.DurableConfig{
			Stream: events.HooksStream(events.HookShard("ep1")), Durable: EndpointDurable("ep1"), Filters: []string{events.HookSubject("ep1")},
			Concurrency: set.Concurrency, MaxAckPending: set.Concurrency, AckWait: set.AckWait, Grace: time.Millisecond,
		}, func(context.Context, *eventlog.Delivery) { // says nothing of it any more, as the dead do
			select {
			case held <- struct{}{}:
			default:
			}
		})
	})
	for _, id := range []string{"msg_1", "msg_2", "msg_3"} {
		r.tell(id, 30)
	}
	for range 2 {
		<-held
	}
	dead()
	r.worker(set)
	for range 3 {
		rc.next(t)
	}
}

func TestSlowTryIsMadeOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const wait = 6 * time.Second // a third of it passes before it is spoken for, and a machine stands still for less than the rest
	var tries atomic.Int64
	rc := r.receive("ep1", func(int, http.ResponseWriter) {
		tries.Add(1)
		<-time.After(wait + time.Second) // an endpoint that is slower than AckWait
	})
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{AckWait: wait, Client: ClientSettings{Limit: limit}})
	r.tell("msg_1", 30)
	if _, made := r.attempts("ep1", 1); made[0].HTTPStatus != http.StatusOK {
		t.Errorf("the try is recorded as %+v", made[0])
	}
	if n := tries.Load(); n != 1 {
		t.Errorf("the endpoint was called %d times", n)
	}
}
