package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/control"
)

// Fairness is who goes first on one number, and how the tenants of a shared one divide it.
const Fairness = "fairness"

const (
	sharers     = 50 // tenants of the shared instance
	sharedTurns = 20 // of each of them, that are looked at
	sharedID    = "bench-shared"
)

// rounds is how often idle and behind follow each other: what the machine does meanwhile befalls both.
const rounds = 10

// fairness measures an OTP from its POST to the gateway on an idle instance, and on one with a backlog of MARKETING, which leaves as fast
// as it can meanwhile and is paused while the idle one is measured; and Jain's index over tenants that share an instance, each with a
// backlog of its own.
func fairness(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) error {
	s.Instances = 3 // the third is shared
	r, err := newRig(ctx, dir, s, log)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	r.n = 2
	if err := r.start(ctx, app.Roles()...); err != nil {
		return err
	}
	keys, err := r.share(ctx)
	if err != nil {
		return err
	}
	for _, key := range r.keys {
		if _, err := r.otps(ctx, key, 20); err != nil { // each number was asked for, the lane is open
			return err
		}
	}
	if err := r.backlog(ctx, s); err != nil {
		return err
	}
	var idle, behind []time.Duration
	var p50, p99 []float64 // of each round, behind to idle
	for n := range rounds {
		i, b, err := r.round(ctx, s.OTPs*(n+1)/rounds-s.OTPs*n/rounds)
		if err != nil {
			return err
		}
		idle, behind = append(idle, i...), append(behind, b...)
		p50, p99 = append(p50, float64(quantile(b, 0.5))/float64(quantile(i, 0.5))), append(p99, float64(quantile(b, 0.99))/float64(quantile(i, 0.99)))
	}
	left := s.Backlog - len(r.sim.Ledger(evolutionsim.Filter{Text: "Offer"}).Entries)
	if left <= 0 {
		return fmt.Errorf("the backlog of %d was over before the OTPs: use a larger one", s.Backlog)
	}
	if err := say(quantiles("otp_accept_to_gateway_idle", idle)...); err != nil {
		return err
	}
	if err := say(append(quantiles("otp_accept_to_gateway_backlog", behind), Figure{"otp_backlog_to_idle_p50", quantile(p50, 0.5), "times"},
		Figure{"otp_backlog_to_idle_p99", quantile(p99, 0.5), "times"}, Figure{"otp_backlog_left", float64(left), "messages"})...); err != nil {
		return err
	}
	if err := r.pull(ctx, instanceID(0), presence.LeverPause); err != nil {
		return err
	}
	index, err := r.shared(ctx, keys)
	if err != nil {
		return err
	}
	return say(Figure{"fairness_50_tenants", index, "index"})
}

// round sends n OTPs on the idle instance, then as many on the one with the backlog.
func (r *rig) round(ctx context.Context, n int) (idle, behind []time.Duration, err error) {
	if err := r.rest(ctx); err != nil {
		return nil, nil, err
	}
	if idle, err = r.otps(ctx, r.keys[1], n); err != nil {
		return nil, nil, err
	}
	before := r.sim.Stats().Accepted
	if err := r.pull(ctx, instanceID(0), presence.LeverResume); err != nil {
		return nil, nil, err
	}
	if _, err := r.taken(ctx, "Offer", before); err != nil {
		return nil, nil, err
	}
	if behind, err = r.otps(ctx, r.keys[0], n); err != nil {
		return nil, nil, err
	}
	return idle, behind, r.pull(ctx, instanceID(0), presence.LeverPause)
}

// rest waits until the log stands still: what came of the last messages is told.
func (r *rig) rest(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for last := uint64(0); ; {
		now := uint64(0)
		for _, p := range r.app.Partitions() {
			seq, err := r.app.Events().LastSequence(bounded, events.EventsStream(p))
			if err != nil {
				return err
			}
			now += seq
		}
		if now == last {
			return nil
		}
		last = now
		if !await.Elapsed(bounded, 300*time.Millisecond) {
			return fmt.Errorf("wait for the log to stand still: %w", context.Cause(bounded))
		}
	}
}

