package dispatcher

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// Promise P3: a gateway that does not answer the number check of one message delays the end of no other, nor of that one.
func TestP3HangingNumberCheckDelaysNoEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 4000, Call: "whatsappNumbers", Times: 1})
	r.run(quick())
	one := r.accept(order{text: "asked about", window: time.Second})
	two := r.accept(order{text: "behind it", window: time.Second})
	for _, id := range []string{one, two} {
		v := r.awaitStage(id, events.StageFailed)
		s, _ := r.state(id)
		if late := v.FailedAt.Sub(s.Queued.DeliverUntil); v.ErrorCode != events.FailExpired || late > 2500*time.Millisecond {
			t.Errorf("ended %s after the deadline: %+v", late, v)
		}
	}
	if n := r.ledger("asked about") + r.ledger("behind it"); n != 0 {
		t.Errorf("%d left", n)
	}
}
