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
	asking  silence.Asking
	at      time.Time
	failing time.Time // when it first failed; zero once it was answered
	until   time.Time // a question that failed is left alone for
	told    bool      // that it is a candidate although it was said
}

// backoff is a gateway, or an instance of one, that did not answer.
type backoff struct {
	failures int
	since    time.Time // the first of these failures
	until    time.Time
}

const (
	// spokeFor is how long what a gateway showed may take into the views; then it is asked again.
	spokeFor = 10 * time.Minute
	// askedFor is how long an answer is remembered: longer than a message can be a candidate after it.
	askedFor = time.Hour
	// failingGap is for how long nobody may have asked between two failures in a row: an outage of ours is none of the gateway's.
	failingGap = 10 * time.Minute
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

// asking says how far the gateway was asked about a message, and since when questions fail where it does not answer: those about this
// message, or all to its gateway or instance.
func (r *Reconciler) asking(s *silent, in events.Instance) (asking silence.Asking, failing time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, now := question{s.ID, s.due}, time.Now()
	a := r.asks[q]
	switch {
	case a.asking == silence.Said:
		r.saidBefore(q, a, s)
		return silence.Said, failing
	case s.GatewayID == "" || in.GatewayURL == "":
		return silence.Mute, failing
	case a.asking == silence.Silent, a.asking == silence.Spoke && now.Sub(a.at) <= spokeFor:
		return a.asking, failing
	}
	since, resting := a.failing, now.Before(a.until)
	for _, of := range []string{in.GatewayURL, in.ID} {
		if b := r.quiet[of]; now.Before(b.until) {
			resting = true
			if since.IsZero() || b.since.Before(since) {
				since = b.since
			}
		}
	}
	if !resting {
		return silence.NotAsked, failing
	}
	return silence.Unanswered, s.now.Add(since.Sub(now)) // by the log's clock
}

// saidBefore keeps a message from being said to be silent again, as long as it is a candidate: the views end that, unless they do not
// hold what the log holds. The caller holds mu.
func (r *Reconciler) saidBefore(q question, a asked, s *silent) {
	if !a.told {
		r.set.Logger.Error().Str("message", s.ID).Str("instance", s.InstanceID).Str("act", acts[s.due]).
			Msg("a message is a candidate although the log holds what was said of it; it is not said again")
	}
	a.at, a.told = time.Now(), true
	r.asks[q] = a
}

// remember keeps what came of asking about a message.
func (r *Reconciler) remember(s *silent, a asked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := question{s.ID, s.due}
	if a.at = time.Now(); a.asking == silence.NotAsked {
		if a.failing = r.asks[q].failing; a.failing.IsZero() {
			a.failing = a.at
		}
	}
	r.asks[q] = a
}

// ask asks the gateway for the receipts of a message and hands what it shows to the correlator. One that does not answer is asked again
// later, after a pause that grows. False when it was not asked, or what it showed could not be stored.
func (r *Reconciler) ask(ctx context.Context, s *silent, in events.Instance, pace *pace) bool {
	if !pace.take(ctx, in.ID) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, r.set.AskLimit)
	defer cancel()
	words, err := r.gateway.Statuses(limited, in, s.GatewayID)
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		wait := r.rest(in, err)
		// Others have their turn first: it may be this one alone that is not answered.
		r.remember(s, asked{asking: silence.NotAsked, until: time.Now().Add(2 * wait)})
		return true
	}
	r.answered(in)
	a := asked{asking: silence.Silent}
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
	r.remember(s, a)
	return true
}

// report stores what a gateway showed as the ingest stores a webhook: the correlator records it.
func (r *Reconciler) report(ctx context.Context, s *silent, shown receipts.Shown) error {
	ctx, cancel := context.WithTimeout(ctx, r.set.CallLimit)
	defer cancel()
	_, err := r.log.Append(ctx, shown.Observation(s.Queued.Partition, s.InstanceID, s.GatewayID, s.now.UTC()))
	if err != nil {
		return fmt.Errorf("store what the gateway showed: %w", err)
	}
	return nil
}

// rest leaves alone what did not answer, for the time that it gives: the instance where the answer is about it, else the gateway.
func (r *Reconciler) rest(in events.Instance, err error) time.Duration {
	of := in.GatewayURL
	if f := (*evolution.Failure)(nil); errors.As(err, &f) && f.Status > 0 && f.Verdict.Scope != evolution.ScopeGateway {
		of = in.ID
	}
	r.set.Metrics.asks.WithLabelValues("failed").Inc()
	r.mu.Lock()
	b, now := r.quiet[of], time.Now()
	if b.since.IsZero() {
		b.since = now
	}
	wait := min(r.set.BackoffMin<<min(b.failures, 20), r.set.BackoffMax)
	r.quiet[of] = backoff{b.failures + 1, b.since, now.Add(wait)}
	r.mu.Unlock()
	r.set.Logger.Warn().Err(err).Str("instance", in.ID).Dur("again_in", wait).Msg("the gateway does not say which receipts it has")
	return wait
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
		if now.Sub(b.until) > failingGap {
			delete(r.quiet, of)
		}
	}
}
