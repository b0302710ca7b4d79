package policy

import (
	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// Uses names the kinds of entities that need an entity and would be left without it, so that it cannot be removed.
func Uses(c *catalog.Catalog, kind, id string) (kinds []string) {
	use := func(so bool, kind string) {
		if so {
			kinds = append(kinds, kind)
		}
	}
	keys := func(tenant string, uses func(events.Key) bool) bool {
		for _, k := range c.Keys(tenant) {
			if uses(k) {
				return true
			}
		}
		return false
	}
	switch kind {
	case events.KindTenant:
		use(len(c.Projects(id)) > 0, events.KindProject)
		use(len(c.Keys(id)) > 0, events.KindKey)
		use(len(c.InstancesOf(id)) > 0, events.KindInstance)
		use(len(c.EndpointsOf(id)) > 0, events.KindEndpoint)
		use(len(c.Packages(id)) > 0, events.KindPackage)
	case events.KindProject:
		p, _ := c.Project(id)
		use(keys(p.TenantID, func(k events.Key) bool { return k.ProjectID == id }), events.KindKey)
		use(len(c.Templates(id)) > 0, events.KindTemplate)
		for _, e := range c.EndpointsOf(p.TenantID) {
			if e.ProjectID == id {
				use(true, events.KindEndpoint)
				break
			}
		}
	case events.KindInstance:
		in, _ := c.Instance(id)
		use(keys(in.TenantID, func(k events.Key) bool { return k.InstanceID == id }), events.KindKey)
	case events.KindEndpoint:
		e, _ := c.Endpoint(id)
		use(keys(e.TenantID, func(k events.Key) bool { return k.EndpointID == id }), events.KindKey)
	case events.KindPlan:
		use(c.Platform().PlanID == id, events.KindPlatform)
		for _, t := range c.Tenants() {
			if t.PlanID == id {
				use(true, events.KindTenant)
				break
			}
		}
	}
	return kinds
}
