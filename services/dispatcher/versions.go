package dispatcher

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/infra/evolution"
)

const (
	versionLimit = 3 * time.Second // of one question
	versionsOnce = 16              // gateways that are asked at once
	versionLeast = 2 * time.Second // between two questions to a gateway; doubling to the most while it gives no answer
	versionMost  = time.Minute
	versionLook  = 5 * time.Second // how often what clients met is looked at
	versionRead  = time.Second     // between two looks at which gateways there are
)

// asker asks one gateway for its version.
type asker struct {
	client *evolution.Client // without a key: the version is told to anybody
	busy   bool
	next   time.Time // no question before, whatever happens; zero before the first
	again  time.Time // the next one when nothing happens
	failed int       // questions in a row without an answer
}

// asker gives the one of a gateway. The caller holds mu.
func (g *gateways) asker(url string) (*asker, error) {
	if a := g.askers[url]; a != nil {
		return a, nil
	}
	c, err := g.build(url, "")
	if err != nil {
		return nil, fmt.Errorf("make gateway client: %w", err)
	}
	a := &asker{client: c}
	g.askers[url] = a
	return a, nil
}

// wait is how long it is until the gateway is to be asked; 0 is now.
func (a *asker) wait() time.Duration {
	at := a.again
	if _, doubted := a.client.VersionAge(); doubted {
		at = a.next
	}
	return max(time.Until(at), 0)
}

// doubt says that a gateway may run another version from now on.
func (g *gateways) doubt(url string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.askers[url]; a != nil {
		a.client.DoubtVersion()
		g.look()
	}
}

// look makes the asking look again; it never blocks.
func (g *gateways) look() {
	select {
	case g.looks <- struct{}{}:
	default:
	}
}

// askVersions asks every gateway of the catalog for its version, each once for all its instances and beside all messages, until ctx ends.
func (d *Dispatcher) askVersions(ctx context.Context) error {
	var asks errgroup.Group
	defer func() { _ = asks.Wait() }() // they give no error, and end with ctx
	asks.SetLimit(versionsOnce)
	g := d.gateways
	var urls map[string]int
	var read time.Time
	for {
		wait := versionLook
		if left := versionRead - time.Since(read); left > 0 && g.moved.Load() {
			wait = left
		} else if left <= 0 && g.moved.Swap(false) {
			urls, read = d.instances(), time.Now()
		}
		timer := time.NewTimer(min(wait, d.askDue(ctx, urls, &asks)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-g.looks:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// askDue puts the questions that are due, and gives how long it is until the next one may be.
func (d *Dispatcher) askDue(ctx context.Context, urls map[string]int, asks *errgroup.Group) time.Duration {
	next := versionLook
	for url := range urls {
		a, wait := d.gateways.dueNow(url)
		if a == nil {
			next = min(next, wait)
			continue
		}
		asks.Go(func() error { d.askVersion(ctx, url, a); return nil }) // it waits for one of the others when there are many
	}
	return next
}

// dueNow gives who is to ask a gateway now; nil: nobody before the wait is over.
func (g *gateways) dueNow(url string) (*asker, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, err := g.asker(url)
	if err != nil || a.busy { // where no client can be made the turns of messages say so
		return nil, versionLook
	}
	if wait := a.wait(); wait > 0 {
		return nil, wait
	}
	a.busy = true
	return a, 0
}

// asked says that a question is over, and when the next one comes: after every, a tenth more or less, or sooner while none is answered.
func (g *gateways) asked(a *asker, answered bool, every time.Duration, draw float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	a.busy = false
	if answered {
		a.failed, a.next, a.again = 0, now.Add(versionLeast), now.Add(time.Duration((0.9+0.2*draw)*float64(every)))
		return
	}
	a.next = now.Add(min(versionMost, versionLeast<<min(a.failed, 16)))
	a.failed, a.again = a.failed+1, a.next
}

func (d *Dispatcher) askVersion(ctx context.Context, url string, a *asker) {
	limited, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	before := a.client.KnownVersion()
	version, err := a.client.Version(limited)
	switch {
	case err != nil:
		d.log.Debug().Err(err).Str("gateway", url).Msg("version not told")
	case version != before:
		d.log.Info().Str("gateway", url).Str("version", version).Str("before", before).Msg("version of a gateway")
	}
	d.gateways.asked(a, err == nil, d.set.VersionEvery, d.draw())
	d.gateways.look()
}

// changesVersion reports whether a gateway may run another version after what happened to an instance of it: it was away, or an operator
// lets the instance go on, who may have upgraded it. That WhatsApp is not connected says nothing of the gateway.
func changesVersion(typ string, s presence.State) bool {
	switch typ {
	case events.TypeInstanceParked:
		return s.Park.Reason != evolution.CauseConnectionClosed
	case events.TypeInstanceResumed, events.TypeInstanceUnparked, events.TypeInstanceOpened:
		return true
	}
	return false
}
