package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

func define[T any](c *catalog.Catalog, kind, id string, value T) {
	c.Apply(events.Recorded{
		Event: events.Event{
			Envelope: events.Envelope{Type: events.DefinedType(kind)}, Address: events.ControlSubject(kind, id),
			Body: &events.Defined[T]{By: "test", Value: value},
		},
		Position: events.Position{Sequence: c.Sequence + 1}, Known: true,
	})
}

var (
	hash   = strings.Repeat("0a", 32)
	sealed = events.Sealed{KeyID: "secrets", Blob: []byte("x")}
	at     = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
)

func zone(name string) bool { return name == "America/Sao_Paulo" }

func key() events.Key {
	return events.Key{
		ID: "k1", TenantID: "acme", ProjectID: "shop", Environment: events.Live, Name: "web", PublicID: "abcd1234", SHA256: hash,
		Scopes: []string{events.ScopeSend}, InstanceID: "own", EndpointID: "hook",
	}
}

func instance() events.Instance {
	return events.Instance{
		ID: "own", TenantID: "acme", Name: "acme-1", GatewayURL: "http://gw:8080", GatewayKey: sealed, Concurrency: 2, MaxConcurrency: 4,
		Number: "5511900000001",
	}
}

func endpoint() events.Endpoint {
	return events.Endpoint{
		ID: "hook", TenantID: "acme", Name: "web", URL: "https://example.com/in?token=1", Environment: events.Live, Events: []string{"*"},
		Secrets: []events.Sealed{sealed},
	}
}

func tpl() events.Template {
	return events.Template{
		ID: "tpl-1", TenantID: "acme", ProjectID: "shop", Name: "welcome_1", Category: events.Utility,
		Versions: []events.TemplateVersion{{Version: 1, Structure: []byte(`{"body":{"text":"Hi {{name}}!"}}`), State: events.TemplateDraft}},
	}
}

// world has two tenants with a project each, and everything that the good examples refer to.
func world() *catalog.Catalog {
	c := catalog.New()
	define(c, events.KindPlan, "free", events.Plan{ID: "free", Name: "Free"})
	for tenant, project := range map[string]string{"acme": "shop", "rival": "rivals"} {
		define(c, events.KindTenant, tenant, events.Tenant{ID: tenant, Name: tenant, PlanID: "free"})
		define(c, events.KindProject, project, events.Project{ID: project, TenantID: tenant, Name: project})
	}
	define(c, events.KindInstance, "own", instance())
	other := instance()
	other.ID, other.Name, other.TenantID = "theirs", "rival-1", "rival"
	define(c, events.KindInstance, "theirs", other)
	define(c, events.KindEndpoint, "hook", endpoint())
	define(c, events.KindProject, "office", events.Project{ID: "office", TenantID: "acme", Name: "office"})
	define(c, events.KindEndpoint, "narrow", with(endpoint(), func(e *events.Endpoint) { e.ID, e.ProjectID = "narrow", "office" }))
	define(c, events.KindTemplate, "tpl-1", tpl())
	used := key()
	used.ID, used.PublicID = "used", "used0000"
	define(c, events.KindKey, "used", used)
	return c
}

// row is one entity and the faults it has.
type row struct {
	name   string
	faults policy.Faults
	want   []string // "field rule"
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		var got []string
		for _, f := range r.faults {
			got = append(got, f.Field+" "+f.Rule)
		}
		if diff := cmp.Diff(r.want, got); diff != "" {
			t.Errorf("%s:\n%s", r.name, diff)
		}
	}
}

