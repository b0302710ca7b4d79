package dispatcher

import (
	"context"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// Promise P3: a gateway that does not answer the number check of one message delays the end of no other, nor of that one.
func TestP3HangingNumberCheckDelaysNoEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 9000, Call: "whatsappNumbers", Times: 1})
	r.run(quick())
	one := r.accept(order{text: "asked about", window: time.Second})
	two := r.accept(order{text: "behind it", window: time.Second})
	for _, id := range []string{one, two} {
		v := r.awaitStage(id, events.StageFailed)
		s, _ := r.state(id)
		if late := v.FailedAt.Sub(s.Queued.DeliverUntil); v.ErrorCode != events.FailExpired || late > 5*time.Second {
			t.Errorf("ended %s after the deadline: %+v", late, v)
		}
	}
	if n := r.ledger("asked about") + r.ledger("behind it"); n != 0 {
		t.Errorf("%d left", n)
	}
}

// slowKeys take long to say that they open no gateway key.
type slowKeys struct{ plainKeys }

func (slowKeys) OpenSecret(ctx context.Context, _ string, _ events.Sealed) ([]byte, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Promise P3: nor does a key store that hangs when an instance is probed, or when another stands in for one.
func TestP3HangingKeyStoreDelaysNoEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keys = slowKeys{}
	r.instanceEvent(events.TypeInstanceClosed, "closed")
	set := quick()
	set.AppendTry = 12 * time.Second
	r.run(set)
	id := r.accept(order{text: "waits", window: 1500 * time.Millisecond})
	v := r.awaitStage(id, events.StageFailed)
	s, _ := r.state(id)
	if late := v.FailedAt.Sub(s.Queued.DeliverUntil); v.ErrorCode != events.FailExpired || late > 5*time.Second {
		t.Errorf("ended %s after the deadline: %+v", late, v)
	}
}
