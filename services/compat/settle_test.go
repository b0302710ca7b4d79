package compat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/infra/apikey"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/demo"
)

// keys are what customers hold.
type keys struct {
	shared  string // LIVE, from the shared number
	own     string // LIVE, bound to the tenant's own number
	test    string // TEST
	old     string // LIVE, own number: made by the old system, in its form
	private string // LIVE, own number, retention 0
	other   string // LIVE, from the shared number, of another tenant
	draft   string // LIVE, of a project that is not approved for production
	away    string // LIVE, bound to a number that the gateway does not know
}

// Numbers that messages go to.
const (
	someone     = "+5511988887777"
	profile     = "+5521977776666" // the one that TEST may send to
	shortNumber = "5511988887777"  // someone, as those write it who leave the plus out
)

var author = control.Author{By: "operator:test", Reason: "compatibility"}

// settle brings the tenants: the first data of the demonstration, and around it what the clients need.
func (w *world) settle() {
	w.t.Helper()
	made, err := demo.Ensure(w.t.Context(), w.app.Control(), demo.Target{
		GatewayURL: w.sim.URL(), GatewayKey: w.sim.APIKey(), EndpointURL: w.hooks.url("plain", ""),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.keys = keys{shared: made.Live, own: made.Own, test: made.Test, old: "ps_" + random(24)}
	secret, err := demo.Secret(w.t.Context(), w.app.Control())
	if err != nil {
		w.t.Fatal(err)
	}
	w.hooks.secret = secret
	w.templates()
	w.otherKeys()
	w.endpoints()
	w.profileNumber()
}

// put defines an entity and waits until it is served.
func put[T any](w *world, kind, id string, value T) {
	w.t.Helper()
	var version uint64
	c := w.app.Control()
	c.Feed.Read(func(cat *catalog.Catalog) { version = cat.Version(kind, id) })
	seq, err := control.Define(w.t.Context(), c.Log, kind, id, value, author, version)
	if err == nil {
		err = c.Feed.Await(w.t.Context(), seq)
	}
	if err != nil {
		w.t.Fatalf("define %s %s: %v", kind, id, err)
	}
}

// templates are those that clients name in public code.
func (w *world) templates() {
	w.t.Helper()
	for name, text := range map[string]string{
		"generic_notification": "Aviso: {{message}} (automático)",
		"onboarding-test":      "Oi {{name}}, bem-vindo!",
		"boas_vindas":          "Olá {{nome}}, sua conta está pronta.",
		"plain-notice":         "Nothing to fill in here.",
	} {
		raw, err := json.Marshal(template.Structure{Body: template.Text{Text: text}})
		if err != nil {
			w.t.Fatal(err)
		}
		id := "tpl-" + hex.EncodeToString([]byte(name))[:12]
		put(w, events.KindTemplate, id, events.Template{
			ID: id, TenantID: demo.TenantID, ProjectID: demo.ProjectID, Name: name, Category: events.Utility,
			Versions: []events.TemplateVersion{{Version: 1, Structure: raw, State: events.TemplateApproved, ApprovedForProduction: true}},
		})
	}
}

// endpoints are the receivers of the clients, each at its URL.
func (w *world) endpoints() {
	w.t.Helper()
	for id, e := range map[string]events.Endpoint{
		"hook-c1":    {URL: w.hooks.url("c1", ""), Events: []string{"*"}},
		"hook-c2":    {URL: w.hooks.url("c2", ""), Events: []string{"*"}},
		"hook-c3":    {URL: w.hooks.url("c3", c3Query), Events: []string{"*"}},
		"hook-c5":    {URL: w.hooks.url("c5", ""), Events: []string{"*"}},
		"hook-none":  {URL: w.hooks.url("none", ""), Events: []string{}},
		"hook-away":  {TenantID: "other", URL: w.hooks.url("away", ""), Events: []string{"*"}},
		"hook-flaky": {URL: w.hooks.url("flaky", ""), Events: []string{events.CustomerMessageRead}},
	} {
		secret, err := w.app.Control().Secrets.Seal(w.t.Context(), id, []byte(w.hooks.secret))
		if err != nil {
			w.t.Fatal(err)
		}
		if e.TenantID == "" {
			e.TenantID = demo.TenantID
		}
		e.ID, e.Name, e.Environment, e.Active = id, id, events.Live, true
		e.Secrets, e.CreatedAt = []events.Sealed{secret}, time.Now().UTC()
		put(w, events.KindEndpoint, id, e)
	}
}

func (w *world) otherKeys() {
	w.t.Helper()
	none := 0
	w.keys.private = w.key("key-private", events.Key{TenantID: demo.TenantID, ProjectID: demo.ProjectID, InstanceID: demo.OwnInstanceID, RetentionDays: &none}, "")
	w.key("key-old", events.Key{TenantID: demo.TenantID, ProjectID: demo.ProjectID, InstanceID: demo.OwnInstanceID}, w.keys.old)

	put(w, events.KindProject, "acme-draft", events.Project{ID: "acme-draft", TenantID: demo.TenantID, Name: "Draft", RetentionDays: 30})
	w.keys.draft = w.key("key-draft", events.Key{TenantID: demo.TenantID, ProjectID: "acme-draft"}, "")

	put(w, events.KindTenant, "other", events.Tenant{ID: "other", Name: "Other"})
	put(w, events.KindProject, "other-shop", events.Project{ID: "other-shop", TenantID: "other", Name: "Shop", ProductionApproved: true, RetentionDays: 30})
	raw := json.RawMessage(`{"body":{"text":"Your code is {{code}}."}}`)
	put(w, events.KindTemplate, "tpl-other", events.Template{
		ID: "tpl-other", TenantID: "other", ProjectID: "other-shop", Name: "code", Category: events.OTP,
		Versions: []events.TemplateVersion{{Version: 1, Structure: raw, State: events.TemplateApproved, ApprovedForProduction: true}},
	})
	w.keys.other = w.key("key-other", events.Key{TenantID: "other", ProjectID: "other-shop"}, "")

	sealed, err := w.app.Control().Secrets.Seal(w.t.Context(), "other-1", []byte(w.sim.APIKey()))
	if err != nil {
		w.t.Fatal(err)
	}
	in, err := w.app.Control().Secrets.SealIngress(w.t.Context(), events.Instance{
		ID: "other-1", TenantID: "other", Name: "nobody", DisplayName: "Away", Number: "5511900000003", GatewayURL: w.sim.URL(), GatewayKey: sealed,
		Concurrency: 1, MaxConcurrency: 1,
	}, control.Ingress{IngressSecret: events.IngressSecret{Token: random(24), Secret: random(24)}})
	if err != nil {
		w.t.Fatal(err)
	}
	put(w, events.KindInstance, in.ID, in)
	w.keys.away = w.key("key-away", events.Key{TenantID: "other", ProjectID: "other-shop", InstanceID: in.ID}, "")
}

// key records a LIVE key and gives its raw form, which is made when none is given.
func (w *world) key(id string, k events.Key, raw string) string {
	w.t.Helper()
	k.ID, k.Name, k.Environment, k.CreatedAt = id, id, events.Live, time.Now().UTC()
	if raw == "" {
		raw = "ps_live_" + random(4) + "_" + random(20) // of the form of the old system
	}
	digest := apikey.Digest(raw)
	k.PublicID, k.SHA256 = api.ImportedPublicID(raw), hex.EncodeToString(digest[:])
	put(w, events.KindKey, id, k)
	return raw
}

// profileNumber names the destination of TEST, through the operators' routes: numbers are hashed there.
func (w *world) profileNumber() {
	w.t.Helper()
	raw := "ps_oper_" + random(4) + "_" + random(20)
	sum := sha256.Sum256([]byte(raw))
	put(w, events.KindOperator, "test", events.Operator{
		ID: "test", Name: "test", PublicID: raw[8:16], SHA256: hex.EncodeToString(sum[:]), Scopes: events.OperatorScopes(), CreatedAt: time.Now().UTC(),
	})
	a := w.call(w.t, request{
		method: http.MethodPost, url: w.app.URLs().Admin + "/v1/admin/tenants/" + demo.TenantID + "/profile-numbers", key: raw,
		header: map[string]string{"X-Reason": "compatibility"}, body: map[string]any{"number": profile},
	})
	if a.status != http.StatusCreated {
		w.t.Fatalf("profile number: %d %s", a.status, a.raw)
	}
}