func with[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	c := world()
	tenant, tenants := events.Tenant{ID: "t1", Name: "T", TimeZone: "America/Sao_Paulo", PlanID: "free"}, policy.Tenant(zone)
	number := events.PersonalNumber{Hash: hash, Sealed: sealed}
	old := key()
	check(t, []row{
		{"tenant", tenants(c, tenant, nil), nil},
		{"tenant of nothing", tenants(c, events.Tenant{}, nil), []string{"id token", "name required"}},
		{"tenant all wrong", tenants(c, events.Tenant{
			ID: "platform", Name: "a\nb", TimeZone: "Mars", PlanID: "none", ProfileNumbers: []events.PersonalNumber{number, number, {Hash: "x"}},
		}, nil), []string{"id taken", "name characters", "timeZone time_zone", "planId unknown", "profileNumbers[1] twice", "profileNumbers[2] form", "profileNumbers[2] required"}},
		{"tenant of long name", tenants(c, with(tenant, func(t *events.Tenant) { t.Name = strings.Repeat("é", 101) }), nil), []string{"name too_long"}},
		{"project", policy.Project(c, events.Project{ID: "p", TenantID: "acme", Name: "P"}, nil), nil},
		{
			"project moved", policy.Project(c, events.Project{ID: "shop", TenantID: "rival", Name: "P", RetentionDays: -1}, &events.Project{ID: "shop", TenantID: "acme"}),
			[]string{"tenantId fixed", "retentionDays out_of_range"},
		},
		{"key", policy.Key(c, key(), nil), nil},
		{
			"key of another tenant's things", policy.Key(c, with(key(), func(k *events.Key) { k.TenantID = "rival" }), nil),
			[]string{"projectId unknown", "instanceId unknown", "endpointId unknown"},
		},
		{
			"key linked to another project's endpoint", policy.Key(c, with(key(), func(k *events.Key) { k.EndpointID = "narrow" }), nil),
			[]string{"endpointId unknown"},
		},
		{"key of nothing", policy.Key(c, events.Key{Scopes: []string{"send", "send", "fly"}, RetentionDays: new(int)}, nil), []string{
			"id token", "tenantId unknown", "projectId unknown", "environment unknown_value", "name required", "publicId form", "sha256 form",
			"scopes[1] twice", "scopes[2] unknown_value",
		}},
		{"key changed", policy.Key(c, with(key(), func(k *events.Key) { k.Environment, k.EndpointID = events.Test, "" }), &old), []string{"environment fixed"}},
		{"key with the secret of another", policy.Key(c, with(key(), func(k *events.Key) { k.PublicID = "used0000" }), nil), []string{"publicId taken"}},
		{"operator", policy.Operator(c, events.Operator{ID: "o", Name: "ana", PublicID: "abcd1234", SHA256: hash, Scopes: []string{"read"}}, nil), nil},
		{"operator of nothing", policy.Operator(c, events.Operator{}, nil), []string{"id token", "name token", "publicId form", "sha256 form", "scopes required"}},
	})
}

func TestPlans(t *testing.T) {
	t.Parallel()
	c := world()
	in := events.OptIn{ID: events.OptInID("shop", hash), TenantID: "acme", ProjectID: "shop", RecipientHash: hash, Source: events.SourceImport, FirstAt: at, LastAt: at}
	check(t, []row{
		{"plan", policy.Plan(c, events.Plan{ID: "p", Name: "P", Month: 200, Rate: 0.5}, nil), nil},
		{"plan all wrong", policy.Plan(c, events.Plan{ID: "P", Month: -1, Day: -1, TestDay: -1, Rate: -1, Burst: -1, Weight: 1001}, nil), []string{
			"id token", "name required", "month out_of_range", "day out_of_range", "testDay out_of_range", "rate out_of_range", "burst out_of_range", "weight out_of_range",
		}},
		{"package", policy.Package(c, events.Package{ID: "p", TenantID: "acme", Messages: 1, From: "2026-11", Until: "2026-11"}, nil), nil},
		{
			"package all wrong", policy.Package(c, events.Package{ID: "p", TenantID: "none", From: "2026-1", Until: "2026-13"}, nil),
			[]string{"tenantId unknown", "messages out_of_range", "from month", "until month"},
		},
		{"package that ends before", policy.Package(c, events.Package{ID: "p", TenantID: "acme", Messages: 1, From: "2026-11", Until: "2026-10"}, nil), []string{"until before_from"}},
		{"opt-in", policy.OptIn(c, in, nil), nil},
		{
			"opt-in of another project", policy.OptIn(c, with(in, func(o *events.OptIn) { o.ProjectID, o.LastAt = "rivals", time.Time{} }), nil),
			[]string{"id form", "projectId unknown", "lastAt before_from"},
		},
		{"opt-out", policy.OptOut(c, events.OptOut{ID: events.OptOutID("acme", hash), TenantID: "acme", RecipientHash: hash, Source: "customer", At: at}, nil), nil},
		{"opt-out of nothing", policy.OptOut(c, events.OptOut{}, nil), []string{"id form", "tenantId unknown", "recipientHash form", "source unknown_value", "at required"}},
		{"platform", policy.Platform(c, events.Platform{PlanID: "free", RecipientLimit: 5}, nil), nil},
		{"platform all wrong", policy.Platform(c, events.Platform{PlanID: "none", RecipientLimit: -5}, nil), []string{"recipientLimit out_of_range", "planId unknown"}},
	})
}

