package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/events/quota"
)

// fakeQuota keeps counts as the counters do.
type fakeQuota struct {
	mu    sync.Mutex
	taken map[string]int
	err   error
}

func (q *fakeQuota) Reserve(_ context.Context, tenant string, ws []quota.Window) (Reservation, *quota.Window, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return nil, nil, q.err
	}
	for _, w := range ws {
		if q.taken[tenant+" "+w.Name] >= w.Limit {
			return nil, &w, nil
		}
	}
	r := &fakeReservation{q: q, tenant: tenant}
	for _, w := range ws {
		q.taken[tenant+" "+w.Name]++
		r.names, r.used = append(r.names, w.Name), append(r.used, int64(q.taken[tenant+" "+w.Name]))
	}
	return r, nil, nil
}

func (q *fakeQuota) Used(_ context.Context, tenant string, ws []quota.Window) (out []int64, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range ws {
		out = append(out, int64(q.taken[tenant+" "+w.Name]))
	}
	return out, nil
}

type fakeReservation struct {
	q      *fakeQuota
	tenant string
	names  []string
	used   []int64
}

func (r *fakeReservation) Names() []string { return r.names }
func (r *fakeReservation) Used() []int64   { return r.used }

func (r *fakeReservation) GiveBack(context.Context) {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	for _, n := range r.names {
		r.q.taken[r.tenant+" "+n]--
	}
}

type fakePresence map[string]presence.State

func (p fakePresence) State(instance string) presence.State { return p[instance] }

