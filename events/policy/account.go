package policy

import (
	"fmt"
	"strings"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// Tenant gives the rules of tenants. loadable tells whether a time zone of the IANA database has this name.
func Tenant(loadable func(zone string) bool) func(*catalog.Catalog, events.Tenant, *events.Tenant) Faults {
	return func(c *catalog.Catalog, t events.Tenant, _ *events.Tenant) (f Faults) {
		f.id(t.ID)
		f.when(t.ID == events.PlatformTenant, "id", RuleTaken)
		f.name("name", t.Name, true)
		f.when(t.TimeZone != "" && !loadable(t.TimeZone), "timeZone", RuleTimeZone)
		f.plan(c, t.PlanID)
		f.when(len(t.ProfileNumbers) > MaxProfileNumbers, "profileNumbers", RuleTooMany)
		seen := map[string]bool{}
		for i, n := range t.ProfileNumbers {
			at := fmt.Sprintf("profileNumbers[%d]", i)
			f.hash(at, n.Hash)
			f.when(len(n.Sealed.Blob) == 0, at, RuleRequired)
			f.when(seen[n.Hash], at, RuleTwice)
			seen[n.Hash] = true
		}
		return f
	}
}

func (f *Faults) plan(c *catalog.Catalog, id string) {
	if _, ok := c.Plan(id); id != "" && !ok {
		f.add("planId", RuleUnknown)
	}
}

// owner checks that the tenant exists and stays the same.
func (f *Faults) owner(c *catalog.Catalog, isNew bool, before, after string) {
	_, ok := c.Tenant(after)
	f.when(!ok, "tenantId", RuleUnknown)
	fixed(f, isNew, "tenantId", before, after)
}

// project checks that the project exists, belongs to the tenant and stays the same.
func (f *Faults) project(c *catalog.Catalog, tenant string, isNew bool, before, after string) {
	p, ok := c.Project(after)
	f.when(!ok || p.TenantID != tenant, "projectId", RuleUnknown)
	fixed(f, isNew, "projectId", before, after)
}

// Project is the rules of projects.
func Project(c *catalog.Catalog, p events.Project, before *events.Project) (f Faults) {
	old := orZero(before)
	f.id(p.ID)
	f.owner(c, before == nil, old.TenantID, p.TenantID)
	f.name("name", p.Name, true)
	f.count("retentionDays", p.RetentionDays, 0, MaxRetentionDays)
	return f
}

// Key is the rules of customers' API keys.
func Key(c *catalog.Catalog, k events.Key, before *events.Key) (f Faults) {
	old, isNew := orZero(before), before == nil
	f.id(k.ID)
	f.owner(c, isNew, old.TenantID, k.TenantID)
	f.project(c, k.TenantID, isNew, old.ProjectID, k.ProjectID)
	environment(&f, "environment", k.Environment)
	fixed(&f, isNew, "environment", old.Environment, k.Environment)
	f.name("name", k.Name, true)
	f.secret(k.PublicID, k.SHA256)
	other, taken := c.KeyByPublicID(k.PublicID)
	f.when(taken && other.ID != k.ID, "publicId", RuleTaken)
	if k.SecretIDHash != "" {
		f.hash("secretIdHash", k.SecretIDHash)
		other, taken = c.KeyBySecretID(k.SecretIDHash)
		f.when(taken && other.ID != k.ID, "secretIdHash", RuleTaken)
	}
	f.words("scopes", k.Scopes, events.KeyScopes(), MaxScopes)
	if in, ok := c.Instance(k.InstanceID); k.InstanceID != "" {
		f.when(!ok || in.Shared || in.TenantID != k.TenantID, "instanceId", RuleUnknown)
	}
	if e, ok := c.Endpoint(k.EndpointID); k.EndpointID != "" {
		foreign := e.ProjectID != "" && e.ProjectID != k.ProjectID
		f.when(!ok || foreign || e.TenantID != k.TenantID || e.Environment != k.Environment, "endpointId", RuleUnknown)
	}
	if k.RetentionDays != nil {
		f.count("retentionDays", *k.RetentionDays, 0, MaxRetentionDays)
	}
	return f
}

// secret checks what is kept of a raw key.
func (f *Faults) secret(publicID, sha256 string) {
	f.when(len(publicID) != 8 || strings.Trim(publicID, "0123456789abcdefghijklmnopqrstuvwxyz") != "", "publicId", RuleForm)
	f.hash("sha256", sha256)
}

// Operator is the rules of operators' keys. The name is a token: it stands in the history as the author.
func Operator(c *catalog.Catalog, o events.Operator, _ *events.Operator) (f Faults) {
	f.id(o.ID)
	f.when(!events.ValidToken(o.Name), "name", RuleToken)
	f.secret(o.PublicID, o.SHA256)
	other, taken := c.OperatorByPublicID(o.PublicID)
	f.when(taken && other.ID != o.ID, "publicId", RuleTaken)
	f.when(len(o.Scopes) == 0, "scopes", RuleRequired)
	f.words("scopes", o.Scopes, events.OperatorScopes(), MaxScopes)
	return f
}

func orZero[T any](v *T) (out T) {
	if v != nil {
		out = *v
	}
	return out
}
