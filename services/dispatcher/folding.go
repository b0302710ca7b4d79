package dispatcher

import (
	"context"
	"slices"
	"time"
)

// folds reports that this process is one of those that fold the partition. They are not known in the first moment of a life.
func (p *partition) folds() bool {
	v := p.d.view.Load()
	return v != nil && slices.Contains(v.folders[p.n], v.self)
}

// spare reports that the partition is folded by others, and all of them are so far.
func (p *partition) spare() bool {
	v := p.d.view.Load()
	return v != nil && !slices.Contains(v.folders[p.n], v.self) && slices.Equal(v.folders[p.n], v.serving[p.n])
}

// serve folds the partition while it is this process's to fold, until ctx ends.
func (p *partition) serve(ctx context.Context) {
	for {
		for !p.folds() {
			changed := p.d.changes()
			if p.folds() {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
		own, cut := context.WithCancel(ctx)
		go func() { p.release(own); cut() }()
		p.run(own)
		cut()
		if ctx.Err() != nil {
			return
		}
		p.forget()
	}
}

// release returns when others have folded the partition for FoldGrace, or ctx ended: one that comes and goes costs no fold.
func (p *partition) release(ctx context.Context) {
	for {
		changed := p.d.changes()
		if !p.spare() {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				continue
			}
		}
		spared, cancel := context.WithTimeout(ctx, p.d.set.FoldGrace)
		for p.spare() && spared.Err() == nil {
			changed = p.d.changes()
			select {
			case <-spared.Done():
			case <-changed:
			}
		}
		over := spared.Err() != nil
		cancel()
		if over {
			return
		}
	}
}

// forget lets go of what was folded: the partition is others' now. A log that was found to be another one stays so.
func (p *partition) forget() {
	p.d.log.Info().Stringer("partition", p.n).Msg("let go: two others fold it")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.actors, p.running = map[string]*actor{}, map[string]bool{}
	p.folded, p.current, p.broken, p.behind, p.stalled, p.lost = 0, false, nil, time.Time{}, false, false
	p.keep = keeping{divergent: p.keep.divergent, out: make(chan snapshot, 1)}
	p.loads.clear()
	p.d.forgetFaults(p.n)
}
