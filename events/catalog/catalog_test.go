package catalog

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// control is an event of CONTROL at seq; a nil value removes the entity.
func control[T any](seq uint64, kind, id string, value *T) events.Recorded {
	r := events.Recorded{Position: events.Position{Sequence: seq}, Known: true}
	r.Address = events.ControlSubject(kind, id)
	if value == nil {
		r.Type, r.Body = events.RemovedType(kind), &events.Removed{By: "operator"}
		return r
	}
	r.Type, r.Body = events.DefinedType(kind), &events.Defined[T]{By: "operator", Value: *value}
	return r
}

func template(seq uint64, id, project, name string) events.Recorded {
	return control(seq, events.KindTemplate, id, &events.Template{ID: id, ProjectID: project, Name: name})
}

func fold(log ...events.Recorded) *Catalog {
	c := New()
	for _, r := range log {
		c.Apply(r)
	}
	return c
}

func TestApplyAndRemove(t *testing.T) {
	t.Parallel()
	c := fold(
		control(1, events.KindDeployment, "self", &events.Deployment{Partitions: 4}),
		control(2, events.KindTenant, "t-1", &events.Tenant{ID: "t-1", Name: "One"}),
		control(3, events.KindProject, "p-1", &events.Project{ID: "p-1", TenantID: "t-1"}),
		control(4, events.KindKey, "k-1", &events.Key{ID: "k-1", PublicID: "Ab3dE6gH"}),
		template(5, "m-1", "p-1", "Welcome"),
		control(6, events.KindInstance, "i-1", &events.Instance{ID: "i-1", IngressHash: "ff"}),
		control(7, events.KindEndpoint, "e-1", &events.Endpoint{ID: "e-1", URL: "https://hooks.example"}),
	)
	if c.Sequence != 7 || c.Deployment.Partitions != 4 {
		t.Errorf("sequence %d, deployment %+v", c.Sequence, c.Deployment)
	}
	has := func(want bool) {
		t.Helper()
		for name, ok := range map[string]bool{
			"tenant": second(c.Tenant("t-1")), "project": second(c.Project("p-1")), "key": second(c.Key("k-1")),
			"key by public id": second(c.KeyByPublicID("Ab3dE6gH")), "template": second(c.Template("p-1", "m-1")),
			"template by name": second(c.Template("p-1", "wELCOME")), "template by id": second(c.TemplateByID("m-1")),
			"instance": second(c.Instance("i-1")), "instance by ingress": second(c.InstanceByIngress("ff")), "endpoint": second(c.Endpoint("e-1")),
		} {
			if ok != want {
				t.Errorf("%s: %v", name, ok)
			}
		}
	}
	has(true)
	for i, x := range [][2]string{
		{events.KindTenant, "t-1"},
		{events.KindProject, "p-1"},
		{events.KindKey, "k-1"},
		{events.KindTemplate, "m-1"},
		{events.KindInstance, "i-1"},
		{events.KindEndpoint, "e-1"},
	} {
		seq := uint64(10 + i)
		c.Apply(control[events.Tenant](seq, x[0], x[1], nil))
		if c.Version(x[0], x[1]) != seq {
			t.Errorf("version of %v: %d", x, c.Version(x[0], x[1]))
		}
	}
	has(false)
	c.Apply(template(5, "m-1", "p-1", "Welcome")) // an old event again
	if second(c.TemplateByID("m-1")) {
		t.Error("what was removed came back")
	}
	if c.Version(events.KindKey, "nobody") != 0 {
		t.Error("a version of what never was")
	}
}

func second[T any](_ T, ok bool) bool { return ok }

