package catalog

import "pilotstatus.dev/events"

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
