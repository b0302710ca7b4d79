package policy

import (
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// Plan is the rules of plans.
func Plan(_ *catalog.Catalog, p events.Plan, _ *events.Plan) (f Faults) {
	f.id(p.ID)
	f.name("name", p.Name, true)
	f.count("month", p.Month, 0, MaxCount)
	f.count("day", p.Day, 0, MaxCount)
	f.count("testDay", p.TestDay, 0, MaxCount)
	f.rate("rate", p.Rate, MaxRatePerMinute)
	f.count("burst", p.Burst, 0, MaxRatePerMinute)
	f.count("weight", p.Weight, 0, MaxWeight)
	return f
}

// Package is the rules of packages.
func Package(c *catalog.Catalog, p events.Package, before *events.Package) (f Faults) {
	old := orZero(before)
	f.id(p.ID)
	f.owner(c, before == nil, old.TenantID, p.TenantID)
	f.count("messages", p.Messages, 1, MaxCount)
	f.when(!month(p.From), "from", RuleMonth)
	f.when(p.Until != "" && !month(p.Until), "until", RuleMonth)
	f.when(p.Until != "" && month(p.Until) && month(p.From) && p.Until < p.From, "until", RuleOrder)
	return f
}

func month(text string) bool {
	at, err := time.Parse("2006-01", text)
	return err == nil && at.Format("2006-01") == text
}

// OptIn is the rules of opt-ins.
func OptIn(c *catalog.Catalog, o events.OptIn, before *events.OptIn) (f Faults) {
	old := orZero(before)
	f.when(o.ID != events.OptInID(o.ProjectID, o.RecipientHash), "id", RuleForm)
	f.owner(c, before == nil, old.TenantID, o.TenantID)
	f.project(c, o.TenantID, before == nil, old.ProjectID, o.ProjectID)
	f.hash("recipientHash", o.RecipientHash)
	f.source(o.Source)
	f.when(o.FirstAt.IsZero(), "firstAt", RuleRequired)
	f.when(o.LastAt.Before(o.FirstAt), "lastAt", RuleOrder)
	return f
}

// OptOut is the rules of opt-outs.
func OptOut(c *catalog.Catalog, o events.OptOut, before *events.OptOut) (f Faults) {
	old := orZero(before)
	f.when(o.ID != events.OptOutID(o.TenantID, o.RecipientHash), "id", RuleForm)
	f.owner(c, before == nil, old.TenantID, o.TenantID)
	f.hash("recipientHash", o.RecipientHash)
	f.source(o.Source)
	f.when(o.At.IsZero(), "at", RuleRequired)
	return f
}

func (f *Faults) source(s string) {
	known := []string{events.SourceInbound, events.SourceOperator, events.SourceImport, events.SourceCustomer}
	f.when(!slices.Contains(known, s), "source", RuleValue)
}

// Platform is the rules of what is set for all tenants.
func Platform(c *catalog.Catalog, p events.Platform, _ *events.Platform) (f Faults) {
	f.count("recipientLimit", p.RecipientLimit, 0, MaxCount)
	f.plan(c, p.PlanID)
	return f
}
