// Package timezone finds time zones by name, each loaded once: reading one is slow.
package timezone

import (
	"sync"
	"time"

	"pilotstatus.dev/events/quota"
)

// loaded holds *time.Location by name. Only names of the database get in, so it is bounded.
var loaded sync.Map

// Load gives the time zone of the IANA database with a name; "" is UTC. It is false where there is none of this name, and for "Local",
// which would be the zone of this machine.
func Load(name string) (*time.Location, bool) {
	if have, ok := loaded.Load(name); ok {
		zone, _ := have.(*time.Location)
		return zone, true
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, false
	}
	loaded.Store(name, zone)
	return zone, true
}

// Known tells whether Load finds a name.
func Known(name string) bool {
	_, ok := Load(name)
	return ok
}

// OfTenant gives the time zone in which the windows of a tenant's plan are: quota.DefaultZone where it names none. A name that is not
// known is refused where tenants are defined; here it is UTC.
func OfTenant(name string) *time.Location {
	if name == "" {
		name = quota.DefaultZone
	}
	if zone, ok := Load(name); ok {
		return zone
	}
	return time.UTC
}
