// Package catalog folds CONTROL into what every process serves from memory: tenants, projects, keys, templates, instances,
// endpoints, plans, packages, opt-ins, opt-outs, operators and what is set for the platform. The fold is pure and cannot fail;
// the last event of a subject is the entity. It is not safe for concurrent use: its owner guards it.
package catalog

import (
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
)

// Catalog is the control plane as of one sequence of CONTROL. Make one with New.
type Catalog struct {
	Sequence   uint64
	Deployment events.Deployment

	tenants   store[events.Tenant]
	projects  store[events.Project]
	keys      store[events.Key]
	templates store[events.Template]
	instances store[events.Instance]
	endpoints store[events.Endpoint]
	plans     store[events.Plan]
	packages  store[events.Package]
	optIns    store[events.OptIn]
	optOuts   store[events.OptOut]
	operators store[events.Operator]
	platform  store[events.Platform]

	tables map[string]table     // by kind
	seqs   map[string]uint64    // "kind/id" → sequence of its last event
	told   map[string]time.Time // of endpoints: id → when its last event was stored
	places map[string]place     // of instances
}

// Places of indexes in their stores.
const (
	ofTenant = 0 // of every store that is indexed by tenant

	keyPublic = 1
	keySecret = 2

	templateProject = 1
	templateName    = 2

	instanceIngress = 1
	instanceShared  = 2
	instanceGateway = 3

	operatorPublic = 0

	tenantSuspended = 0
)

// New gives an empty catalog.
func New() *Catalog {
	c := &Catalog{
		tenants: newStore(events.KindTenant, by(func(t events.Tenant) string {
			if t.Suspended {
				return suspended
			}
			return ""
		})),
		projects: newStore(events.KindProject, by(func(p events.Project) string { return p.TenantID })),
		keys: newStore(events.KindKey, by(func(k events.Key) string { return k.TenantID }),
			by(func(k events.Key) string { return k.PublicID }),
			by(func(k events.Key) string { return k.SecretIDHash })),
		templates: newStore(events.KindTemplate, by(func(t events.Template) string { return t.TenantID }),
			by(func(t events.Template) string { return t.ProjectID }),
			by(func(t events.Template) string { return nameKey(t.ProjectID, t.Name) })),
		instances: newStore(events.KindInstance, by(func(i events.Instance) string { return i.TenantID }),
			by(func(i events.Instance) string { return i.IngressHash }),
			by(func(i events.Instance) string {
				if i.Shared {
					return events.PlatformTenant
				}
				return ""
			}),
			by(func(i events.Instance) string { return gatewayKey(i.GatewayURL, i.Name) })),
		endpoints: newStore(events.KindEndpoint, by(func(e events.Endpoint) string { return e.TenantID })),
		plans:     newStore[events.Plan](events.KindPlan),
		packages:  newStore(events.KindPackage, by(func(p events.Package) string { return p.TenantID })),
		optIns:    newStore(events.KindOptIn, by(func(o events.OptIn) string { return o.TenantID })),
		optOuts:   newStore(events.KindOptOut, by(func(o events.OptOut) string { return o.TenantID })),
		operators: newStore(events.KindOperator, by(func(o events.Operator) string { return o.PublicID })),
		platform:  newStore[events.Platform](events.KindPlatform),
		seqs:      map[string]uint64{},
		told:      map[string]time.Time{},
		places:    map[string]place{},
	}
	c.tables = map[string]table{
		events.KindTenant: c.tenants, events.KindProject: c.projects, events.KindKey: c.keys, events.KindTemplate: c.templates,
		events.KindInstance: c.instances, events.KindEndpoint: c.endpoints, events.KindPlan: c.plans, events.KindPackage: c.packages,
		events.KindOptIn: c.optIns, events.KindOptOut: c.optOuts, events.KindOperator: c.operators, events.KindPlatform: c.platform,
	}
	return c
}

// Apply takes an event of CONTROL in. An older event of an entity than the one already taken in changes nothing; so does an unknown one.
func (c *Catalog) Apply(rec events.Recorded) {
	c.Sequence = max(c.Sequence, rec.Position.Sequence)
	kind, id, err := events.ParseControlSubject(rec.Address)
	if err != nil || !rec.Known || rec.Partial || c.seqs[kind+"/"+id] >= rec.Position.Sequence {
		return
	}
	if kind == events.KindDeployment {
		if b, ok := rec.Body.(*events.Defined[events.Deployment]); ok { // it is fixed when it is created, and never removed
			c.Deployment = b.Value
			c.seqs[kind+"/"+id] = rec.Position.Sequence
		}
		return
	}
	if b, ok := rec.Body.(*events.Defined[events.Instance]); ok && kind == events.KindInstance {
		c.placed(id, b.Value, rec.Stored)
	}
	if t, ok := c.tables[kind]; ok {
		c.seqs[kind+"/"+id] = rec.Position.Sequence
		t.apply(id, rec.Body)
	}
	if kind == events.KindEndpoint {
		c.told[id] = rec.Stored
	}
}

func nameKey(project, name string) string { return project + "/" + strings.ToLower(name) }

