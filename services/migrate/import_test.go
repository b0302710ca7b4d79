package migrate_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/apikey"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/streamtest"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/migrate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const digest = "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92"

// small is an export with one of each.
func small() fstest.MapFS {
	return files(map[string]string{
		"tenants.csv":   "\xef\xbb\xbfid,name\nt-1,\"One, and only\"\n",
		"projects.csv":  "id,tenantId,name,productionApproved,retentionDays\np-1,t-1,Shop,,30\n",
		"keys.ndjson":   `{"id":"k-1","tenantId":"t-1","projectId":"p-1","environment":"LIVE","name":"Key","sha256":"` + digest + `","secretIdHash":"` + digest + `","retentionDays":0,"revokedAt":null}` + "\n",
		"templates.csv": "id,tenantId,projectId,name,category,version,structure,state\ntpl-1,t-1,p-1,boas_vindas,UTILITY,1,\"Oi {{nome}}!\nTudo bem?\",submitted\n",
		"optins.csv":    "projectId,number,firstAt,lastAt\np-1,+5511988887777,2026-02-01T00:00:00Z,\np-1,551188887777,2026-01-01T00:00:00-03:00,2026-03-01T00:00:00Z\n",
	})
}

func files(texts map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range texts {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func bring(t *testing.T, l *streamtest.Log, dir fstest.MapFS) migrate.Report {
	t.Helper()
	r, err := migrate.Import(t.Context(), dir, l.Events, l.Keys, migrate.Options{By: "operator:test", Reason: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, l *streamtest.Log) *catalog.Catalog {
	t.Helper()
	c, err := migrate.Read(t.Context(), l.Events)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func one(r migrate.Report) migrate.Counts { return r.Counts }

func TestWhatIsRecorded(t *testing.T) {
	t.Parallel()
	l := streamtest.New(t, 1, eventlog.Options{})
	if got := bring(t, l, small()); got.Created != 5 || got.Rows != 6 {
		t.Fatalf("%+v", got)
	}
	c := read(t, l)
	tenant, _ := c.Tenant("t-1")
	project, _ := c.Project("p-1")
	key, _ := c.Key("k-1")
	tpl, _ := c.TemplateByID("tpl-1")
	if tenant.Name != "One, and only" {
		t.Errorf("%+v", tenant)
	}
	if project.ProductionApproved || project.RetentionDays != 30 {
		t.Errorf("%+v", project)
	}
	if key.SHA256 != digest || key.SecretIDHash != digest || key.RetentionDays == nil || *key.RetentionDays != 0 || !key.RevokedAt.IsZero() || key.CreatedAt.IsZero() {
		t.Errorf("%+v", key)
	}
	want := []events.TemplateVersion{{Version: 1, Structure: []byte(`{"body":{"text":"Oi {{nome}}!\nTudo bem?"}}`), State: events.TemplateSubmitted}}
	if diff := cmp.Diff(want, tpl.Versions); diff != "" {
		t.Error(diff)
	}
	all := c.OptIns("t-1")
	if len(all) != 1 || all[0].Source != events.SourceImport || !all[0].FirstAt.Equal(time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)) || all[0].LastAt.Month() != time.March {
		t.Errorf("%+v", all)
	}
	if got := bring(t, l, small()); one(got) != (migrate.Counts{Unchanged: 5}) {
		t.Errorf("again: %+v", got)
	}
}

// A key is found by what api derives from its raw form.
func TestPublicIDIsThatOfTheAPI(t *testing.T) {
	t.Parallel()
	if sum := apikey.Digest("123456"); api.ImportedPublicID("123456") != digest[:8] || sum[0] != 0x8d {
		t.Error(api.ImportedPublicID("123456"))
	}
}

func TestWhatWasDecidedHereStays(t *testing.T) {
	t.Parallel()
	l := streamtest.New(t, 1, eventlog.Options{})
	bring(t, l, small())
	c := read(t, l)
	ctx, author := t.Context(), control.Author{By: "operator:test"}
	tpl, _ := c.TemplateByID("tpl-1")
	tpl.Versions[0].State = events.TemplateApproved
	key, _ := c.Key("k-1")
	key.Scopes, key.RevokedAt = []string{events.ScopeSend}, time.Now().UTC()
	_, err := control.Define(ctx, l.Events, events.KindTemplate, tpl.ID, tpl, author, c.Version(events.KindTemplate, tpl.ID))
	if err == nil {
		_, err = control.Define(ctx, l.Events, events.KindKey, key.ID, key, author, c.Version(events.KindKey, key.ID))
	}
	in := c.OptIns("t-1")[0]
	if err == nil {
		_, err = control.Remove(ctx, l.Events, events.KindOptIn, in.ID, author, c.Version(events.KindOptIn, in.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := bring(t, l, small()); one(got) != (migrate.Counts{Unchanged: 5}) {
		t.Errorf("%+v", got)
	}
	if n := len(read(t, l).OptIns("t-1")); n != 0 {
		t.Errorf("%d opt-ins came back", n)
	}
	// What the old system says later moves things on.
	later := small()
	later["projects.csv"].Data = []byte("id,tenantId,name,productionApproved\np-1,t-1,Shop,true\n")
	later["templates.csv"].Data = []byte("id,tenantId,projectId,name,category,version,structure,state,approvedForProduction\n" +
		"tpl-1,t-1,p-1,boas_vindas,UTILITY,1,\"Oi {{nome}}!\nTudo bem?\",approved,t\ntpl-1,t-1,p-1,boas_vindas,UTILITY,2,Olá {{nome}}!,draft,\n")
	if got := bring(t, l, later); one(got) != (migrate.Counts{Updated: 2, Unchanged: 3}) {
		t.Errorf("%+v", got)
	}
	c = read(t, l)
	project, _ := c.Project("p-1")
	tpl, _ = c.TemplateByID("tpl-1")
	if !project.ProductionApproved || project.RetentionDays != 30 || len(tpl.Versions) != 2 || !tpl.Versions[0].ApprovedForProduction {
		t.Errorf("%+v %+v", project, tpl)
	}
}

func TestEveryFaultOfEveryFile(t *testing.T) {
	t.Parallel()
	l := streamtest.New(t, 1, eventlog.Options{})
	bad := files(map[string]string{
		"tenants.csv":  "id,name,timeZone\nt-1,One,\nt-1,Twice,\nT_2,Two,\nt-3,Three,Mars/Base\nt-4\n,No id,\n",
		"projects.csv": "id,tenantId,name,productionApproved,retentionDays\np-1,t-1,Shop,yes,30\np-2,t-1,Shop,,many\np-3,t-9,Shop,,1\np-4,t-1,Shop,,1\n",
		"keys.csv": "id,tenantId,projectId,environment,name,sha256,createdAt\nk-1,t-1,p-4,LIVE,Key,abc,\nk-2,t-1,p-4,PROD,Key," + digest + ",\n" +
			"k-3,t-1,p-4,LIVE,Key," + digest + ",yesterday\nk-4,t-1,p-4,LIVE,Key," + digest + ",\nk-5,t-1,p-4,LIVE,Key," + digest + ",\n",
		"templates.ndjson": `{"id":"tpl-1","tenantId":"t-1","projectId":"p-4","name":"a b","category":"NEWS","version":1,"structure":"x","state":"done"}` + "\n" +
			"not json\n" + `{"id":"tpl-2","tenantId":"t-1","projectId":"p-4","name":"b","category":"OTP","version":2,"structure":"x","state":"draft","colour":"SECRET"}` + "\n" +
			`{"id":"tpl-3","tenantId":"t-1","projectId":"p-4","name":"c","category":"OTP","version":1,"structure":{"body":{"text":"{{code}}"}},"state":"approved"}` + "\n",
		"optins.csv": "projectId,number,firstAt,lastAt\np-4,SECRET,2026-01-01T00:00:00Z,\np-4,+5511988887777,2026-01-02T00:00:00Z,2026-01-01T00:00:00Z\np-9,+5511988887777,2026-01-01T00:00:00Z,\n",
	})
	got := bring(t, l, bad)
	seen := map[migrate.Fault]bool{}
	for _, f := range got.Faults {
		seen[f] = true
		if strings.Contains(f.File+f.Field+f.Rule, "SECRET") {
			t.Errorf("a value is told: %+v", f)
		}
	}
	for _, want := range []migrate.Fault{
		{File: "tenants.csv", Line: 3, Field: "id", Rule: "twice"},
		{File: "tenants.csv", Line: 4, Field: "id", Rule: "token"},
		{File: "tenants.csv", Line: 5, Field: "timeZone", Rule: "time_zone"},
		{File: "tenants.csv", Line: 6, Rule: "line"},
		{File: "tenants.csv", Line: 7, Field: "id", Rule: "required"},
		{File: "projects.csv", Line: 2, Field: "productionApproved", Rule: "boolean"},
		{File: "projects.csv", Line: 3, Field: "retentionDays", Rule: "number"},
		{File: "projects.csv", Line: 4, Field: "tenantId", Rule: "unknown"},
		{File: "keys.csv", Line: 2, Field: "sha256", Rule: "form"},
		{File: "keys.csv", Line: 3, Field: "environment", Rule: "unknown_value"},
		{File: "keys.csv", Line: 4, Field: "createdAt", Rule: "date_time"},
		{File: "keys.csv", Line: 6, Field: "sha256", Rule: "taken"},
		{File: "templates.ndjson", Line: 1, Field: "name", Rule: "form"},
		{File: "templates.ndjson", Line: 1, Field: "category", Rule: "unknown_value"},
		{File: "templates.ndjson", Line: 1, Field: "state", Rule: "unknown_value"},
		{File: "templates.ndjson", Line: 2, Rule: "line"},
		{File: "templates.ndjson", Line: 3, Field: "member", Rule: "unknown_field"},
		{File: "templates.ndjson", Line: 3, Field: "version", Rule: "before_from"},
		{File: "templates.ndjson", Line: 4, Field: "structure.body.text", Rule: "starts_with_variable"},
		{File: "templates.ndjson", Line: 4, Field: "structure.body.text", Rule: "ends_with_variable"},
		{File: "optins.csv", Line: 2, Field: "number", Rule: "characters"},
		{File: "optins.csv", Line: 3, Field: "lastAt", Rule: "before_from"},
		{File: "optins.csv", Line: 4, Field: "projectId", Rule: "unknown"},
	} {
		if !seen[want] {
			t.Errorf("not told: %+v", want)
		}
		delete(seen, want)
	}
	for f := range seen {
		t.Errorf("told besides: %+v", f)
	}
	if got.Refused != 19 {
		t.Errorf("%d refused", got.Refused)
	}
	if c := read(t, l); c.Sequence != 0 {
		t.Errorf("CONTROL is at %d", c.Sequence)
	}
}

// meddler changes something else once, between two changes of an import.
type meddler struct {
	*eventlog.Log
	done atomic.Bool
}

func (m *meddler) AppendNext(ctx context.Context, ev events.Event, expected uint64) (uint64, error) {
	if expected == 2 && m.done.CompareAndSwap(false, true) {
		if _, err := control.Define(ctx, m.Log, events.KindTenant, "t-other", events.Tenant{ID: "t-other", Name: "Other"}, control.Author{By: "x"}, 0); err != nil {
			return 0, err
		}
	}
	return m.Log.AppendNext(ctx, ev, expected)
}

func TestOthersChangeSomethingMeanwhile(t *testing.T) {
	t.Parallel()
	l := streamtest.New(t, 1, eventlog.Options{})
	m := &meddler{Log: l.Events}
	r, err := migrate.Import(t.Context(), small(), m, l.Keys, migrate.Options{By: "operator:test"})
	if err != nil || r.Created != 5 || !m.done.Load() {
		t.Errorf("%+v, %v", r, err)
	}
	if c := read(t, l); c.Sequence != 6 || len(c.OptIns("t-1")) != 1 {
		t.Errorf("CONTROL is at %d", c.Sequence)
	}
}

func TestDirectoryThatIsNoExport(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]fstest.MapFS{
		"empty": files(nil),
		"both":  files(map[string]string{"tenants.csv": "id,name\n", "tenants.ndjson": ""}),
	} {
		if _, err := migrate.Import(t.Context(), dir, nil, nil, migrate.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := migrate.Import(t.Context(), small(), nil, nil, migrate.Options{}); err == nil {
		t.Error("opt-ins without a hasher: no error")
	}
}
