package dispatcher

import (
	"context"
	"time"
)

// endsEvery is how often ends that are due are looked for while the gateway is waited for.
const endsEvery = time.Second

// meanwhile runs ask, which waits for the gateway and appends nothing, and goes on ending messages whose time is over: a gateway
// that hangs does not make them late (promise P3). For the goroutine of run; turns have their own.
func (a *actor) meanwhile(ctx context.Context, ask func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ask()
	}()
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			a.close(ctx, 0)
		}
	}
}
