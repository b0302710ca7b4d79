package e2e

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/demo"
)

// limited gives the tenant of the demonstration a plan.
func (r *rig) limited(plan events.Plan) {
	r.t.Helper()
	plan.ID = "plan-small"
	c := r.app.Control()
	var tenant events.Tenant
	var version uint64
	c.Feed.Read(func(cat *catalog.Catalog) {
		tenant, _ = cat.Tenant(demo.TenantID)
		version = cat.Version(events.KindTenant, demo.TenantID)
	})
	by := control.Author{By: "operator:test"}
	if _, err := control.Define(r.t.Context(), c.Log, events.KindPlan, plan.ID, plan, by, 0); err != nil {
		r.t.Fatal(err)
	}
	tenant.PlanID = plan.ID
	if _, err := control.Define(r.t.Context(), c.Log, events.KindTenant, demo.TenantID, tenant, by, version); err != nil {
		r.t.Fatal(err)
	}
}

// flood sends n messages for tomorrow at once through the given APIs, and gives the ids of those accepted. Every other one is
// refused by the plan.
func (r *rig) flood(n int, apis ...string) []string {
	r.t.Helper()
	var mu sync.Mutex
	var ids []string
	var all sync.WaitGroup
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	for i := range n {
		all.Go(func() {
			status, raw, err := call(r.t.Context(), http.MethodPost, apis[i%len(apis)]+"/v1/messages/send", r.keys.Own,
				map[string]any{"text": "Later.", "destinationNumber": "+5511988887777", "deliverAt": tomorrow})
			var out struct{ ID, Code string }
			if err == nil {
				err = json.Unmarshal(raw, &out)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && status == http.StatusAccepted:
				ids = append(ids, out.ID)
			case err != nil || status != http.StatusTooManyRequests || out.Code != "PLAN_LIMIT_REACHED":
				r.t.Errorf("send: %d %s, %v", status, raw, err)
			}
		})
	}
	all.Wait()
	return ids
}

// P11, Q1, Q2: two processes never accept more than the plan allows between them; what is canceled frees its place, once.
func TestP11PlanLimitAcrossProcesses(t *testing.T) {
	t.Parallel()
	const limit = 25
	r := newRig(t)
	other := r.secondAPI()
	defer stopApp(t, other)
	r.limited(events.Plan{Month: limit})
	for _, a := range []*app.App{r.app, other} {
		awaittest.Eventually(t, patience, 5*time.Millisecond, "the plan is known", func() (known bool) {
			a.Control().Feed.Read(func(c *catalog.Catalog) {
				plan, ok := c.PlanOf(demo.TenantID)
				known = ok && plan.Month == limit
			})
			return known
		}, nil)
	}
	apis := []string{r.app.URLs().API, other.URLs().API}
	first := r.flood(200, apis...)
	if len(first) != limit {
		t.Fatalf("%d of %d were accepted", len(first), limit)
	}
	if more := r.flood(20, apis...); len(more) != 0 {
		t.Fatalf("%d more were accepted", len(more))
	}
	const back = 7
	for id, said := range cancelAt(t, apis[0], r.keys.Own, first[:back]...) {
		if said != "cancelled" {
			t.Errorf("%s: %s", id, said)
		}
	}
	again := 0
	awaittest.Eventually(t, patience, 50*time.Millisecond, "canceled messages free their places", func() bool {
		again += len(r.flood(10, apis...))
		return again >= back
	}, nil)
	if more := r.flood(20, apis...); again != back || len(more) != 0 {
		t.Errorf("%d of %d places came back, and %d more", again, back, len(more))
	}
}