func gatewayKey(url, name string) string { return strings.TrimRight(url, "/") + " " + name }

// Version gives the sequence of the last event of an entity, 0 when there is none: the expected sequence of the next.
func (c *Catalog) Version(kind, id string) uint64 { return c.seqs[kind+"/"+id] }

// Tenant gives a tenant.
func (c *Catalog) Tenant(id string) (events.Tenant, bool) { return c.tenants.get(id) }

// Tenants lists every tenant by id.
func (c *Catalog) Tenants() []events.Tenant { return c.tenants.all() }

// suspended is the value of the index of suspended tenants.
const suspended = "suspended"

// SuspendedTenants lists the suspended tenants by id.
func (c *Catalog) SuspendedTenants() []events.Tenant {
	return c.tenants.with(tenantSuspended, suspended)
}

// Project gives a project.
func (c *Catalog) Project(id string) (events.Project, bool) { return c.projects.get(id) }

// Projects lists the projects of a tenant by id.
func (c *Catalog) Projects(tenant string) []events.Project { return c.projects.with(ofTenant, tenant) }

// Key gives an API key by its id.
func (c *Catalog) Key(id string) (events.Key, bool) { return c.keys.get(id) }

// Keys lists the API keys of a tenant by id.
func (c *Catalog) Keys(tenant string) []events.Key { return c.keys.with(ofTenant, tenant) }

// KeyByPublicID gives the API key whose raw form carries the public id.
func (c *Catalog) KeyByPublicID(public string) (events.Key, bool) {
	return c.keys.newest(c, keyPublic, public)
}

// KeyBySecretID gives the API key whose secret id has this hex SHA-256.
func (c *Catalog) KeyBySecretID(hash string) (events.Key, bool) {
	if hash == "" {
		return events.Key{}, false
	}
	return c.keys.newest(c, keySecret, hash)
}

// Template gives a template of a project by id or by friendly name (any case).
func (c *Catalog) Template(project, idOrName string) (events.Template, bool) {
	if t, ok := c.templates.get(idOrName); ok && t.ProjectID == project {
		return t, true
	}
	return c.templates.newest(c, templateName, nameKey(project, idOrName))
}

// TemplateByID gives a template whatever its project.
func (c *Catalog) TemplateByID(id string) (events.Template, bool) { return c.templates.get(id) }

// Templates lists the templates of a project by id.
func (c *Catalog) Templates(project string) []events.Template {
	return c.templates.with(templateProject, project)
}

// LatestApproved gives the newest version of t that may be sent. In production that is one approved for it; in TEST what was
// submitted is approved by itself, until it is rejected.
func LatestApproved(t events.Template, production bool) (events.TemplateVersion, bool) {
	best := events.TemplateVersion{}
	for _, v := range t.Versions {
		may := v.State == events.TemplateApproved && v.ApprovedForProduction
		if !production {
			may = v.State == events.TemplateApproved || v.State == events.TemplateSubmitted
		}
		if may && v.Version > best.Version {
			best = v
		}
	}
	return best, best.Version > 0
}

// Endpoint gives a customer's endpoint.
func (c *Catalog) Endpoint(id string) (events.Endpoint, bool) { return c.endpoints.get(id) }

// EndpointChanged gives when the last event of an endpoint was stored; zero for none.
func (c *Catalog) EndpointChanged(id string) time.Time { return c.told[id] }

// Endpoints lists every endpoint by id.
func (c *Catalog) Endpoints() []events.Endpoint { return c.endpoints.all() }

// EndpointsOf lists the endpoints of a tenant by id.
func (c *Catalog) EndpointsOf(tenant string) []events.Endpoint {
	return c.endpoints.with(ofTenant, tenant)
}

// Subscribers lists, by id, the active endpoints that want a customer event of a message of a project sent with the key: the one
// linked to the key, or else all of the tenant in the key's environment, without those of its other projects.
func (c *Catalog) Subscribers(tenant, project, keyID string, env events.Environment, event string) []events.Endpoint {
	return c.listening(tenant, project, keyID, env, event, func(e events.Endpoint) bool { return e.Active })
}

// Disabled lists, by id, the endpoints that would be subscribers had the notifier not switched them off.
func (c *Catalog) Disabled(tenant, project, keyID string, env events.Environment, event string) []events.Endpoint {
	return c.listening(tenant, project, keyID, env, event, func(e events.Endpoint) bool { return !e.Active && e.Disabled != nil })
}

func (c *Catalog) listening(tenant, project, keyID string, env events.Environment, event string, is func(events.Endpoint) bool) []events.Endpoint {
	key, _ := c.keys.get(keyID)
	linked := key.EndpointID
	var out []events.Endpoint
	for _, e := range c.EndpointsOf(tenant) {
		if !is(e) || e.Environment != env || (linked != "" && linked != e.ID) || (e.ProjectID != "" && e.ProjectID != project) {
			continue
		}
		if slices.Contains(e.Events, "*") || slices.Contains(e.Events, event) {
			out = append(out, e)
		}
	}
	return out
}
