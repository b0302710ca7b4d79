package dispatcher

import (
	"context"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
)

// followParks takes in what a partition's log says of parks until ctx ends: of every partition, whether this process folds it or not.
func (d *Dispatcher) followParks(ctx context.Context, p *partition) {
	states := map[string]presence.State{} // of those that are parked
	from := uint64(1)
	for {
		err := p.log.Tail(ctx, eventlog.TailConfig{
			Stream: events.EventsStream(p.n), From: from, Filters: []string{events.GroupFilter(p.n, events.GroupInstance)},
		}, func(ctx context.Context, b eventlog.Batch) error {
			from = max(from, b.Last+1)
			d.takeParks(states, b.Events)
			if d.outages.read(p.n, b.CaughtUp, time.Now()) {
				d.wakeAll(ctx)
			}
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		d.log.Warn().Err(err).Stringer("partition", p.n).Msg("parks cannot be followed: tried again")
		await.Elapsed(ctx, followAgain)
	}
}

func (d *Dispatcher) takeParks(states map[string]presence.State, recs []events.Recorded) {
	for _, rec := range recs {
		addr, err := events.ParseEventSubject(rec.Address)
		if err != nil {
			continue
		}
		id, s := addr.Instance, states[addr.Instance].Apply(rec)
		switch {
		case !s.Parked:
			delete(states, id)
			d.free(d.outages.learn(id, false, park{}, d.set.Now()))
		case rec.Type == events.TypeInstanceParked:
			states[id] = s
			d.free(d.outages.learn(id, true, park{wide: s.Park.Scope == events.ParkGateway, reason: s.Park.Reason, at: rec.Time}, d.set.Now()))
		default:
			states[id] = s
		}
		if foundInUse(rec) {
			d.free(d.outages.answered(d.outages.urlOf(id), rec.Time, d.set.Now()))
		}
		if changesVersion(rec.Type, s) {
			d.gateways.doubt(d.outages.urlOf(id))
		}
	}
}

// foundInUse reports that an event is what a probe says that was answered.
func foundInUse(rec events.Recorded) bool {
	b, _ := rec.Body.(*events.InstanceChanged)
	switch {
	case b == nil:
		return false
	case rec.Type == events.TypeInstanceOpened:
		return b.Reason == causeProbe
	}
	return rec.Type == events.TypeInstanceParked && b.Reason == causeAnswers
}

// read notes that something was read of what a partition's log says of parks, or all of it; true when that was the last of them.
func (o *outages) read(p events.Partition, all bool, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, unread := o.unread[p]; !unread {
		return false
	}
	if !all {
		o.unread[p] = now
		return false
	}
	delete(o.unread, p)
	return len(o.unread) == 0
}

// known reports that every partition was read once, or is not waited for any longer: until then nothing starts.
func (o *outages) known() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.unread) == 0
}

// missing lists the partitions that are not read yet, and since when none of them has given anything, at the earliest since reading began.
func (o *outages) missing(began time.Time) (since time.Time, missing []events.Partition) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since = began
	for p, at := range o.unread {
		missing = append(missing, p)
		if at.After(since) {
			since = at
		}
	}
	slices.Sort(missing)
	return since, missing
}

// goOn waits for no partition any longer. What they would have said of parks is not known: the instances of each gateway begin one after the
// other, as when it comes back, so that one that is unusable refuses a few and not all.
func (o *outages) goOn(behind map[string]int, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.unread)
	for url, n := range behind {
		o.again(o.of(url), n, now)
	}
}

// parksWithin is how long nothing starts because of a partition that gives nothing of what its log says of parks. One that is read on is
// waited for, however long it is.
const parksWithin = 10 * time.Second

// awaitParks goes on without the partitions that cannot be read: what is parked there is found out by trying.
func (d *Dispatcher) awaitParks(ctx context.Context) {
	began := time.Now()
	for {
		since, missing := d.outages.missing(began)
		if len(missing) == 0 {
			d.log.Debug().Dur("elapsed", time.Since(began)).Msg("parks of all partitions are known")
			return
		}
		left := d.set.parksWithin - time.Since(since)
		if left <= 0 {
			d.log.Warn().Strs("partitions", names(missing)).Dur("elapsed", time.Since(began)).Msg("work begins without the parks of partitions that cannot be read")
			d.outages.goOn(d.instances(), d.set.Now())
			d.wakeAll(ctx)
			return
		}
		if !await.Elapsed(ctx, min(left, d.set.parksWithin/10)) {
			return
		}
	}
}

func names(partitions []events.Partition) []string {
	out := make([]string, 0, len(partitions))
	for _, p := range partitions {
		out = append(out, p.String())
	}
	return out
}
