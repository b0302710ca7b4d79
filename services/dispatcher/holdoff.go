package dispatcher

import (
	"context"
	"errors"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolution"
)

// holdoff keeps an instance from hammering a gateway that does not answer: after each failure in a row it waits longer, with full
// jitter. It is of this process; a successor begins with one try. The breaker of an instance is another thing, folded from the log.
type holdoff struct {
	mu    sync.Mutex
	fails int
	until time.Time
	limit time.Time // the gateway asked for: no call that succeeds ends it
}

const (
	holdoffLeast = 50 * time.Millisecond
	holdoffBase  = 500 * time.Millisecond
	holdoffMost  = 30 * time.Second
)

// failed waits after the next failure in a row; draw is in [0,1). What fails during the wait began before it, and is the same failure.
func (h *holdoff) failed(now time.Time, draw float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.until) {
		return
	}
	wait := time.Duration(draw * float64(min(holdoffMost, holdoffBase<<min(h.fails, 16))))
	h.until = now.Add(max(wait, holdoffLeast))
	h.fails++
}

// limited waits as long as the gateway asks for, else as after a failure.
func (h *holdoff) limited(asked time.Duration, now time.Time, draw float64) {
	if asked <= 0 {
		h.failed(now, draw)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := now.Add(asked); at.After(h.limit) {
		h.limit = at
	}
}

// worked ends the row of failures.
func (h *holdoff) worked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails, h.until = 0, time.Time{}
}

// end lets the next try begin at once, whatever was asked for: an operator wants it.
func (h *holdoff) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails, h.until, h.limit = 0, time.Time{}, time.Time{}
}

// opensAt is when the next try may begin; in the past when it may at once.
func (h *holdoff) opensAt() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limit.After(h.until) {
		return h.limit
	}
	return h.until
}

// backOff notes a failure of the instance.
func (a *actor) backOff() { a.holdoff.failed(a.p.d.set.Now(), a.p.d.draw()) }

// felt takes in what an attempt says of the way to the gateway.
func (a *actor) felt(ctx context.Context, inst events.Instance, out outcome) {
	switch {
	case out.verdict.Code == evolution.CauseRateLimited:
		a.p.d.outages.reached(inst.GatewayURL)
	case out.called && out.verdict.Park && out.verdict.Outcome == evolution.Deferred: // it answers, and does not send: its probe may say that it is connected
		a.backOff()
		a.p.d.outages.reached(inst.GatewayURL)
	case out.called:
		a.holdoff.worked()
		a.p.d.outages.reached(inst.GatewayURL)
	case out.verdict.Code == evolution.CauseNotConnected && out.verdict.Outcome == evolution.Deferred:
		a.backOff()
		if hurried := out.connect < a.p.d.set.Budget/2 && out.elapsed >= out.connect; hurried { // the log left it no time: it is not the gateway's fault
			return
		}
		if a.p.d.outages.unreachable(inst.GatewayURL, a.p.d.set.Now()) {
			a.park(ctx, inst, evolution.Verdict{Code: out.verdict.Code, Scope: evolution.ScopeGateway})
		}
	case errors.Is(out.result.Stopped, errTooOld): // the way to the write takes too long, for each message that tries it
		a.backOff()
	default:
	}
}

// unplugged takes in that the number check met no WhatsApp socket: the send would be answered so, and is not begun. What calls itself
// connected, and is not when it is asked for something, is tried again later each time.
func (a *actor) unplugged(ctx context.Context, inst events.Instance) {
	a.backOff()
	a.park(ctx, inst, evolution.Verdict{Code: evolution.CauseConnectionClosed, Scope: evolution.ScopeInstance})
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
		a.backOff()
		a.log.Info().Err(err).Msg("breaker stays open: the number check is not answered")
		return false
	}
	a.holdoff.worked()
	return true
}