func TestWhatItDoesNotKnowChangesNothing(t *testing.T) {
	t.Parallel()
	c := fold(template(5, "m-1", "p-1", "welcome"))
	newer := template(9, "m-1", "p-1", "other")
	newer.Known, newer.Body = false, nil
	c.Apply(newer)
	headers := template(10, "m-1", "p-1", "other")
	headers.Partial, headers.Body = true, nil
	c.Apply(headers)
	elsewhere := template(11, "m-1", "p-1", "other")
	elsewhere.Address = "evt.1.a.dispatch.started"
	c.Apply(elsewhere)
	if got, ok := c.Template("p-1", "welcome"); !ok || got.Name != "welcome" || c.Version(events.KindTemplate, "m-1") != 5 {
		t.Errorf("%+v %v", got, ok)
	}
	if c.Sequence != 11 {
		t.Errorf("the catalog is as new as the log it has read: %d", c.Sequence)
	}
	c.Apply(control(12, "plan", "x", &events.Tenant{})) // a kind of a later version
	if second(c.Tenant("x")) && c.Version("plan", "x") == 0 {
		t.Error("lost")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	c := fold(template(1, "m-1", "p-1", "welcome"), template(2, "m-2", "p-2", "welcome"))
	for project, want := range map[string]string{"p-1": "m-1", "p-2": "m-2"} {
		if got, ok := c.Template(project, "WELCOME"); !ok || got.ID != want {
			t.Errorf("%s: %+v", project, got)
		}
	}
	if second(c.Template("p-1", "m-2")) || second(c.Template("p-3", "welcome")) {
		t.Error("a template of another project was found")
	}
	c.Apply(template(3, "m-1", "p-1", "hello"))
	if second(c.Template("p-1", "welcome")) || !second(c.Template("p-1", "hello")) {
		t.Error("the old name stayed, or the new one is missing")
	}
	c.Apply(template(4, "m-3", "p-1", "hello")) // two claim it: the last defined
	if got, _ := c.Template("p-1", "hello"); got.ID != "m-3" {
		t.Errorf("%+v", got)
	}
	c.Apply(template(5, "m-3", "p-1", "bye")) // and lets it go again
	if got, _ := c.Template("p-1", "hello"); got.ID != "m-1" {
		t.Errorf("%+v", got)
	}
	if second(c.InstanceByIngress("")) || second(fold(control(1, events.KindInstance, "i", &events.Instance{ID: "i"})).InstanceByIngress("")) {
		t.Error("an instance without an ingress was found by nothing")
	}
	if second(c.KeyByPublicID("nothing")) {
		t.Error("a key of nothing")
	}
}

func TestLatestApproved(t *testing.T) {
	t.Parallel()
	v := func(n int, state string, production bool) events.TemplateVersion {
		return events.TemplateVersion{Version: n, State: state, ApprovedForProduction: production}
	}
	tpl := events.Template{Versions: []events.TemplateVersion{
		v(2, events.TemplateApproved, true), v(1, events.TemplateApproved, true), v(3, events.TemplateApproved, false),
		v(4, events.TemplateSubmitted, true), v(5, events.TemplateRejected, true), v(6, events.TemplateDraft, true),
	}}
	if got, ok := LatestApproved(tpl, true); !ok || got.Version != 2 {
		t.Errorf("in production: %+v", got)
	}
	if got, ok := LatestApproved(tpl, false); !ok || got.Version != 4 { // what was submitted is approved by itself in TEST
		t.Errorf("for tests: %+v", got)
	}
	if _, ok := LatestApproved(events.Template{Versions: tpl.Versions[4:]}, false); ok {
		t.Error("nothing is approved")
	}
}

func TestInstances(t *testing.T) {
	t.Parallel()
	c := fold(
		control(1, events.KindInstance, "i-3", &events.Instance{ID: "i-3", Shared: true}),
		control(2, events.KindInstance, "i-1", &events.Instance{ID: "i-1"}),
		control(3, events.KindInstance, "i-2", &events.Instance{ID: "i-2", Shared: true}),
	)
	var ids []string
	for _, i := range c.Instances() {
		ids = append(ids, i.ID)
	}
	if diff := cmp.Diff([]string{"i-1", "i-2", "i-3"}, ids); diff != "" {
		t.Error(diff)
	}
	if got, ok := c.SharedInstance(); !ok || got.ID != "i-2" {
		t.Errorf("%+v", got)
	}
	if second(New().SharedInstance()) {
		t.Error("a shared instance of nothing")
	}
}

func TestSubscribers(t *testing.T) {
	t.Parallel()
	e := func(seq uint64, id, tenant string, env events.Environment, active bool, names ...string) events.Recorded {
		return control(seq, events.KindEndpoint, id, &events.Endpoint{ID: id, TenantID: tenant, Environment: env, Active: active, Events: names})
	}
	c := fold(
		e(1, "e-2", "t-1", events.Live, true, "*"), e(2, "e-1", "t-1", events.Live, true, events.CustomerMessageSent),
		e(3, "e-3", "t-1", events.Test, true, "*"), e(4, "e-4", "t-2", events.Live, true, "*"),
		control(12, events.KindEndpoint, "e-9", &events.Endpoint{
			ID: "e-9", TenantID: "t-1", Environment: events.Live, Events: []string{events.CustomerMessageRead}, Disabled: &events.EndpointDisabled{Reason: events.DisabledGone},
		}),
		e(5, "e-5", "t-1", events.Live, false, "*"), e(6, "e-6", "t-1", events.Live, true),
		control(10, events.KindEndpoint, "e-7", &events.Endpoint{ID: "e-7", TenantID: "t-1", ProjectID: "p-1", Environment: events.Live, Active: true, Events: []string{events.CustomerMessageFailed}}),
		control(11, events.KindEndpoint, "e-8", &events.Endpoint{ID: "e-8", TenantID: "t-1", ProjectID: "p-2", Environment: events.Live, Active: true, Events: []string{"*"}}),
		control(7, events.KindKey, "k-linked", &events.Key{ID: "k-linked", EndpointID: "e-1"}),
		control(8, events.KindKey, "k-free", &events.Key{ID: "k-free"}),
		control(9, events.KindKey, "k-foreign", &events.Key{ID: "k-foreign", EndpointID: "e-4"}),
	)
	for _, x := range []struct {
		key   string
		event string
		want  []string
	}{
		{"k-free", events.CustomerMessageSent, []string{"e-1", "e-2"}},
		{"k-free", events.CustomerMessageRead, []string{"e-2"}},
		{"k-gone", events.CustomerMessageRead, []string{"e-2"}},
		{"k-free", events.CustomerMessageFailed, []string{"e-2", "e-7"}},
		{"k-gone", events.CustomerMessageFailed, []string{"e-2", "e-7"}},
		{"k-linked", events.CustomerMessageSent, []string{"e-1"}},
		{"k-linked", events.CustomerMessageRead, nil},
		{"k-foreign", events.CustomerMessageRead, nil},
	} {
		var got []string
		for _, s := range c.Subscribers("t-1", "p-1", x.key, events.Live, x.event) {
			got = append(got, s.ID)
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s %s: %s", x.key, x.event, diff)
		}
	}
	if off := c.Disabled("t-1", "p-1", "k-free", events.Live, events.CustomerMessageRead); len(off) != 1 || off[0].ID != "e-9" {
		t.Errorf("switched off: %+v", off) // e-5 is so by its owner's word
	}
	if off := c.Disabled("t-1", "p-1", "k-free", events.Live, events.CustomerMessageSent); len(off) != 0 {
		t.Errorf("switched off, and never wanted it: %+v", off)
	}
}

// The catalog is a function of the set of events: order and repeats mean nothing, also where entities trade names.
func TestOrderOfArrivalMeansNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var log []events.Recorded
		ids, nameOf := []string{"a", "b", "c"}, rapid.SampledFrom([]string{"x", "y", "X"})
		for i := range rapid.IntRange(1, 12).Draw(t, "events") {
			seq, id := uint64(i+1), rapid.SampledFrom(ids).Draw(t, "id")
			name := nameOf.Draw(t, "name")
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 5:
				log = append(log, control(seq, events.KindDeployment, "self", &events.Deployment{Partitions: i}))
			case 0:
				log = append(log, control(seq, events.KindKey, id, &events.Key{ID: id, PublicID: name}))
			case 1:
				log = append(log, control(seq, events.KindInstance, id, &events.Instance{ID: id, IngressHash: name, Shared: true}))
			case 2:
				log = append(log, control[events.Tenant](seq, rapid.SampledFrom(events.ControlKinds()).Draw(t, "kind"),
					rapid.SampledFrom([]string{id, "self"}).Draw(t, "removed"), nil))
			default:
				log = append(log, template(seq, id, "p", name))
			}
		}
		want := fold(log...)
		arrivals := slices.Concat(log, rapid.SliceOf(rapid.SampledFrom(log)).Draw(t, "repeats"))
		got := fold(rapid.Permutation(arrivals).Draw(t, "arrival")...)
		if diff := cmp.Diff(contents(want), contents(got)); diff != "" {
			t.Fatal(diff)
		}
		for _, n := range []string{"x", "y"} {
			a, _ := want.Template("p", n)
			b, _ := got.Template("p", n)
			k, _ := want.KeyByPublicID(n)
			l, _ := got.KeyByPublicID(n)
			i, _ := want.InstanceByIngress(n)
			j, _ := got.InstanceByIngress(n)
			if a.ID != b.ID || k.ID != l.ID || i.ID != j.ID {
				t.Fatalf("%s is %q, %q, %q in one order and %q, %q, %q in another", n, a.ID, k.ID, i.ID, b.ID, l.ID, j.ID)
			}
		}
	})
}

