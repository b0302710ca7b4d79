package receipts

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// sweep records what is held as soon as its message is known, asks the Finder about what stays unknown, and forgets what is old.
func (c *Correlator) sweep(ctx context.Context) error {
	tick := time.NewTicker(c.settings.Sweep)
	defer tick.Stop()
	pruned := time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
			c.recordDue(ctx)
			continue
		case <-tick.C:
		}
		c.recordDue(ctx)
		c.ask(ctx)
		c.settleAll(ctx)
		if now := time.Now(); now.Sub(pruned) >= c.settings.Prune {
			pruned = now
			c.mu.Lock()
			c.book.prune(now.Add(-c.settings.Kept), now.Add(-c.settings.Unmatched))
			for _, k := range c.book.overdue(now.Add(-c.settings.Grace)) {
				c.due[k] = struct{}{}
			}
			c.mu.Unlock()
			c.lookForGaps(now)
		}
		c.mu.Lock()
		n := len(c.book.held)
		c.mu.Unlock()
		c.settings.Metrics.unmatched.WithLabelValues(c.partition.String()).Set(float64(n))
	}
}

// recordDue tries everything that is due, several messages at once; what still cannot be recorded is due again.
func (c *Correlator) recordDue(ctx context.Context) {
	c.mu.Lock()
	due := c.due
	c.due = map[key]struct{}{}
	c.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(c.settings.Concurrency)
	for k := range due {
		group.Go(func() error {
			c.mu.Lock()
			seen := c.book.sightings(k)
			c.mu.Unlock()
			for _, s := range seen {
				if !c.recordHeld(ctx, k, s) {
					break // the others have to wait for the same thing
				}
			}
			return nil
		})
	}
	_ = group.Wait() // each keeps what failed
}

func (c *Correlator) recordHeld(ctx context.Context, k key, s sighting) bool {
	ctx, cancel := context.WithTimeout(ctx, c.settings.CallLimit)
	defer cancel()
	out, err := c.record(ctx, k, s)
	if err != nil {
		if ctx.Err() == nil {
			c.settings.Logger.Warn().Err(err).Str("instance", k.instance).Msg("held receipt was not recorded")
		}
		c.mu.Lock()
		c.due[k] = struct{}{}
		c.mu.Unlock()
		return false
	}
	if out == outcomeBound {
		c.settings.Metrics.observed.WithLabelValues(string(outcomeBound)).Inc()
	}
	return out != outcomeHeld
}

// ask looks up messages that are older than memory. When the read side is down the receipts wait.
func (c *Correlator) ask(ctx context.Context) {
	if c.settings.Finder == nil {
		return
	}
	for range c.settings.AskLimit {
		c.mu.Lock()
		k, ok := c.book.question(time.Now(), c.settings.Ask)
		c.mu.Unlock()
		if !ok {
			return
		}
		known, found, err := c.find(ctx, k)
		if err != nil {
			if ctx.Err() == nil {
				c.settings.Logger.Warn().Err(err).Msg("messages cannot be looked up; older receipts wait")
			}
			return
		}
		c.mu.Lock()
		c.book.asked(k, time.Now(), c.settings.Ask, c.settings.AskMax)
		if found {
			c.adopt(k, known)
		}
		c.mu.Unlock()
	}
}

func (c *Correlator) find(ctx context.Context, k key) (Known, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.settings.CallLimit)
	defer cancel()
	return c.settings.Finder.ByGatewayID(ctx, k.instance, k.id)
}

// adopt takes in what the read side knows. The caller holds mu.
func (c *Correlator) adopt(k key, known Known) {
	m := c.book.track(known.MessageID, k.instance, time.Now())
	if m.tenant == "" {
		m.tenant, m.queuedSeq = c.book.name(known.TenantID), known.QueuedSeq
	}
	m.left = m.left || known.Left
	m.ended = m.ended || known.Ended
	for _, state := range known.Recorded {
		m.recorded |= bit(state)
	}
	c.book.claim(k, m, max(known.Attempt, 1))
	c.due[k] = struct{}{}
	c.signal()
}
