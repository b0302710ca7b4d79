package groupcommit

import "context"

// Patient waits as its Syncer does, for the same syncs, but lets those go first who are in a hurry: while there are such, it waits for a
// sync that they cause, and only after Options.Patience, or together with many others, for one of its own. It promises no less.
type Patient struct{ s *Syncer }

// Patient gives the patient way to wait.
func (s *Syncer) Patient() Patient { return Patient{s} }

// Mark is that of the Syncer.
func (p Patient) Mark() Mark { return p.s.Mark() }

// Wait is that of the Syncer, and may last longer.
func (p Patient) Wait(ctx context.Context, m Mark) error { return p.s.wait(ctx, m, p.s.opts.Patience) }

// Err is that of the Syncer.
func (p Patient) Err() error { return p.s.Err() }
