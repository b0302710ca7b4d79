package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/apicall"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/migrate"
)

// A made-up export of three tenants and a thousand opt-ins comes in, once; then customers send with the keys they have.
func TestImportThenSendWithAnImportedKey(t *testing.T) {
	a := importing(t)
	before := lastOfControl(t, a)
	do := func(args ...string) migrate.Report {
		t.Helper()
		out, err := run(t, append([]string{
			"admin", "import", "testdata/import", "--nats-url", a.URLs().NATS, "--master-key-file", a.Master, "--by", "operator:test",
		}, args...)...)
		if err != nil {
			t.Fatalf("import: %v\n%s", err, out)
		}
		var r migrate.Report
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	const all = 3 + 4 + 4 + 3 + 1000
	if r := do("--dry-run"); !r.DryRun || r.Rows != all+1 || r.Created != all || lastOfControl(t, a) != before {
		t.Errorf("dry run: %+v, CONTROL from %d to %d", r, before, lastOfControl(t, a))
	}
	if r := do(); r.Created != all || r.Updated+r.Unchanged+r.Refused != 0 || r.Kinds[events.KindOptIn].Created != 1000 {
		t.Errorf("first: %+v", r)
	}
	after := lastOfControl(t, a)
	if r := do(); r.Unchanged != all || r.Created+r.Updated+r.Refused != 0 || after != before+all || lastOfControl(t, a) != after {
		t.Errorf("second: %+v, CONTROL from %d over %d to %d", r, before, after, lastOfControl(t, a))
	}
	if err := a.Control().Feed.Await(t.Context(), after); err != nil {
		t.Fatal(err)
	}

	sol, vida := "ps_live_sol00001exampleexample", "ps_vida0003exampleexampleexample"
	notice := map[string]any{"templateId": "generic_notification", "variables": map[string]any{"message": "oi"}}
	for name, c := range map[string]struct {
		key, number string
		body        map[string]any
		status      int
		code        string
	}{
		"opted in":                 {sol, "+5511988887777", notice, 202, ""},
		"without the ninth digit":  {sol, "551188887777", notice, 202, ""},
		"not opted in":             {sol, "+5511988880000", notice, 403, "OPT_IN_REQUIRED"},
		"OTP without opt-in":       {sol, "+5511988880000", map[string]any{"templateId": "cm5codigo000002", "variables": map[string]any{"code": "1"}}, 202, ""},
		"key without a prefix":     {vida, optedIn(t, "vida-agenda"), map[string]any{"templateId": "lembrete-consulta", "variables": map[string]any{"nome": "Ana"}}, 202, ""},
		"another tenant's":         {vida, "+5511988887777", notice, 404, "TEMPLATE_NOT_FOUND"},
		"revoked":                  {"ps_live_corp0004exampleexample", "+5511988887777", notice, 401, "UNAUTHORIZED"},
		"never seen":               {"ps_live_sol00001exampleexamplf", "+5511988887777", notice, 401, "UNAUTHORIZED"},
		"TEST, not in the profile": {"ps_test_sol00002exampleexample", "+5511988887777", notice, 403, "DESTINATION_NOT_ALLOWED_IN_TEST"},
	} {
		body := map[string]any{"destinationNumber": c.number}
		for k, v := range c.body {
			body[k] = v
		}
		status, raw, err := apicall.Do(t.Context(), http.DefaultClient, http.MethodPost, a.URLs().API+"/v1/messages/send", c.key, body)
		var out struct{ Code, ID string }
		if err == nil {
			err = json.Unmarshal(raw, &out)
		}
		if err != nil || status != c.status || out.Code != c.code || (status == 202) != (out.ID != "") {
			t.Errorf("%s: %d %s, %v", name, status, raw, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if text := controlText(t, a); strings.Contains(text, "988887777") || strings.Contains(text, "188887777") {
		t.Error("a number is in CONTROL in clear")
	}
}

// A row that cannot be taken keeps all others out, and is named without a value of it.
func TestImportRefusesAsAWhole(t *testing.T) {
	a := importing(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/import")); err != nil {
		t.Fatal(err)
	}
	line := "vida-agenda,11-98888-SECRET,2026-01-01T00:00:00Z,\n"
	f, err := os.OpenFile(dir+"/optins.csv", os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(line)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	before := lastOfControl(t, a)
	out, err := run(t, "admin", "import", dir, "--nats-url", a.URLs().NATS, "--master-key-file", a.Master)
	if err == nil || !strings.Contains(err.Error(), "1 rows were refused") || strings.Contains(out+err.Error(), "SECRET") {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.HasPrefix(out, `{"file":"optins.csv","line":1002,"field":"number","rule":"`) || lastOfControl(t, a) != before {
		t.Errorf("CONTROL from %d to %d\n%s", before, lastOfControl(t, a), out)
	}
	// A hash under another master key would fit nothing.
	other := t.TempDir() + "/other.key"
	if _, err := keyring.CreateMaster(other); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "admin", "import", "testdata/import", "--nats-url", a.URLs().NATS, "--master-key-file", other); err == nil || lastOfControl(t, a) != before {
		t.Errorf("with another master key: %v\n%s", err, out)
	}
}

// importee is a deployment without tenants.
type importee struct {
	*app.App
	Master string
}

// importing starts a log and an API, with a shared number, and asks for opt-ins.
func importing(t *testing.T) importee {
	t.Helper()
	cfg, err := app.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(t.TempDir())
	cfg.NATSSync, cfg.Partitions = "default", 1
	cfg.PostgresURL = (&url.URL{Scheme: "postgres", Host: "127.0.0.1:1", Path: "none"}).String() // sends do without
	a, err := app.Start(t.Context(), cfg, []app.Role{app.RoleAPI}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		bounded, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.Stop(bounded); err != nil {
			t.Error(err)
		}
	})
	c, author := a.Control(), control.Author{By: "operator:test"}
	sealed, err := c.Secrets.Seal(t.Context(), "shared-1", []byte("gateway key"))
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.Secrets.SealIngress(t.Context(), events.Instance{
		ID: "shared-1", TenantID: events.PlatformTenant, Shared: true, Name: "shared", DisplayName: "Pilot", Number: "5511900000001",
		GatewayURL: "http://127.0.0.1:1", GatewayKey: sealed, Concurrency: 1, MaxConcurrency: 1,
	}, control.Ingress{IngressSecret: events.IngressSecret{Token: "token", Secret: "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Define(t.Context(), c.Log, events.KindInstance, in.ID, in, author, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Define(t.Context(), c.Log, events.KindPlatform, events.PlatformID, events.Platform{OptInRequired: true}, author, 0); err != nil {
		t.Fatal(err)
	}
	return importee{a, cfg.MasterKeyPath()}
}

func lastOfControl(t *testing.T, a importee) uint64 {
	t.Helper()
	last, err := a.Events().LastSequence(t.Context(), events.StreamControl)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// controlText is all of CONTROL as text.
func controlText(t *testing.T, a importee) string {
	t.Helper()
	var text strings.Builder
	err := a.Events().Tail(t.Context(), eventlog.TailConfig{Stream: events.StreamControl, From: 1}, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			raw, err := json.Marshal(rec.Body)
			if err != nil {
				return err
			}
			text.Write(raw)
		}
		if b.CaughtUp {
			return context.Canceled
		}
		return nil
	})
	if text.Len() == 0 {
		t.Fatal(err)
	}
	return text.String()
}

// optedIn is a number of the export that opted in to a project.
func optedIn(t *testing.T, project string) string {
	t.Helper()
	f, err := os.Open("testdata/import/optins.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r[0] == project {
			return r[1]
		}
	}
	t.Fatal("nobody")
	return ""
}