func TestInstances(t *testing.T) {
	t.Parallel()
	c, old := world(), instance()
	change := func(f func(*events.Instance)) policy.Faults { return policy.Instance(c, with(instance(), f), &old) }
	check(t, []row{
		{"same", change(func(*events.Instance) {}), nil},
		{"moved to another gateway", change(func(i *events.Instance) { i.GatewayURL, i.Concurrency = "https://gw2/evo", 4 }), nil},
		{"more slots", change(func(i *events.Instance) { i.MaxConcurrency = 8 }), []string{"maxConcurrency fixed"}},
		{"more at once than slots", change(func(i *events.Instance) { i.Concurrency = 5 }), []string{"concurrency out_of_range"}},
		{"paced", change(func(i *events.Instance) {
			i.Pace = events.Pace{RatePerMinute: 2, Burst: 100, Jitter: 0.9, Costs: map[events.Category]float64{events.OTP: 0, events.Marketing: 100}}
		}), nil},
		{"paced wildly", change(func(i *events.Instance) {
			i.Pace = events.Pace{Burst: 101, Jitter: 1, Costs: map[events.Category]float64{events.OTP: -1, events.Utility: 102, "SPAM": 1}}
		}), []string{
			"pace.burst out_of_range", "pace.jitter out_of_range", "pace.costs.OTP out_of_range", "pace.costs.UTILITY out_of_range", "pace.costs unknown_value",
		}},
		{"dearer than the bucket holds", change(func(i *events.Instance) { i.Pace.Costs = map[events.Category]float64{events.Utility: 1.5} }), []string{
			"pace.costs.UTILITY out_of_range",
		}},
		{"of another tenant", change(func(i *events.Instance) { i.TenantID = "rival" }), []string{"tenantId fixed"}},
		{"shared now", change(func(i *events.Instance) { i.Shared = true }), []string{"tenantId shared_owner", "shared fixed"}},
		{"name of another", change(func(i *events.Instance) { i.Name, i.GatewayURL = "rival-1", "http://gw:8080/" }), []string{"name taken"}},
		{"of nothing", policy.Instance(c, events.Instance{Number: "+1", Pace: events.Pace{RatePerMinute: -1, Burst: -1}}, nil), []string{
			"id token", "tenantId unknown", "name required", "number form", "gatewayUrl url", "gatewayKey required", "maxConcurrency out_of_range",
			"concurrency out_of_range", "pace.ratePerMinute out_of_range", "pace.burst out_of_range",
		}},
		{"shared", policy.Instance(c, events.Instance{
			ID: "s", TenantID: "platform", Shared: true, Name: "s", GatewayURL: "http://gw", GatewayKey: sealed, Concurrency: 1, MaxConcurrency: 1,
		}, nil), nil},
	})
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	c, old := world(), endpoint()
	check(t, []row{
		{"same", policy.Endpoint(false)(c, endpoint(), &old), nil},
		{"of a project", policy.Endpoint(false)(c, with(endpoint(), func(e *events.Endpoint) { e.ProjectID = "shop" }), nil), nil},
		{"of another's project", policy.Endpoint(false)(c, with(endpoint(), func(e *events.Endpoint) { e.ProjectID = "rivals" }), nil), []string{"projectId unknown"}},
		{"given to a project", policy.Endpoint(false)(c, with(endpoint(), func(e *events.Endpoint) { e.ProjectID = "shop" }), &old), []string{"projectId fixed"}},
		{"of nothing", policy.Endpoint(false)(c, events.Endpoint{Events: []string{"message.eaten"}}, nil), []string{
			"id token", "tenantId unknown", "name required", "url url", "environment unknown_value", "events[0] unknown_value", "secrets required",
		}},
	})
	for url, want := range map[string]string{
		"https://example.com:443/": "", "https://198.51.100.7/": "", "https://[2606:4700::1]/": "",
		"http://example.com/": policy.RuleHTTPS, "https://example.com:8443/": policy.RulePort, "https://u:p@example.com/": policy.RuleURL,
		"ftp://example.com": policy.RuleURL, "https://": policy.RuleURL, "/relative": policy.RuleURL, "https://example.com/#x": policy.RuleURL,
		"https://10.0.0.1/": policy.RuleAddress, "https://127.0.0.1/": policy.RuleAddress, "https://[::1]/": policy.RuleAddress,
		"https://[::ffff:10.0.0.1]/": policy.RuleAddress, "https://169.254.169.254/latest": policy.RuleAddress, "https://localhost/": policy.RuleAddress,
		"https://a.localhost./": policy.RuleAddress, "https://metadata/": policy.RuleAddress, "https://0x7f.1/": policy.RuleAddress,
		"https://2130706433/": policy.RuleAddress, "https://vault.internal/": policy.RuleAddress, "https://[fe80::1%25eth0]/": policy.RuleAddress,
		"https://example.com/" + strings.Repeat("x", policy.MaxURL): policy.RuleURL,
	} {
		got := policy.Endpoint(false)(c, with(endpoint(), func(e *events.Endpoint) { e.URL = url }), &old)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].Field != "url" || got[0].Rule != want) {
			t.Errorf("%.60s: %v, want %q", url, got, want)
		}
	}
	for _, url := range []string{"http://127.0.0.1:4711/hook", "http://localhost:1/", "http://[::1]:9/"} {
		if got := policy.Endpoint(true)(c, with(endpoint(), func(e *events.Endpoint) { e.URL = url }), &old); len(got) > 0 {
			t.Errorf("%s with loopback allowed: %v", url, got)
		}
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	c, old := world(), tpl()
	change := func(f func(*events.Template)) policy.Faults {
		v := tpl()
		v.Versions = slices.Clone(v.Versions)
		f(&v)
		return policy.Template(c, v, &old)
	}
	approved := tpl()
	approved.Versions = []events.TemplateVersion{{Version: 1, Structure: []byte(`"A."`), State: events.TemplateApproved, ApprovedForProduction: true}}
	reworded := approved
	reworded.Versions = []events.TemplateVersion{{Version: 1, Structure: []byte(`"B."`), State: events.TemplateApproved, ApprovedForProduction: true}}
	check(t, []row{
		{"same", change(func(*events.Template) {}), nil},
		{"another wording of a draft", change(func(v *events.Template) { v.Versions[0].Structure = []byte(`"Hello."`) }), nil},
		{"another category", change(func(v *events.Template) { v.Category = events.OTP }), []string{"category fixed"}},
		{"a broken wording", change(func(v *events.Template) {
			v.Versions[0].Structure = []byte(`{"body":{"text":"{{a}}"},"buttons":[{"type":"X","text":"y"}]}`)
		}), []string{
			"versions[0].structure.body.text starts_with_variable", "versions[0].structure.body.text ends_with_variable", "versions[0].structure.buttons[0].type unknown_type",
		}},
		{"no wording", change(func(v *events.Template) { v.Versions[0].Structure = nil }), []string{"versions[0].structure required"}},
		{"a wording of another type", change(func(v *events.Template) { v.Versions[0].Structure = []byte("7") }), []string{"versions[0].structure wrong_type"}},
		{"a version gone", change(func(v *events.Template) { v.Versions = nil }), []string{"versions fixed"}},
		{"an approved wording changed", policy.Template(c, reworded, &approved), []string{"versions[0].structure fixed"}},
		{"a name taken", policy.Template(c, with(tpl(), func(v *events.Template) { v.ID, v.Name = "tpl-2", "WELCOME_1" }), nil), []string{"name taken"}},
		{"an id that is a name", policy.Template(c, with(tpl(), func(v *events.Template) { v.ID, v.Name, v.ProjectID = "welcome-2", "x", "rivals" }), nil), []string{"projectId unknown"}},
		{"of nothing", policy.Template(c, events.Template{Versions: []events.TemplateVersion{{Version: 2, State: "x", ApprovedForProduction: true, Structure: []byte(`"A"`)}}}, nil), []string{
			"id token", "tenantId unknown", "projectId unknown", "name form", "category unknown_value", "versions[0].version before_from",
			"versions[0].state unknown_value", "versions[0].approvedForProduction unknown_value",
		}},
	})
}