func (p fakePresence) ParkedWide() (ids []string) {
	for id, s := range p {
		if s.Parked && s.Park.Scope == events.ParkGateway {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// ruled is an API with everything that can refuse, and a catalog that a test changes.
func ruled(t *testing.T, change func(*catalog.Catalog)) (*fixture, *fakeQuota, fakePresence) {
	t.Helper()
	f, q, p := newFixture(t), &fakeQuota{taken: map[string]int{}}, fakePresence{}
	if change != nil {
		change(f.catalog.cat)
	}
	f.ports = func(ports *Ports) { ports.Quota, ports.Presence = q, p }
	return f.start(), q, p
}

const (
	strangerNumber = "+5511900001111"
	toStranger     = `{"destinationNumber":"` + strangerNumber + `","templateId":"t-note","variables":{"name":"a","message":"b"}}`
	codeToStranger = `{"destinationNumber":"` + strangerNumber + `","templateId":"t-code","variables":{"code":"1"}}`
)

// Each rule that refuses a send, with what is documented for it; nothing is appended and no place is taken.
func TestEachRuleRefuses(t *testing.T) {
	t.Parallel()
	platform := func(p events.Platform) func(*catalog.Catalog) {
		return func(c *catalog.Catalog) { define(c, events.KindPlatform, events.PlatformID, p) }
	}
	plan := func(p events.Plan) func(*catalog.Catalog) {
		return func(c *catalog.Catalog) {
			p.ID = "small"
			define(c, events.KindPlan, p.ID, p)
			define(c, events.KindPlatform, events.PlatformID, events.Platform{PlanID: p.ID})
		}
	}
	optOut := func(c *catalog.Catalog) {
		id := events.OptOutID("acme", hashOf("acme", strangerNumber))
		define(c, events.KindOptOut, id, events.OptOut{ID: id, TenantID: "acme", RecipientHash: hashOf("acme", strangerNumber)})
	}
	approved := func(c *catalog.Catalog) {
		define(c, events.KindProject, "draft", events.Project{ID: "draft", TenantID: "acme", ProductionApproved: true})
	}
	closed := presence.State{Connection: presence.Closed, Since: clock.Add(-time.Minute)}
	for name, c := range map[string]struct {
		change func(*catalog.Catalog)
		state  presence.State // of the own instance
		taken  map[string]int
		key    string
		body   string
		code   events.Code // empty: accepted
	}{
		"stopped for all":                 {change: platform(events.Platform{Stopped: true}), key: liveKey, body: toStranger, code: CodeSendingStopped},
		"TEST to a stranger":              {key: testKey, body: toStranger, code: CodeNotInTestList},
		"TEST to a profile number":        {key: testKey, body: note},
		"own number closed for a minute":  {state: closed, key: ownKey, body: toStranger, code: CodeInstanceClosed},
		"own number closed for a moment":  {state: presence.State{Connection: presence.Closed, Since: clock.Add(-59 * time.Second)}, key: ownKey, body: toStranger},
		"own number paused":               {state: presence.State{Connection: presence.Open, Paused: true, Parked: true}, key: ownKey, body: toStranger},
		"shared number never says closed": {state: closed, key: liveKey, body: toStranger},
		"opted out":                       {change: optOut, key: liveKey, body: toStranger, code: CodeOptedOut},
		"opted out, OTP":                  {change: optOut, key: liveKey, body: codeToStranger, code: CodeOptedOut},
		"opted out of another tenant":     {change: optOut, key: otherKey, body: toStranger, code: events.CodeTemplateNotFound},
		"no opt-in":                       {change: platform(events.Platform{OptInRequired: true}), key: liveKey, body: toStranger, code: CodeOptInRequired},
		"no opt-in, OTP":                  {change: platform(events.Platform{OptInRequired: true}), key: liveKey, body: codeToStranger},
		"no opt-in, own number":           {change: platform(events.Platform{OptInRequired: true}), key: ownKey, body: toStranger},
		"no opt-in, TEST":                 {change: platform(events.Platform{OptInRequired: true}), key: testKey, body: note},
		"opted in": {change: func(c *catalog.Catalog) {
			platform(events.Platform{OptInRequired: true})(c)
			id := events.OptInID("shop", hashOf("acme", strangerNumber))
			define(c, events.KindOptIn, id, events.OptIn{ID: id, TenantID: "acme", ProjectID: "shop", RecipientHash: hashOf("acme", strangerNumber)})
		}, key: liveKey, body: toStranger},
		"month full":                  {change: plan(events.Plan{Month: 7}), taken: map[string]int{"acme m-2026-11": 7}, key: liveKey, body: toStranger, code: CodePlanLimit},
		"day full":                    {change: plan(events.Plan{Month: 200, Day: 3}), taken: map[string]int{"acme d-2026-11-29": 3}, key: liveKey, body: toStranger, code: CodePlanLimit},
		"month full of another":       {change: plan(events.Plan{Month: 7}), taken: map[string]int{"rival m-2026-11": 7}, key: liveKey, body: toStranger},
		"TEST day full, for profile":  {change: plan(events.Plan{TestDay: 1}), taken: map[string]int{"acme t-2026-11-29": 1}, key: testKey, body: note},
		"template of another project": {key: rawProject, body: toStranger, change: approved, code: events.CodeOtherProject},
		"newsletter":                  {key: liveKey, body: `{"newsletterId":"1203@newsletter","templateId":"t-note"}`, code: CodeNewsletterNotSupported},
		"media":                       {key: liveKey, body: strings.Replace(toStranger, "{", `{"media":"https://media.example/y.png","mediaType":"image",`, 1), code: CodeMediaNotSupported},
		"the plan is not there":       {change: platform(events.Platform{PlanID: "gone"}), key: liveKey, body: toStranger, code: events.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, q, p := ruled(t, c.change)
			for k, n := range c.taken {
				q.taken[k] = n
			}
			if c.state != (presence.State{}) {
				p["own"], p["shared"] = c.state, c.state
			}
			r := f.send(c.key, c.body)
			if c.code == "" {
				if r.status != http.StatusAccepted {
					t.Fatalf("%d %s", r.status, r.body)
				}
				return
			}
			wantCode(t, r, c.code)
			if len(f.events()) > 0 || len(q.taken) != len(c.taken) {
				t.Errorf("%d events, taken %v", len(f.events()), q.taken)
			}
		})
	}
}

// C4 case 71: a limit is exact, and says when it ends. What is accepted names its windows.
func TestCase71PlanLimit(t *testing.T) {
	t.Parallel()
	f, q, _ := ruled(t, func(c *catalog.Catalog) {
		define(c, events.KindPlan, "free", events.Plan{ID: "free", Month: 2, Day: 50})
		define(c, events.KindTenant, "acme", events.Tenant{ID: "acme", PlanID: "free", TimeZone: "America/Sao_Paulo"})
		define(c, events.KindPackage, "more", events.Package{ID: "more", TenantID: "acme", Messages: 1, From: "2026-11", Until: "2026-11"})
	})
	for range 3 {
		if r := f.send(liveKey, toStranger); r.status != http.StatusAccepted {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	r := f.send(liveKey, toStranger)
	wantCode(t, r, CodePlanLimit)
	details, _ := r.member(t, "details").(map[string]any)
	if r.status != http.StatusTooManyRequests || details["window"] != "m-2026-11" || details["limit"] != 3.0 || details["resetsAt"] != "2026-12-01T03:00:00.000Z" {
		t.Errorf("%d %v", r.status, details)
	}
	if after, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || clock.Add(time.Duration(after)*time.Second).Before(time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)) {
		t.Errorf("Retry-After %s", r.header.Get("Retry-After"))
	}
	for _, e := range f.events() {
		if b := e.Body.(*events.MessageQueued); !slices.Equal(b.QuotaWindows, []string{"m-2026-11", "d-2026-11-29"}) {
			t.Errorf("windows %v", b.QuotaWindows)
		}
	}
	if got := r.header.Get("RateLimit"); !strings.Contains(got, `"month";r=0;t=`) {
		t.Errorf("RateLimit: %s", got)
	}
	if q.taken["acme d-2026-11-29"] != 3 {
		t.Errorf("taken %v", q.taken)
	}
	q.err = errors.New("no leader")
	wantCode(t, f.send(liveKey, toStranger), events.CodeUnavailable)
}

// A place is given back when the message is certain not to be in the log, and kept when that is not known.
func TestPlacesOfAppendsThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"refused": {events.Errorf(events.CodeMalformed, "no"), 0},
		"unknown": {events.Errorf(events.CodeUnavailable, "no answer"), 1},
	} {
		f, q, _ := ruled(t, func(c *catalog.Catalog) {
			define(c, events.KindPlan, "free", events.Plan{ID: "free", Month: 2})
			define(c, events.KindTenant, "acme", events.Tenant{ID: "acme", PlanID: "free"})
		})
		f.log.append = func(context.Context, events.Event) (uint64, error) { return 0, c.err }
		if r := f.send(liveKey, toStranger); r.status < 500 {
			t.Fatalf("%s: %d", name, r.status)
		}
		if got := q.taken["acme m-2026-11"]; got != c.want {
			t.Errorf("%s: %d places are taken, want %d", name, got, c.want)
		}
	}
}

// A plan may let a key ask more, or less, than others.
func TestBurstOfAPlan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.BurstRate, f.cfg.Burst = 1, 50
	define(f.catalog.cat, events.KindPlan, "slow", events.Plan{ID: "slow", Rate: 0.5, Burst: 2})
	define(f.catalog.cat, events.KindTenant, "rival", events.Tenant{ID: "rival", PlanID: "slow"})
	f.start()
	for i, want := range []int{404, 404, 429} {
		if r := f.get("/v1/messages/none", otherKey); r.status != want {
			t.Errorf("%d: %d %s", i, r.status, r.body)
		}
	}
	if r := f.get("/v1/messages/none", liveKey); r.status != http.StatusNotFound || !strings.Contains(r.header.Get("RateLimit-Policy"), "q=50") {
		t.Errorf("another tenant: %d, %s", r.status, r.header.Get("RateLimit-Policy"))
	}
	f.now = clock.Add(2 * time.Second)
	if r := f.get("/v1/messages/none", otherKey); r.status != http.StatusNotFound {
		t.Errorf("two seconds later: %d", r.status)
	}
}

// Nobody is bombed: the limit of a recipient counts whatever key asks, and leaves others alone.
func TestRecipientLimit(t *testing.T) {
	t.Parallel()
	f, _, _ := ruled(t, func(c *catalog.Catalog) {
		define(c, events.KindPlatform, events.PlatformID, events.Platform{RecipientLimit: 3})
	})
	for i, key := range []string{liveKey, ownKey, liveKey} {
		if r := f.send(key, codeToStranger); r.status != http.StatusAccepted {
			t.Fatalf("%d: %d %s", i, r.status, r.body)
		}
	}
	r := f.send(liveKey, codeToStranger)
	wantCode(t, r, CodeRecipientLimit)
	if after, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || after < 1 || after > 1200 {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	if r := f.send(liveKey, strings.Replace(codeToStranger, "1111", "2222", 1)); r.status != http.StatusAccepted {
		t.Errorf("another recipient: %d %s", r.status, r.body)
	}
	f.now = clock.Add(20*time.Minute + time.Second)
	if r := f.send(liveKey, codeToStranger); r.status != http.StatusAccepted {
		t.Errorf("a third of an hour later: %d %s", r.status, r.body)
	}
}
