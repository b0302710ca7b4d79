package catalog

import (
	"time"

	"pilotstatus.dev/events"
)

// Instance gives an instance.
func (c *Catalog) Instance(id string) (events.Instance, bool) { return c.instances.get(id) }

// Instances lists every instance by id.
func (c *Catalog) Instances() []events.Instance { return c.instances.all() }

// InstancesOf lists the instances of a tenant by id.
func (c *Catalog) InstancesOf(tenant string) []events.Instance {
	return c.instances.with(ofTenant, tenant)
}

// InstanceByIngress gives the instance whose path token has this hex SHA-256.
func (c *Catalog) InstanceByIngress(hash string) (events.Instance, bool) {
	return c.instances.newest(c, instanceIngress, hash)
}

// InstanceAt gives the instance that a gateway knows by this name: the pair is unique.
func (c *Catalog) InstanceAt(gatewayURL, name string) (events.Instance, bool) {
	return c.instances.newest(c, instanceGateway, gatewayKey(gatewayURL, name))
}

// SharedInstance gives the shared default instance: the shared one with the smallest id.
func (c *Catalog) SharedInstance() (events.Instance, bool) {
	for _, i := range c.instances.with(instanceShared, events.PlatformTenant) {
		return i, true
	}
	return events.Instance{}, false
}

// place is where an instance is: a gateway, and its name there. It outlives the instance, which may be defined again.
type place struct {
	at    string
	since time.Time // of the event that moved it; zero where it was first
}

func (c *Catalog) placed(id string, inst events.Instance, stored time.Time) {
	at := gatewayKey(inst.GatewayURL, inst.Name)
	switch was, had := c.places[id]; {
	case !had:
		c.places[id] = place{at: at}
	case was.at != at:
		c.places[id] = place{at, stored}
	}
}

// MovedAt gives when an instance was moved to another gateway, or got another name there, the last time; zero when it never was. What it
// sent before is looked for in vain where it is now.
func (c *Catalog) MovedAt(id string) time.Time { return c.places[id].since }
