package policy

import (
	"net/netip"
	"net/url"
	"strings"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/webhook"
)

// Instance is the rules of instances.
func Instance(c *catalog.Catalog, i events.Instance, before *events.Instance) (f Faults) {
	old, isNew := orZero(before), before == nil
	f.id(i.ID)
	if i.Shared {
		f.when(i.TenantID != events.PlatformTenant, "tenantId", RuleShared)
		fixed(&f, isNew, "tenantId", old.TenantID, i.TenantID)
	} else {
		f.owner(c, isNew, old.TenantID, i.TenantID)
	}
	fixed(&f, isNew, "shared", old.Shared, i.Shared)
	f.name("name", i.Name, true)
	f.name("displayName", i.DisplayName, false)
	f.when(i.Number != "" && (len(i.Number) < 8 || len(i.Number) > 15 || strings.Trim(i.Number, "0123456789") != ""), "number", RuleForm)
	if u, ok := f.address("gatewayUrl", i.GatewayURL); ok {
		f.when(u.RawQuery != "", "gatewayUrl", RuleURL)
		other, taken := c.InstanceAt(i.GatewayURL, i.Name)
		f.when(taken && other.ID != i.ID, "name", RuleTaken)
	}
	f.when(len(i.GatewayKey.Blob) == 0, "gatewayKey", RuleRequired)
	f.count("maxConcurrency", i.MaxConcurrency, 1, MaxConcurrency)
	fixed(&f, isNew, "maxConcurrency", old.MaxConcurrency, i.MaxConcurrency)
	f.count("concurrency", i.Concurrency, 1, max(i.MaxConcurrency, 1))
	f.rate("pace.ratePerMinute", i.Pace.RatePerMinute, MaxRatePerMinute)
	f.count("pace.burst", i.Pace.Burst, 0, events.MaxBurst)
	f.rate("pace.jitter", i.Pace.Jitter, events.MaxJitter)
	known := 0
	for _, c := range events.Categories() {
		if cost, set := i.Pace.Costs[c]; set {
			known++
			f.rate("pace.costs."+string(c), cost, float64(max(i.Pace.Burst, 1)))
		}
	}
	f.when(known < len(i.Pace.Costs), "pace.costs", RuleValue)
	return f
}

// Subscribable lists what an endpoint may subscribe to: every customer event, and "*" for all of them.
func Subscribable() []string { return append([]string{"*"}, webhook.Names()...) }

// Endpoint gives the rules of customers' endpoints. With loopback, which is for demonstrations and tests, plain http and
// addresses of this machine are let through; what a name resolves to is judged when it is called, whatever is said here.
func Endpoint(loopback bool) func(*catalog.Catalog, events.Endpoint, *events.Endpoint) Faults {
	return func(c *catalog.Catalog, e events.Endpoint, before *events.Endpoint) (f Faults) {
		old, isNew := orZero(before), before == nil
		f.id(e.ID)
		f.owner(c, isNew, old.TenantID, e.TenantID)
		if e.ProjectID != "" || old.ProjectID != "" {
			f.project(c, e.TenantID, isNew, old.ProjectID, e.ProjectID)
		}
		f.name("name", e.Name, true)
		if u, ok := f.address("url", e.URL); ok {
			f.public(u, loopback)
		}
		environment(&f, "environment", e.Environment)
		fixed(&f, isNew, "environment", old.Environment, e.Environment)
		f.words("events", e.Events, Subscribable(), MaxEvents)
		f.when(len(e.Secrets) == 0, "secrets", RuleRequired)
		return f
	}
}

// public refuses an address that a customer's endpoint cannot have.
func (f *Faults) public(u *url.URL, loopback bool) {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	addr, err := netip.ParseAddr(host)
	literal := err == nil
	addr = addr.Unmap()
	local := literal && addr.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
	if loopback && local {
		return
	}
	f.when(u.Scheme != "https" && !loopback, "url", RuleHTTPS)
	f.when(u.Port() != "" && u.Port() != "443" && (u.Port() != "80" || u.Scheme != "http"), "url", RulePort)
	private := literal && (!addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Zone() != "")
	// A last label of digits is an address in one of its old spellings.
	last := host[strings.LastIndex(host, ".")+1:]
	number := strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x")
	named := !literal && (last == host || number || last == "local" || last == "internal")
	f.when(local || private || named, "url", RuleAddress)
}
