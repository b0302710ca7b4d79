// Package catalog folds CONTROL into what every process serves from memory: tenants, projects, keys, templates, instances
// and endpoints. The fold is pure and cannot fail; the last event of a subject is the entity. It is not safe for concurrent
// use: its owner guards it.
package catalog

import (
	"maps"
	"slices"
	"strings"

	"pilotstatus.dev/events"
)

// Catalog is the control plane as of one sequence of CONTROL. Make one with New.
type Catalog struct {
	Sequence   uint64
	Deployment events.Deployment

	tenants   map[string]events.Tenant
	projects  map[string]events.Project
	keys      map[string]events.Key
	byPublic  names // public id of a key → key ids
	templates map[string]events.Template
	byName    names // project and lower-case friendly name → template ids
	instances map[string]events.Instance
	byIngress names // hex SHA-256 of the path token → instance ids
	endpoints map[string]events.Endpoint
	seqs      map[string]uint64 // "kind/id" → sequence of its last event
}

// New gives an empty catalog.
func New() *Catalog {
	return &Catalog{
		tenants: map[string]events.Tenant{}, projects: map[string]events.Project{}, keys: map[string]events.Key{},
		byPublic: names{}, templates: map[string]events.Template{}, byName: names{},
		instances: map[string]events.Instance{}, byIngress: names{}, endpoints: map[string]events.Endpoint{},
		seqs: map[string]uint64{},
	}
}

// Apply takes an event of CONTROL in. An older event of an entity than the one already taken in changes nothing; so does an unknown one.
func (c *Catalog) Apply(rec events.Recorded) {
	c.Sequence = max(c.Sequence, rec.Position.Sequence)
	kind, id, err := events.ParseControlSubject(rec.Address)
	if err != nil || !rec.Known || rec.Partial || c.seqs[kind+"/"+id] >= rec.Position.Sequence {
		return
	}
	if _, removed := rec.Body.(*events.Removed); removed && kind == events.KindDeployment {
		return // it is fixed when it is created
	}
	c.seqs[kind+"/"+id] = rec.Position.Sequence
	c.remove(kind, id)
	switch b := rec.Body.(type) {
	case *events.Defined[events.Deployment]:
		c.Deployment = b.Value
	case *events.Defined[events.Tenant]:
		c.tenants[id] = b.Value
	case *events.Defined[events.Project]:
		c.projects[id] = b.Value
	case *events.Defined[events.Key]:
		c.keys[id] = b.Value
		c.byPublic.add(b.Value.PublicID, id)
	case *events.Defined[events.Template]:
		c.templates[id] = b.Value
		c.byName.add(nameKey(b.Value.ProjectID, b.Value.Name), id)
	case *events.Defined[events.Instance]:
		c.instances[id] = b.Value
		c.byIngress.add(b.Value.IngressHash, id)
	case *events.Defined[events.Endpoint]:
		c.endpoints[id] = b.Value
	}
}

func (c *Catalog) remove(kind, id string) {
	switch kind {
	case events.KindTenant:
		delete(c.tenants, id)
	case events.KindProject:
		delete(c.projects, id)
	case events.KindKey:
		c.byPublic.remove(c.keys[id].PublicID, id)
		delete(c.keys, id)
	case events.KindTemplate:
		t := c.templates[id]
		c.byName.remove(nameKey(t.ProjectID, t.Name), id)
		delete(c.templates, id)
	case events.KindInstance:
		c.byIngress.remove(c.instances[id].IngressHash, id)
		delete(c.instances, id)
	case events.KindEndpoint:
		delete(c.endpoints, id)
	}
}

func nameKey(project, name string) string { return project + "/" + strings.ToLower(name) }

// Version gives the sequence of the last event of an entity, 0 when there is none: the expected sequence of the next.
func (c *Catalog) Version(kind, id string) uint64 { return c.seqs[kind+"/"+id] }

// Tenant gives a tenant.
func (c *Catalog) Tenant(id string) (events.Tenant, bool) { t, ok := c.tenants[id]; return t, ok }

// Project gives a project.
func (c *Catalog) Project(id string) (events.Project, bool) { p, ok := c.projects[id]; return p, ok }

// Key gives an API key by its id.
func (c *Catalog) Key(id string) (events.Key, bool) { k, ok := c.keys[id]; return k, ok }

// KeyByPublicID gives the API key whose raw form carries the public id.
func (c *Catalog) KeyByPublicID(public string) (events.Key, bool) {
	return c.Key(c.newest(c.byPublic, events.KindKey, public))
}

// Template gives a template of a project by id or by friendly name (any case).
func (c *Catalog) Template(project, idOrName string) (events.Template, bool) {
	if t, ok := c.templates[idOrName]; ok && t.ProjectID == project {
		return t, true
	}
	return c.TemplateByID(c.newest(c.byName, events.KindTemplate, nameKey(project, idOrName)))
}

// TemplateByID gives a template whatever its project.
func (c *Catalog) TemplateByID(id string) (events.Template, bool) {
	t, ok := c.templates[id]
	return t, ok
}

// LatestApproved gives the newest approved version of t; in production only versions approved for it.
func LatestApproved(t events.Template, production bool) (events.TemplateVersion, bool) {
	best := events.TemplateVersion{}
	for _, v := range t.Versions {
		if v.State == events.TemplateApproved && (!production || v.ApprovedForProduction) && v.Version > best.Version {
			best = v
		}
	}
	return best, best.Version > 0
}

// Instance gives an instance.
func (c *Catalog) Instance(id string) (events.Instance, bool) { i, ok := c.instances[id]; return i, ok }

// InstanceByIngress gives the instance whose path token has this hex SHA-256.
func (c *Catalog) InstanceByIngress(hash string) (events.Instance, bool) {
	if hash == "" {
		return events.Instance{}, false
	}
	return c.Instance(c.newest(c.byIngress, events.KindInstance, hash))
}

// SharedInstance gives the shared default instance: the shared one with the smallest id.
func (c *Catalog) SharedInstance() (events.Instance, bool) {
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		if c.instances[id].Shared {
			return c.instances[id], true
		}
	}
	return events.Instance{}, false
}

// Instances lists every instance by id.
func (c *Catalog) Instances() []events.Instance {
	out := make([]events.Instance, 0, len(c.instances))
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		out = append(out, c.instances[id])
	}
	return out
}

// Endpoint gives a customer's endpoint.
func (c *Catalog) Endpoint(id string) (events.Endpoint, bool) { e, ok := c.endpoints[id]; return e, ok }

// Endpoints lists every endpoint by id.
func (c *Catalog) Endpoints() []events.Endpoint {
	out := make([]events.Endpoint, 0, len(c.endpoints))
	for _, id := range slices.Sorted(maps.Keys(c.endpoints)) {
		out = append(out, c.endpoints[id])
	}
	return out
}

// Subscribers lists, by id, the active endpoints that want a customer event of a message sent with the key: the one linked to
// the key, or else all of the tenant in the key's environment.
func (c *Catalog) Subscribers(tenant, keyID string, env events.Environment, event string) []events.Endpoint {
	linked := c.keys[keyID].EndpointID
	var out []events.Endpoint
	for _, id := range slices.Sorted(maps.Keys(c.endpoints)) {
		e := c.endpoints[id]
		if e.TenantID != tenant || !e.Active || e.Environment != env || (linked != "" && linked != id) {
			continue
		}
		if slices.Contains(e.Events, "*") || slices.Contains(e.Events, event) {
			out = append(out, e)
		}
	}
	return out
}
