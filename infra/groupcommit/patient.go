package groupcommit

import "context"

// Patient waits as its Syncer does, for the same syncs, without hurry: for one that somebody else causes, and only after Options.Patience
// for one of its own. It is for work in the background, for whose sake a disk need not be kept busy; it promises no less.
type Patient struct{ s *Syncer }

// Patient gives the patient way to wait.
func (s *Syncer) Patient() Patient { return Patient{s} }

// Mark is that of the Syncer.
func (p Patient) Mark() Mark { return p.s.Mark() }

// Wait is that of the Syncer, and may last longer.
func (p Patient) Wait(ctx context.Context, m Mark) error { return p.s.wait(ctx, m, p.s.opts.Patience) }

// Err is that of the Syncer.
func (p Patient) Err() error { return p.s.Err() }
