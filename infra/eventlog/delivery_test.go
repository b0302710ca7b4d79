package eventlog_test

import (
	"context"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// A server that never answers an acknowledgement (one of a consumer that was reset since, for example) holds a handler for some
// seconds, not for as long as the handler itself may take: a stop waits for it.
func TestAcknowledgementWithoutAnAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1")
	proxy := newDeaf(t, w.node)
	w.log = eventlog.New(jets(t, dial(t, proxy.url())), fast)
	ended := make(chan error, 1)
	began := time.Now()
	k := w.consume(t, eventlog.DurableConfig{}, func(_ context.Context, d *eventlog.Delivery) {
		if d.Attempt > 1 {
			return
		}
		proxy.mute()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		ended <- d.Ack(ctx)
	})
	err := <-ended
	wantCode(t, err, events.CodeUnavailable)
	if waited := time.Since(began); waited > 20*time.Second {
		t.Errorf("waited %s", waited)
	}
	proxy.hear()
	k.end(t)
}