// contents is all that a catalog holds, indexes included.
func contents(c *Catalog) map[string]any {
	out := map[string]any{"sequence": c.Sequence, "deployment": c.Deployment, "versions": c.seqs}
	for kind, t := range c.tables {
		out[kind] = t.(interface{ contents() any }).contents()
	}
	return out
}

func (s store[T]) contents() any {
	claims := make([]map[string][]string, len(s.indexes))
	for i, x := range s.indexes {
		claims[i] = map[string][]string{}
		for value, ids := range x.ids {
			claims[i][value] = slices.Sorted(slices.Values(ids))
		}
	}
	return []any{s.byID, claims}
}

// The windows of a plan, with what packages add; none without limits, and unknown when the plan is not there.
func TestWindows(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	c := fold(
		control(1, events.KindPlan, "free", &events.Plan{ID: "free", Month: 200, Day: 50, TestDay: 10}),
		control(2, events.KindTenant, "t-1", &events.Tenant{ID: "t-1", PlanID: "free"}),
		control(3, events.KindPackage, "p-1", &events.Package{ID: "p-1", TenantID: "t-1", Messages: 100, From: "2026-11", Until: "2026-11"}),
		control(4, events.KindPackage, "p-2", &events.Package{ID: "p-2", TenantID: "t-1", Messages: 1000, From: "2026-12"}),
		control(5, events.KindTenant, "t-2", &events.Tenant{ID: "t-2"}),
		control(6, events.KindTenant, "t-3", &events.Tenant{ID: "t-3", PlanID: "gone"}),
	)
	for _, x := range []struct {
		tenant  string
		env     events.Environment
		profile bool
		limits  []int
		ok      bool
	}{
		{"t-1", events.Live, false, []int{300, 50}, true},
		{"t-1", events.Test, false, []int{10}, true},
		{"t-1", events.Test, true, nil, true},
		{"t-2", events.Live, false, nil, true},
		{"t-3", events.Live, false, nil, false},
	} {
		ws, ok := c.Windows(x.tenant, x.env, x.profile, at, time.UTC)
		var limits []int
		for _, w := range ws {
			limits = append(limits, w.Limit)
		}
		if ok != x.ok || !slices.Equal(limits, x.limits) {
			t.Errorf("%+v: %v, %v", x, limits, ok)
		}
	}
}

