package dispatcher

import (
	"context"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolution"
)

// breaker keeps an instance from hammering a gateway that does not answer: after each failure in a row it waits longer, with full
// jitter. It is of this process; a successor begins with one try.
type breaker struct {
	mu    sync.Mutex
	fails int
	until time.Time
}

const (
	breakerLeast = 50 * time.Millisecond
	breakerBase  = 500 * time.Millisecond
	breakerMost  = 30 * time.Second
)

// failed waits after the next failure in a row; draw is in [0,1).
func (b *breaker) failed(now time.Time, draw float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := time.Duration(draw * float64(min(breakerMost, breakerBase<<min(b.fails, 16))))
	b.until = now.Add(max(wait, breakerLeast))
	b.fails++
}

// limited waits as long as the gateway asks for, else as after a failure.
func (b *breaker) limited(asked time.Duration, now time.Time, draw float64) {
	if asked <= 0 {
		b.failed(now, draw)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = now.Add(asked)
}

func (b *breaker) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails, b.until = 0, time.Time{}
}

// opensAt is when the next try may begin; in the past when it may at once.
func (b *breaker) opensAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}

// felt takes in what an attempt says of the way to the gateway.
func (a *actor) felt(ctx context.Context, inst events.Instance, out outcome) {
	switch {
	case out.verdict.Code == evolution.CauseRateLimited: // the limit is of the instance: the others behind it wait as long
		a.breaker.limited(out.verdict.RetryAfter, a.p.d.set.Now(), a.p.d.draw())
		a.p.d.outages.reached(inst.GatewayURL)
	case out.called:
		a.breaker.worked()
		a.p.d.outages.reached(inst.GatewayURL)
	case out.verdict.Code == evolution.CauseNotConnected && out.verdict.Outcome == evolution.Deferred:
		now := a.p.d.set.Now()
		a.breaker.failed(now, a.p.d.draw())
		if a.p.d.outages.unreachable(inst.GatewayURL, now) {
			a.park(ctx, inst, evolution.Verdict{Code: out.verdict.Code, Scope: evolution.ScopeGateway})
		}
	default:
	}
}

// answers asks an instance that left a call unanswered whether it works again, by a number check that must be fast: the gateway sends
// one message at a time for each number, so what follows a send that hangs would hang behind it.
func (a *actor) answers(ctx context.Context, client *evolution.Client, inst events.Instance, digits string) bool {
	a.mu.Lock()
	halfOpen := a.q.HalfOpen()
	a.mu.Unlock()
	if !halfOpen || a.p.d.set.SkipNumbers {
		return true
	}
	limited, cancel := context.WithTimeout(ctx, a.p.d.set.BreakerCheck)
	defer cancel()
	if _, err := client.WhatsAppNumbers(limited, inst.Name, recipient.Variants(digits)); err != nil {
		a.breaker.failed(a.p.d.set.Now(), a.p.d.draw())
		a.log.Info().Err(err).Msg("breaker stays open: the number check is not answered")
		return false
	}
	a.breaker.worked()
	return true
}
