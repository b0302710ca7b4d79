package catalog

import (
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/quota"
)

// Plan gives a plan.
func (c *Catalog) Plan(id string) (events.Plan, bool) { return c.plans.get(id) }

// Plans lists every plan by id.
func (c *Catalog) Plans() []events.Plan { return c.plans.all() }

// PlanOf gives the plan of a tenant: its own, else the platform's default, else the zero Plan, which limits nothing. ok is false
// when a plan is named and not there: what may be sent is not known then.
func (c *Catalog) PlanOf(tenant string) (plan events.Plan, ok bool) {
	t, _ := c.tenants.get(tenant)
	id := t.PlanID
	if id == "" {
		id = c.Platform().PlanID
	}
	if id == "" {
		return events.Plan{}, true
	}
	return c.plans.get(id)
}

// Package gives a package.
func (c *Catalog) Package(id string) (events.Package, bool) { return c.packages.get(id) }

// Packages lists the packages of a tenant by id.
func (c *Catalog) Packages(tenant string) []events.Package { return c.packages.with(ofTenant, tenant) }

// MonthLimit is how many LIVE messages a tenant may send in a month ("2026-11"): those of its plan and of its packages. 0 is no limit;
// a plan that is without one is so whatever its packages.
func (c *Catalog) MonthLimit(tenant, month string) (limit int, ok bool) {
	plan, ok := c.PlanOf(tenant)
	if !ok || plan.Month == 0 {
		return 0, ok
	}
	limit = plan.Month
	for _, p := range c.Packages(tenant) {
		if p.From <= month && (p.Until == "" || month <= p.Until) {
			limit += p.Messages
		}
	}
	return limit, true
}

// Windows lists the windows with a limit in which a message of a tenant counts at a time of its zone; profile says that it goes to a
// profile number. ok is false when the tenant's plan is not there.
func (c *Catalog) Windows(tenant string, env events.Environment, profile bool, at time.Time, zone *time.Location) (windows []quota.Window, ok bool) {
	plan, ok := c.PlanOf(tenant)
	if !ok {
		return nil, false
	}
	month, _ := c.MonthLimit(tenant, quota.MonthOf(at, zone))
	return quota.Of(plan, month, env, profile, at, zone), true
}

// OptIn gives the consent of a contact to a project.
func (c *Catalog) OptIn(project, recipientHash string) (events.OptIn, bool) {
	return c.optIns.get(events.OptInID(project, recipientHash))
}

// OptInByID gives an opt-in by its id.
func (c *Catalog) OptInByID(id string) (events.OptIn, bool) { return c.optIns.get(id) }

// OptOutByID gives an opt-out by its id.
func (c *Catalog) OptOutByID(id string) (events.OptOut, bool) { return c.optOuts.get(id) }

// OptIns lists the opt-ins of a tenant by id.
func (c *Catalog) OptIns(tenant string) []events.OptIn { return c.optIns.with(ofTenant, tenant) }

// OptedOut tells whether a contact wants nothing more of a tenant.
func (c *Catalog) OptedOut(tenant, recipientHash string) bool {
	_, out := c.optOuts.get(events.OptOutID(tenant, recipientHash))
	return out
}

// OptOuts lists the opt-outs of a tenant by id.
func (c *Catalog) OptOuts(tenant string) []events.OptOut { return c.optOuts.with(ofTenant, tenant) }

// Operator gives an operator's key by its id.
func (c *Catalog) Operator(id string) (events.Operator, bool) { return c.operators.get(id) }

// Operators lists every operator's key by id.
func (c *Catalog) Operators() []events.Operator { return c.operators.all() }

// OperatorByPublicID gives the operator's key whose raw form carries the public id.
func (c *Catalog) OperatorByPublicID(public string) (events.Operator, bool) {
	return c.operators.newest(c, operatorPublic, public)
}

// Platform gives what is set for all tenants; the zero value while nothing is.
func (c *Catalog) Platform() events.Platform {
	p, _ := c.platform.get(events.PlatformID)
	return p
}
