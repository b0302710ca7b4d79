package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/events/recipient"
)

// Counts say what became of the entities of an import.
type Counts struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
}

// change is one event to record.
type change struct {
	kind, id string
	body     any
	version  uint64 // of the entity before it
}

// planner compares the export with the control plane. What it plans is taken into its copy of the catalog, so that later rows are
// judged as if it had been recorded.
type planner struct {
	export *export
	c      *catalog.Catalog
	by     events.Defined[struct{}] // author and reason
	now    time.Time

	faults  []Fault
	changes []change
	counts  map[string]*Counts
	seen    map[string]bool
	before  map[string]bool // tenants that were there before
	consent []*consent
}

// consent is an opt-in of the export: all rows of one contact and project.
type consent struct {
	tenant, project, canonical string
	first, last                time.Time
}

// kindOf says how an entity is found and judged.
type kindOf[T any] struct {
	kind  string
	get   func(*catalog.Catalog, string) (T, bool)
	check func(*catalog.Catalog, T, *T) policy.Faults
}

func (p *planner) count(kind string) *Counts {
	if p.counts[kind] == nil {
		p.counts[kind] = &Counts{}
	}
	return p.counts[kind]
}

// plan judges every row. What it finds wrong is in faults, and then nothing may be recorded.
func (p *planner) plan() {
	p.faults, p.counts, p.seen, p.before = slices.Clone(p.export.faults), map[string]*Counts{}, map[string]bool{}, map[string]bool{}
	for _, t := range p.c.Tenants() {
		p.before[t.ID] = true
	}
	p.tenants()
	p.projects()
	p.keys()
	p.templates()
	p.optIns()
}

// judge plans what rows say of one entity: fill changes the value as it is, or the zero value. rows are all that it is made from,
// r when none are given.
func judge[T any](p *planner, k kindOf[T], r row, id string, fill func(*T, cells), rows ...row) {
	if len(rows) == 0 {
		rows = []row{r}
	}
	c := cells{r, &p.faults}
	if p.seen[k.kind+"/"+id] {
		c.fault("id", RuleTwice)
		return
	}
	p.seen[k.kind+"/"+id] = true
	old, exists := k.get(p.c, id)
	version := p.c.Version(k.kind, id)
	if !exists && version > 0 {
		c.fault("id", RuleRemoved)
		return
	}
	next, before := old, len(p.faults)
	fill(&next, c)
	if len(p.faults) > before {
		return
	}
	if exists && same(old, next) {
		p.count(k.kind).Unchanged++
		return
	}
	was := &old
	if !exists {
		was = nil
	}
	for _, f := range k.check(p.c, next, was) {
		at, field := place(f.Field, rows)
		(cells{at, &p.faults}).fault(field, f.Rule)
	}
	if len(p.faults) > before {
		return
	}
	if exists {
		p.count(k.kind).Updated++
	} else {
		p.count(k.kind).Created++
	}
	p.record(change{k.kind, id, &events.Defined[T]{By: p.by.By, Reason: p.by.Reason, Value: next}, version})
}

// record plans a change and takes it into the copy of the catalog.
func (p *planner) record(ch change) {
	p.changes = append(p.changes, ch)
	p.c.Apply(events.Recorded{
		Event:    events.Event{Address: events.ControlSubject(ch.kind, ch.id), Body: ch.body},
		Position: events.Position{Sequence: p.c.Sequence + 1}, Known: true,
	})
}

func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// optIns reads the opt-ins. Numbers are made comparable here and hashed later; they are kept nowhere.
func (p *planner) optIns() {
	known := map[string]*consent{}
	for _, r := range p.export.tables[tableOptIns] {
		c, before := cells{r, &p.faults}, len(p.faults)
		project, ok := p.c.Project(r.cells["projectId"])
		if !ok {
			c.fault("projectId", policy.RuleUnknown)
		}
		to, err := recipient.Parse(strings.TrimSpace(r.cells["number"]))
		if err != nil {
			c.fault("number", string(recipient.RuleOf(err)))
		}
		var first, last time.Time
		c.time("firstAt", &first)
		c.time("lastAt", &last)
		if last.IsZero() {
			last = first
		}
		if last.Before(first) {
			c.fault("lastAt", policy.RuleOrder)
		}
		if len(p.faults) > before {
			continue
		}
		key := project.ID + "/" + to.Canonical()
		if have := known[key]; have != nil { // with and without the ninth digit
			have.first, have.last = earlier(have.first, first), later(have.last, last)
			continue
		}
		known[key] = &consent{project.TenantID, project.ID, to.Canonical(), first, last}
		p.consent = append(p.consent, known[key])
	}
}

// consented plans an opt-in under its hash.
func (p *planner) consented(o *consent, hash string) error {
	id := events.OptInID(o.project, hash)
	have, exists := p.c.OptInByID(id)
	version := p.c.Version(events.KindOptIn, id)
	if !exists && version > 0 { // withdrawn here: the old system does not bring it back
		p.count(events.KindOptIn).Unchanged++
		return nil
	}
	next := events.OptIn{
		ID: id, TenantID: o.tenant, ProjectID: o.project, RecipientHash: hash, Source: events.SourceImport, FirstAt: o.first, LastAt: o.last,
	}
	var was *events.OptIn
	if exists {
		was, next.Source = &have, have.Source
		next.FirstAt, next.LastAt = earlier(have.FirstAt, o.first), later(have.LastAt, o.last)
	}
	switch {
	case exists && same(have, next):
		p.count(events.KindOptIn).Unchanged++
		return nil
	case exists:
		p.count(events.KindOptIn).Updated++
	default:
		p.count(events.KindOptIn).Created++
	}
	if err := policy.OptIn(p.c, next, was).Err(); err != nil {
		return fmt.Errorf("judge opt-in: %w", err)
	}
	p.record(change{events.KindOptIn, id, &events.Defined[events.OptIn]{By: p.by.By, Reason: p.by.Reason, Value: next}, version})
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
