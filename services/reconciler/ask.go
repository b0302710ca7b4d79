package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/silence"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/failpoint"
	"pilotstatus.dev/services/receipts"
)

// question is what a gateway is asked about: a message, once for each step that its silence leads to.
type question struct {
	message string
	due     silence.Step
}

// asked is what came of a question. It is not in the log: another process asks again, which changes nothing.
type asked struct {
	asking silence.Asking
	at     time.Time
}

// backoff is a gateway, or an instance of one, that did not answer.
type backoff struct {
	failures int
	until    time.Time
}

const (
	// spokeFor is how long what a gateway showed may take into the views; then it is asked again.
	spokeFor = 10 * time.Minute
	// askedFor is how long an answer is remembered: longer than a message can be a candidate after it.
	askedFor = time.Hour
	// maxAsked bounds what is remembered; beyond it gateways are asked again.
	maxAsked = 100_000
)

// pace bounds the questions to one gateway in a round.
type pace struct {
	every time.Duration
	last  time.Time
	made  map[string]int // questions, by instance
	round int
}

// take waits until the next question may be made; false when it may not in this round.
func (p *pace) take(ctx context.Context, instance string) bool {
	if p.made[instance] >= p.round {
		return false
	}
	p.made[instance]++
	if wait := p.every - time.Since(p.last); wait > 0 && !await.Elapsed(ctx, wait) {
		return false
	}
	p.last = time.Now()
	return true
}

// asking says how far the gateway was asked about a message.
func (r *Reconciler) asking(s silent, in events.Instance) silence.Asking {
	if s.GatewayID == "" || in.GatewayURL == "" {
		return silence.Mute
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.asks[question{s.ID, s.due}]
	if !ok || (a.asking == silence.Spoke && time.Since(a.at) > spokeFor) {
		return silence.NotAsked
	}
	return a.asking
}

// ask asks the gateway for the receipts of a message and hands what it shows to the correlator. False when no answer was had: the
// gateway is asked again later, after a pause that grows.
func (r *Reconciler) ask(ctx context.Context, s silent, in events.Instance, pace *pace) bool {
	if r.resting(in) || !pace.take(ctx, in.ID) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, r.set.AskLimit)
	defer cancel()
	words, err := r.gateway.Statuses(limited, in, s.GatewayID)
	if err != nil {
		if ctx.Err() == nil {
			r.rest(in, err)
		}
		return false
	}
	r.answered(in)
	a := asked{asking: silence.Silent, at: time.Now()}
	found := receipts.ShownBy(words)
	if len(found) > 0 {
		failpoint.Hit("reconciler.before_append")
	}
	for _, shown := range found {
		if err := r.report(ctx, s, shown); err != nil {
			r.failed(ctx, s, err)
			return false
		}
		if s.due.Breaks(shown.State) {
			a.asking = silence.Spoke
		}
	}
	result := "nothing"
	if a.asking == silence.Spoke {
		result = "found"
		r.set.Logger.Info().Str("message", s.ID).Str("instance", in.ID).Msg("the gateway showed a receipt that had not come")
	}
	r.set.Metrics.asks.WithLabelValues(result).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asks[question{s.ID, s.due}] = a
	return true
}

// report stores what a gateway showed as the ingest stores a webhook: the correlator records it.
func (r *Reconciler) report(ctx context.Context, s silent, shown receipts.Shown) error {
	ctx, cancel := context.WithTimeout(ctx, r.set.CallLimit)
	defer cancel()
	_, err := r.log.Append(ctx, shown.Observation(s.Queued.Partition, s.InstanceID, s.GatewayID, s.now.UTC()))
	if err != nil {
		return fmt.Errorf("store what the gateway showed: %w", err)
	}
	return nil
}

// resting reports whether the gateway or the instance did not answer a short while ago.
func (r *Reconciler) resting(in events.Instance) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	return now.Before(r.quiet[in.GatewayURL].until) || now.Before(r.quiet[in.ID].until)
}

// rest leaves alone what did not answer: the instance where the answer is about it, else the gateway.
func (r *Reconciler) rest(in events.Instance, err error) {
	of := in.GatewayURL
	if f := (*evolution.Failure)(nil); errors.As(err, &f) && f.Status > 0 && f.Verdict.Scope != evolution.ScopeGateway {
		of = in.ID
	}
	r.set.Metrics.asks.WithLabelValues("failed").Inc()
	r.mu.Lock()
	b := r.quiet[of]
	wait := min(r.set.BackoffMin<<min(b.failures, 20), r.set.BackoffMax)
	r.quiet[of] = backoff{b.failures + 1, time.Now().Add(wait)}
	r.mu.Unlock()
	r.set.Logger.Warn().Err(err).Str("instance", in.ID).Dur("again_in", wait).Msg("the gateway does not say which receipts it has")
}

func (r *Reconciler) answered(in events.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.quiet, in.GatewayURL)
	delete(r.quiet, in.ID)
}

// forget drops answers that are no longer of use.
func (r *Reconciler) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for q, a := range r.asks {
		if now.Sub(a.at) > askedFor || len(r.asks) > maxAsked {
			delete(r.asks, q)
		}
	}
	for of, b := range r.quiet {
		if now.Sub(b.until) > askedFor {
			delete(r.quiet, of)
		}
	}
}
