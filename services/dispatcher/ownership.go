package dispatcher

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/failpoint"
)

// view is what follows, for this process, from who lives. It is not changed once it is made. It saves work and nothing more: the
// fence is what makes two dispatchers safe that both believe to own an instance.
type view struct {
	self    string
	until   time.Time // this process is known to live
	members int
	folders [][]string // by partition: who is to fold it
	serving [][]string // by partition: who works in it
}

// lives reports that the others know of this process. A machine that stood still has one of the two clocks behind.
func (v *view) lives(now time.Time) bool {
	return now.Before(v.until) && now.Round(0).Before(v.until.Round(0))
}

func (v *view) serves(p events.Partition) bool { return slices.Contains(v.serving[p], v.self) }

// changes is closed with the next change of the view; it is asked for before the view is.
func (d *Dispatcher) changes() <-chan struct{} {
	d.members.mu.Lock()
	defer d.members.mu.Unlock()
	return d.viewed
}

// publish makes the view anew; changed tells that something else may follow from it than before.
func (m *membership) publish(changed bool) {
	d := m.d
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		return
	}
	old, now := d.view.Load(), time.Now()
	v := &view{self: d.set.ID, until: m.until}
	lived := old != nil && d.lived
	d.lived = v.lives(now)
	if changed = changed || old == nil || lived != d.lived; changed {
		all := m.seen
		if !all.Has(v.self) { // it folds as if it were heard, to be ready for when it is
			all = all.With(roster.Member{ID: v.self})
		}
		v.members = len(m.seen.Members())
		for _, p := range d.parts {
			v.folders, v.serving = append(v.folders, all.Folders(p.n)), append(v.serving, all.Serving(p.n))
		}
	} else {
		v.members, v.folders, v.serving = old.members, old.folders, old.serving
	}
	d.view.Store(v)
	if changed {
		close(d.viewed)
		d.viewed = make(chan struct{})
	}
	if lived != d.lived {
		m.tell() // it serves, or does not
	}
}

// follow does what follows from each change of the view.
func (d *Dispatcher) follow(ctx context.Context) error {
	said := false
	for {
		changed := d.changes()
		if v := d.view.Load(); v != nil {
			var serving []int
			for _, p := range d.parts {
				if v.serves(p.n) {
					serving = append(serving, int(p.n))
				}
			}
			leads := d.leads()
			d.log.WithLevel(changeLevel(leads != said)).Ints("partitions", serving).Int("dispatchers", v.members).Bool("leading", leads).Msg("serving")
			if leads && !said {
				failpoint.Hit("dispatcher.joined")
			}
			said = leads
			d.metrics.roster(v)
			for _, p := range d.parts {
				p.owners(ctx)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func changeLevel(notable bool) zerolog.Level {
	if notable {
		return zerolog.InfoLevel
	}
	return zerolog.DebugLevel
}

// leads reports that this process lives and works in some partition.
func (d *Dispatcher) leads() bool {
	v := d.view.Load()
	return v != nil && v.lives(time.Now()) && slices.ContainsFunc(d.parts, func(p *partition) bool { return v.serves(p.n) })
}

// owns reports that this process works for an instance.
func (d *Dispatcher) owns(instance string) bool {
	p := events.PartitionOf(instance, len(d.parts))
	v := d.view.Load()
	return v != nil && v.lives(time.Now()) && roster.Owner(v.serving[p], instance) == v.self
}

// served reports that some dispatcher works in the partition of an instance, as far as this one knows.
func (d *Dispatcher) served(instance string) bool {
	v := d.view.Load()
	return v != nil && len(v.serving[events.PartitionOf(instance, len(d.parts))]) > 0
}

// current lists the partitions that this process has folded to their end and may work in.
func (d *Dispatcher) current() []events.Partition {
	var out []events.Partition
	for _, p := range d.parts {
		if p.ready() == nil && !p.timeless() {
			out = append(out, p.n)
		}
	}
	return out
}

// serves reports that this process is one of those that work in the partition.
func (p *partition) serves() bool {
	v := p.d.view.Load()
	return v != nil && v.lives(time.Now()) && v.serves(p.n)
}

// keeper reports that the snapshots of the partition are this process's to keep: those in the store are all dispatchers'. While
// nobody works there yet it is the first of those that fold it.
func (p *partition) keeper() bool {
	v := p.d.view.Load()
	if v == nil {
		return false
	}
	from := v.serving[p.n]
	if len(from) == 0 {
		from = v.folders[p.n]
	}
	return from[0] == v.self
}

// owners begins with the instances that are this process's now, and ends with those that are not.
func (p *partition) owners(ctx context.Context) {
	for _, a := range p.all() {
		if a.busy() {
			p.loads.touch(a)
		}
		p.wake(ctx, a)
	}
}

// owned reports that this process works for the instance.
func (a *actor) owned() bool { return a.p.d.owns(a.id) }

// wanted reports that the actor has something to do: its instance is this process's; or a start is that was not called, of which
// nobody else can know; or an end has been due for so long that whoever owns the instance does not seem to make it.
func (a *actor) wanted() bool { return a.owned() || a.owes() || a.overdue() }

func (a *actor) owes() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.mine) > 0
}

// overdue reports that an end is late by more than its owner may take. The fence takes one end only, whoever appends it.
func (a *actor) overdue() bool {
	if a.p.halted() || a.p.timeless() {
		return false
	}
	now := a.p.d.set.Now().Add(-a.endMargin)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.q.Len() > 0 && len(a.q.Closes(now, 1)) > 0
}

// sweep looks after the ends that the owners of instances do not make, until ctx ends.
func (p *partition) sweep(ctx context.Context) {
	for await.Elapsed(ctx, p.d.set.EndMargin/2) {
		for _, a := range p.all() {
			if a.busy() && !a.owned() && a.overdue() {
				p.wake(ctx, a)
			}
		}
	}
}
