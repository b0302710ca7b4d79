package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/quota"
)

// brokenQuota cannot be read.
type brokenQuota struct{ *fakeQuota }

func (brokenQuota) Used(context.Context, string, []quota.Window) ([]int64, error) {
	return nil, errors.New("no leader")
}

func usageOf(t *testing.T, r reply) []UsageWindow {
	t.Helper()
	var u Usage
	if err := json.Unmarshal(r.body, &u); err != nil || r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	return u.Data
}

// planned gives both tenants a plan.
func planned(c *catalog.Catalog, p events.Plan) {
	define(c, events.KindPlan, p.ID, p)
	for _, tenant := range []string{"acme", "rival"} {
		define(c, events.KindTenant, tenant, events.Tenant{ID: tenant, PlanID: p.ID, TimeZone: "America/Sao_Paulo"})
	}
}

// Usage is that of the tenant of the key, of the windows that its plan limits, in its time zone.
func TestUsage(t *testing.T) {
	t.Parallel()
	f, q, _ := ruled(t, func(c *catalog.Catalog) {
		planned(c, events.Plan{ID: "free", Month: 200, Day: 50})
	})
	q.taken["acme m-2026-11"], q.taken["acme d-2026-11-29"], q.taken["rival m-2026-11"] = 7, 3, 99
	want := []UsageWindow{
		{Window: "month", Name: "m-2026-11", Used: 7, Limit: 200, BeginsAt: "2026-11-01T03:00:00.000Z", ResetsAt: "2026-12-01T03:00:00.000Z"},
		{Window: "day", Name: "d-2026-11-29", Used: 3, Limit: 50, BeginsAt: "2026-11-29T03:00:00.000Z", ResetsAt: "2026-11-30T03:00:00.000Z"},
	}
	for _, key := range []string{liveKey, testKey} { // whatever environment
		if diff := gocmp.Diff(want, usageOf(t, f.get("/v1/usage", key)), gocmp.AllowUnexported(UsageWindow{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	others := usageOf(t, f.get("/v1/usage", otherKey))
	if len(others) != 2 {
		t.Errorf("of another tenant: %+v", others)
	}
	for _, w := range others { // promise P12
		if w.Window == "month" && w.Used != 99 || w.Window == "day" && w.Used != 0 {
			t.Errorf("another tenant sees %+v", w)
		}
	}
}

func TestUsageWithoutLimitsAndWithoutCounters(t *testing.T) {
	t.Parallel()
	f, _, _ := ruled(t, func(c *catalog.Catalog) { planned(c, events.Plan{ID: "free"}) })
	if got := usageOf(t, f.get("/v1/usage", liveKey)); len(got) > 0 {
		t.Errorf("without limits: %+v", got)
	}
	if got := usageOf(t, newFixture(t).start().get("/v1/usage", liveKey)); len(got) > 0 {
		t.Errorf("without plans: %+v", got)
	}
	broken := newFixture(t)
	planned(broken.catalog.cat, events.Plan{ID: "free", Month: 1})
	broken.ports = func(p *Ports) { p.Quota = brokenQuota{&fakeQuota{}} }
	wantCode(t, broken.start().get("/v1/usage", liveKey), events.CodeUnavailable)
}