// Whatever steps are taken, a version for production was submitted and approved first, and a rejected one stays so.
func TestStepsOfAVersion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := events.TemplateVersion{Version: 1, State: events.TemplateDraft}
		var taken []policy.Step
		for _, step := range rapid.SliceOf(rapid.SampledFrom([]policy.Step{policy.Submit, policy.Approve, policy.Reject, policy.ApproveForProduction})).Draw(t, "steps") {
			next, ok := policy.Advance(v, step)
			if !ok && !cmp.Equal(next, v) {
				t.Fatalf("a refused step changed the version")
			}
			if v = next; ok {
				taken = append(taken, step)
			}
		}
		all := []policy.Step{policy.Submit, policy.Approve, policy.ApproveForProduction}
		rejected := []policy.Step{policy.Submit, policy.Reject}
		if !slices.Equal(taken, all[:min(len(taken), 3)]) && !slices.Equal(taken, rejected) {
			t.Fatalf("steps %v", taken)
		}
		if v.ApprovedForProduction != (len(taken) == 3) {
			t.Fatalf("%+v after %v", v, taken)
		}
	})
	if _, ok := policy.Advance(events.TemplateVersion{}, "fly"); ok {
		t.Error("an unknown step was taken")
	}
}

func TestUses(t *testing.T) {
	t.Parallel()
	c := world()
	define(c, events.KindPlatform, events.PlatformID, events.Platform{PlanID: "free"})
	for id, want := range map[string][]string{
		"tenant/acme": {"project", "key", "instance", "endpoint"}, "project/shop": {"key", "template"}, "instance/own": {"key"}, "endpoint/hook": {"key"},
		"plan/free": {"platform", "tenant"}, "project/rivals": nil, "project/office": {"endpoint"}, "instance/theirs": nil, "key/used": nil, "plan/none": nil,
	} {
		kind, name, _ := strings.Cut(id, "/")
		if diff := cmp.Diff(want, policy.Uses(c, kind, name)); diff != "" {
			t.Errorf("%s:\n%s", id, diff)
		}
	}
}

func TestFaultsAreOneError(t *testing.T) {
	t.Parallel()
	if err := (policy.Faults{}).Err(); err != nil {
		t.Error(err)
	}
	err := policy.Plan(nil, events.Plan{ID: "NOT-TO-BE-SEEN"}, nil).Err()
	if events.CodeOf(err) != events.CodeValidation || strings.Contains(err.Error(), "SEEN") || !strings.Contains(err.Error(), "id: token; name: required") {
		t.Errorf("%v", err)
	}
}