// share defines templates of OTP and MARKETING for the tenant of the bench, and a shared instance with its tenants; it gives a key of each.
func (r *rig) share(ctx context.Context) (keys []string, err error) {
	c := r.app.Control()
	author := control.Author{By: "operator:bench"}
	var last uint64
	set := func(seq uint64, e error) { last, err = max(last, seq), errors.Join(err, e) }
	template := func(id, tenant, project string, category events.Category, text string) {
		body, e := json.Marshal(map[string]any{"body": map[string]string{"text": text}})
		set(0, e)
		set(control.Define(ctx, c.Log, events.KindTemplate, id, events.Template{
			ID: id, TenantID: tenant, ProjectID: project, Name: id, Category: category,
			Versions: []events.TemplateVersion{{Version: 1, Structure: body, State: events.TemplateApproved, ApprovedForProduction: true}},
		}, author, 0))
	}
	template("bench-otp", tenant, project, events.OTP, "Code {{n}} is yours.")
	template("bench-marketing", tenant, project, events.Marketing, "Offer {{n}} ends today.")
	noTyping := false
	inst := events.Instance{
		ID: sharedID, Typing: &noTyping, TenantID: events.PlatformTenant, Name: instanceID(2), DisplayName: sharedID, GatewayURL: r.sim.URL(), Shared: true,
		Concurrency: 1, MaxConcurrency: 1,
		Pace: events.Pace{RatePerMinute: 600, Costs: map[events.Category]float64{events.Utility: 0}}, // free for what is sent here
	}
	if inst, err = c.Secrets.SealNew(ctx, inst, r.sim.APIKey()); err != nil {
		return nil, err
	}
	set(control.Define(ctx, c.Log, events.KindInstance, sharedID, inst, author, 0))
	for i := range sharers {
		id := fmt.Sprintf("sharer-%02d", i)
		set(control.Define(ctx, c.Log, events.KindTenant, id, events.Tenant{ID: id, Name: id}, author, 0))
		set(control.Define(ctx, c.Log, events.KindProject, id, events.Project{ID: id, TenantID: id, Name: id, ProductionApproved: true, RetentionDays: 30}, author, 0))
		template("template-"+id, id, id, events.Utility, id+" says {{n}}.")
		k, raw, e := control.NewKey(events.Key{ID: "key-" + id, TenantID: id, ProjectID: id, Environment: events.Live, Name: id})
		if e != nil {
			return nil, e
		}
		set(control.Define(ctx, c.Log, events.KindKey, k.ID, k, author, 0))
		keys = append(keys, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("define who shares: %w", err)
	}
	return keys, c.Feed.Await(ctx, last)
}

// say sends one message of a template.
func (r *rig) say(ctx context.Context, key, template string, n int) error {
	return r.send(ctx, key, map[string]any{"templateId": template, "deliverUntil": time.Now().UTC().Add(6 * time.Hour)}, n)
}

// otps sends one OTP after the other with a key, and gives how long each took from its POST to the gateway.
func (r *rig) otps(ctx context.Context, key string, n int) (all []time.Duration, err error) {
	bounded, cancel := context.WithTimeout(ctx, time.Duration(n)*time.Second)
	defer cancel()
	for range n {
		r.otp++
		before := r.sim.Stats().Accepted
		at := time.Now()
		if err := r.say(bounded, key, "bench-otp", r.otp); err != nil {
			return nil, fmt.Errorf("measure an OTP: %w", err)
		}
		began, err := r.taken(bounded, fmt.Sprintf("Code %d is", r.otp), before)
		if err != nil {
			return nil, err
		}
		all = append(all, began.Sub(at))
	}
	return all, nil
}

// taken waits until the gateway takes a text, after so many messages that it took before, and says when the request came.
func (r *rig) taken(ctx context.Context, text string, after int64) (time.Time, error) {
	for {
		if all := r.sim.Ledger(evolutionsim.Filter{Text: text, After: after}).Entries; len(all) > 0 {
			return all[0].StartedAt, nil
		}
		if !await.Elapsed(ctx, 5*time.Millisecond) {
			return time.Time{}, fmt.Errorf("wait for the gateway: %w", context.Cause(ctx))
		}
	}
}

// backlog has MARKETING accepted while the instance is paused.
func (r *rig) backlog(ctx context.Context, s Settings) error {
	if err := r.pull(ctx, instanceID(0), presence.LeverPause); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range s.Clients {
		g.Go(func() error {
			for n := next.Add(1); n <= int64(s.Backlog); n = next.Add(1) {
				if err := r.say(gctx, r.keys[0], "bench-marketing", int(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("accept a backlog: %w", err)
	}
	return nil
}

// shared has the tenants send bursts, one after the other, to the paused shared instance, lets it go, and gives Jain's index of the
// turns that each has had when so many were taken.
func (r *rig) shared(ctx context.Context, keys []string) (float64, error) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := r.pull(ctx, sharedID, presence.LeverPause); err != nil {
		return 0, err
	}
	for i, key := range keys {
		for n := range 2*sharedTurns + i { // nobody runs out while it is looked at
			if err := r.say(bounded, key, fmt.Sprintf("template-sharer-%02d", i), n); err != nil {
				return 0, fmt.Errorf("measure fairness: %w", err)
			}
		}
	}
	if err := r.pull(ctx, sharedID, presence.LeverResume); err != nil {
		return 0, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		all := r.sim.Ledger(evolutionsim.Filter{Instance: instanceID(2)}).Entries
		if len(all) >= sharers*sharedTurns {
			slices.SortFunc(all, func(a, b evolutionsim.Entry) int { return a.StartedAt.Compare(b.StartedAt) })
			turns := map[string]float64{}
			for _, e := range all[:sharers*sharedTurns] {
				turns[e.Text[:len("sharer-00")]]++
			}
			return jain(turns, sharers), nil
		}
		select {
		case <-bounded.Done():
			return 0, fmt.Errorf("measure fairness: %d of %d turns: %w", len(all), sharers*sharedTurns, bounded.Err())
		case <-tick.C:
		}
	}
}

// jain is (Σx)² / n·Σx²: 1 when all n have the same, 1/n when one has all.
func jain(turns map[string]float64, n int) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range turns {
		sum, squares = sum+x, squares+x*x
	}
	return sum * sum / (float64(n) * squares)
}

// pull pulls an operator's lever at an instance.
func (r *rig) pull(ctx context.Context, id string, lever presence.Lever) error {
	return control.Pull(ctx, r.app.Events(), events.PartitionOf(id, r.cfg.Partitions), id, lever, "operator:bench")
}