// A tenant is among the suspended ones as long as it is.
func TestSuspendedTenants(t *testing.T) {
	t.Parallel()
	c := fold(
		control(1, events.KindTenant, "t-1", &events.Tenant{ID: "t-1", Suspended: true}),
		control(2, events.KindTenant, "t-2", &events.Tenant{ID: "t-2"}),
		control(3, events.KindTenant, "t-3", &events.Tenant{ID: "t-3", Suspended: true}),
	)
	names := func() (out []string) {
		for _, x := range c.SuspendedTenants() {
			out = append(out, x.ID)
		}
		return out
	}
	if got := names(); !slices.Equal(got, []string{"t-1", "t-3"}) {
		t.Errorf("suspended: %v", got)
	}
	c.Apply(control(4, events.KindTenant, "t-1", &events.Tenant{ID: "t-1"}))
	c.Apply(control[events.Tenant](5, events.KindTenant, "t-3", nil))
	if got := names(); len(got) > 0 {
		t.Errorf("suspended: %v", got)
	}
}

// An instance is moved by another gateway or name, also when it is removed between; not by its first definition or another change.
func TestMovedInstances(t *testing.T) {
	t.Parallel()
	c := New()
	at := func(seq uint64) time.Time { return time.Date(2026, 11, 30, 12, int(seq), 0, 0, time.UTC) }
	define := func(seq uint64, url, name string, paced bool) {
		rec := control(seq, events.KindInstance, "i", &events.Instance{ID: "i", GatewayURL: url, Name: name, Shared: paced})
		rec.Stored = at(seq)
		c.Apply(rec)
	}
	for i, step := range []struct {
		url, name string
		want      time.Time
	}{
		{"http://one", "a", time.Time{}},
		{"http://one/", "a", time.Time{}},
		{"http://two", "a", at(3)},
		{"http://two", "a", at(3)},
		{"", "", at(3)}, // removed
		{"http://two", "a", at(3)},
		{"http://two", "b", at(7)},
	} {
		seq := uint64(i + 1)
		if step.url == "" {
			c.Apply(control[events.Instance](seq, events.KindInstance, "i", nil))
		} else {
			define(seq, step.url, step.name, i%2 == 0)
		}
		if got := c.MovedAt("i"); !got.Equal(step.want) {
			t.Errorf("after step %d: moved at %s, want %s", seq, got, step.want)
		}
	}
}
