package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/receipts"
)

// Log is the control plane as it is stored.
type Log interface {
	control.Appender
	control.NextAppender
	Tail(ctx context.Context, cfg eventlog.TailConfig, handle func(context.Context, eventlog.Batch) error) error
}

// Hasher makes numbers comparable inside a tenant.
type Hasher interface {
	Hash(ctx context.Context, tenant, purpose string, data []byte) (string, error)
}

// Options of an import.
type Options struct {
	By, Reason string // author of what is recorded, and why
	DryRun     bool   // judge everything, record nothing
}

// Report is what came of an import.
type Report struct {
	DryRun bool `json:"dryRun"`
	Rows   int  `json:"rows"` // of all files
	Counts
	Refused int                `json:"refused"` // rows; when there are any, nothing was recorded and the other counts are what would have been
	Kinds   map[string]*Counts `json:"kinds"`
	Faults  []Fault            `json:"-"`
}

const (
	tries    = 16 // plans that are made anew because others changed the control plane meanwhile
	parallel = 32 // opt-ins that are recorded at once
)

// Import brings the tables of a directory into the control plane. Every row is judged, by the rules of the operators' routes and
// as if the rows before it had been taken, before anything is recorded. Importing the same files again changes nothing; an import that ended in the
// middle is finished by another. hasher may be nil when there are no opt-ins. ctx bounds it.
func Import(ctx context.Context, dir fs.FS, log Log, hasher Hasher, o Options) (Report, error) {
	e, err := readExport(dir)
	if err != nil {
		return Report{}, err
	}
	if len(e.tables[tableOptIns]) > 0 && hasher == nil {
		return Report{}, errors.New("opt-ins need the master key: numbers are kept as keyed hashes")
	}
	im := importer{export: e, log: log, hasher: hasher, options: o, hashes: map[string]string{}}
	var first *Report
	for range tries {
		report, err := im.once(ctx)
		if first == nil && (err == nil || events.CodeOf(err) == events.CodeConflict) {
			first = &report
		}
		switch {
		case err == nil && report.Refused > 0:
			return report, nil
		case err == nil:
			return *first, nil // what a later plan found was recorded by an earlier one
		case events.CodeOf(err) != events.CodeConflict:
			return report, err
		}
	}
	return Report{}, errors.New("others are changing the control plane all the time: import again, what was recorded stays")
}

type importer struct {
	export  *export
	log     Log
	hasher  Hasher
	options Options
	hashes  map[string]string // by tenant and canonical number
}

// once plans by the control plane as it is now, and records the plan. It is events.CodeConflict when that changed meanwhile.
func (im *importer) once(ctx context.Context) (Report, error) {
	c, err := Read(ctx, im.log)
	if err != nil {
		return Report{}, err
	}
	at := c.Sequence
	p := &planner{
		export: im.export, c: c, now: time.Now().UTC().Truncate(time.Millisecond),
		by: events.Defined[struct{}]{By: im.options.By, Reason: im.options.Reason},
	}
	p.plan()
	report := Report{DryRun: im.options.DryRun, Rows: im.export.rows, Faults: p.faults}
	if len(p.faults) == 0 {
		if err := im.consents(ctx, p); err != nil {
			return report, err
		}
	}
	report.count(p)
	if report.Refused > 0 || im.options.DryRun {
		return report, nil
	}
	return report, im.record(ctx, p.changes, at)
}

func (r *Report) count(p *planner) {
	r.Kinds = p.counts
	for _, c := range p.counts {
		r.Created += c.Created
		r.Updated += c.Updated
		r.Unchanged += c.Unchanged
	}
	type line struct {
		file string
		n    int
	}
	refused := map[line]bool{}
	for _, f := range p.faults {
		refused[line{f.File, f.Line}] = true
	}
	r.Refused = len(refused)
}

// Read reads the control plane up to its end. ctx bounds it.
func Read(ctx context.Context, log Log) (*catalog.Catalog, error) {
	c, whole := catalog.New(), errors.New("all read")
	err := log.Tail(ctx, eventlog.TailConfig{Stream: events.StreamControl, From: 1}, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			c.Apply(rec)
		}
		if b.CaughtUp {
			return whole
		}
		return nil
	})
	if !errors.Is(err, whole) {
		return nil, fmt.Errorf("read the control plane: %w", err)
	}
	return c, nil
}

// consents plans the opt-ins. A dry run does not hash numbers of tenants that are not there yet: that would make their key.
func (im *importer) consents(ctx context.Context, p *planner) error {
	for _, o := range p.consent {
		if im.options.DryRun && !p.before[o.tenant] {
			p.count(events.KindOptIn).Created++
			continue
		}
		key := o.tenant + "/" + o.canonical
		hash, known := im.hashes[key]
		if !known {
			var err error
			if hash, err = im.hasher.Hash(ctx, o.tenant, receipts.PurposeRecipient, []byte(o.canonical)); err != nil {
				return fmt.Errorf("hash number: %w", err)
			}
			im.hashes[key] = hash
		}
		if err := p.consented(o, hash); err != nil {
			return err
		}
	}
	return nil
}

// record appends the changes: those whose rules look at other entities one behind the other, on condition that nothing else came
// between; then the opt-ins, on condition of their own versions.
func (im *importer) record(ctx context.Context, changes []change, at uint64) (err error) {
	n := 0
	for ; n < len(changes) && changes[n].kind != events.KindOptIn; n++ {
		ch := changes[n]
		if at, err = control.Next(ctx, im.log, ch.kind, ch.id, events.DefinedType(ch.kind), ch.body, at); err != nil {
			return err
		}
	}
	return im.recordConsents(ctx, changes[n:])
}

func (im *importer) recordConsents(ctx context.Context, changes []change) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan change)
	var workers sync.WaitGroup
	for range min(parallel, len(changes)) {
		workers.Go(func() {
			for ch := range next {
				value := ch.body.(*events.Defined[events.OptIn])
				author := control.Author{By: value.By, Reason: value.Reason}
				if _, err := control.Define(ctx, im.log, ch.kind, ch.id, value.Value, author, ch.version); err != nil {
					cancel(err) // the first one counts
				}
			}
		})
	}
	for _, ch := range changes {
		if ctx.Err() != nil {
			break
		}
		next <- ch
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}
