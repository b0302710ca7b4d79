package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolutionsim"
)

// accept measures how many messages are accepted, and how long a 202 takes; name begins the names of its figures.
func (r *rig) accept(ctx context.Context, name string, s Settings) ([]Figure, error) {
	bounded, cancel := context.WithTimeout(ctx, s.Accept)
	defer cancel()
	var mu sync.Mutex
	var all []time.Duration
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for c := range s.Clients {
		g.Go(func() error {
			var mine []time.Duration
			for n := c; bounded.Err() == nil; n += s.Clients {
				at := time.Now()
				if err := r.post(gctx, n%r.n, n); err != nil {
					return err
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("measure acceptance: %w", err)
	}
	r.accepted += int64(len(all))
	rate := float64(len(all)) / time.Since(began).Seconds()
	return append([]Figure{{name + "ed", rate, "messages/s"}}, quantiles(name, all)...), nil
}

// idle measures from the POST to the gateway's receipt of the request, one message at a time.
func (r *rig) idle(ctx context.Context, s Settings) ([]Figure, error) {
	base := r.sim.Stats().Accepted
	var all []time.Duration
	for n := range s.Idle {
		at := time.Now()
		if err := r.post(ctx, n%r.n, n); err != nil {
			return nil, fmt.Errorf("measure idle latency: %w", err)
		}
		began, err := r.left(ctx, base+int64(n), fmt.Sprintf("Order %d is", n))
		if err != nil {
			return nil, err
		}
		all = append(all, began.Sub(at))
	}
	return quantiles("accept_to_gateway_idle", all), nil
}

// drain waits until what was accepted before has left.
func (r *rig) drain(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return r.reach(bounded, r.accepted)
}

// reach waits until the gateway has taken n messages.
func (r *rig) reach(ctx context.Context, n int64) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for r.sim.Stats().Accepted < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d left: %w", r.sim.Stats().Accepted, n, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// left waits until the gateway has taken more than n messages, and says when it got the newest with the text.
func (r *rig) left(ctx context.Context, n int64, text string) (time.Time, error) {
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if r.sim.Stats().Accepted > n {
			entries := r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries
			return entries[len(entries)-1].StartedAt, nil
		}
		select {
		case <-bounded.Done():
			return time.Time{}, fmt.Errorf("wait for the gateway: %w", bounded.Err())
		case <-tick.C:
		}
	}
}

// warm sends one message from each instance and waits until all have left.
func (r *rig) warm(ctx context.Context, clients int) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(clients)
	for n := range r.n {
		g.Go(func() error { return r.post(gctx, n, n) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	r.accepted += int64(r.n)
	return r.drain(ctx)
}

// delivered measures from the first POST to the last message at the gateway (dispatched), and the whole way to the last receipt bound to
// its message in the log. of ends the names of the figures.
func (r *rig) delivered(ctx context.Context, s Settings, of string) ([]Figure, error) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var receipts atomic.Int64
	tails, tctx := errgroup.WithContext(bounded)
	ended := make(chan struct{})
	stop := sync.OnceFunc(func() { close(ended) })
	for _, p := range r.app.Partitions() {
		from, err := r.app.Events().LastSequence(ctx, events.EventsStream(p))
		if err != nil {
			return nil, err
		}
		tails.Go(func() error {
			if err := r.app.Events().Tail(tctx, eventlog.TailConfig{
				Stream: events.EventsStream(p), From: from + 1, HeadersOnly: true,
				Filters: []string{events.TypeFilter(p, events.GroupReceipt, "delivered")},
			}, func(_ context.Context, b eventlog.Batch) error {
				if receipts.Add(int64(len(b.Events))) >= int64(s.Messages) {
					stop()
				}
				return nil
			}); tctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	left := r.sim.Stats().Accepted + int64(s.Messages)
	began := time.Now()
	var next atomic.Int64
	clients, cctx := errgroup.WithContext(bounded)
	for range s.Clients {
		clients.Go(func() error {
			for n := next.Add(1) - 1; n < int64(s.Messages); n = next.Add(1) - 1 {
				if err := r.post(cctx, int(n)%r.n, int(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := clients.Wait(); err != nil {
		return nil, fmt.Errorf("measure delivery: %w", err)
	}
	if err := r.reach(bounded, left); err != nil {
		return nil, err
	}
	dispatched := time.Since(began)
	select {
	case <-ended:
	case <-bounded.Done():
		return nil, fmt.Errorf("measure delivery: %d of %d receipts: %w", receipts.Load(), s.Messages, bounded.Err())
	}
	elapsed := time.Since(began)
	cancel()
	if err := tails.Wait(); err != nil {
		return nil, err
	}
	return []Figure{
		{"dispatched" + of, float64(s.Messages) / dispatched.Seconds(), "messages/s"},
		{"delivered" + of, float64(s.Messages) / elapsed.Seconds(), "messages/s"},
	}, nil
}
