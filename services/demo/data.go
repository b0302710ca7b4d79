// Package demo brings first data to an empty deployment and plays one round of messages through it: what `make demo` and
// `pilot up --demo` show.
package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/infra/apikey"
	"pilotstatus.dev/services/control"
)

// Ids of the first data.
const (
	TenantID         = "acme"
	ProjectID        = "acme-shop"
	LiveKeyID        = "key-acme-live"
	TestKeyID        = "key-acme-test"
	OwnKeyID         = "key-acme-own"
	SharedInstanceID = "shared-1"
	OwnInstanceID    = "acme-1"
	EndpointID       = "hook-acme"
	SharedName       = "pilot-shared" // at the gateway
	OwnName          = "acme"
	SharedNumber     = "5511900000001"
	OwnNumber        = "5511900000002"
	TemplateOTP      = "login-code"
	TemplateUtility  = "order-ready"
	TemplateMarket   = "spring-sale"
)

// Target is where the first data points: the gateway and the customer's endpoint.
type Target struct {
	GatewayURL  string
	GatewayKey  string
	EndpointURL string
}

// Keys are the raw API keys, known only when they were just made.
type Keys struct {
	Test, Live, Own string // Own is a LIVE key bound to the tenant's own instance
	Secret          string // of the endpoint
}

// Control is what first data is written with.
type Control struct {
	Log     control.Appender
	Feed    *control.Feed
	Secrets control.Secrets
}

var author = control.Author{By: "operator:demo", Reason: "first data"}

// Ensure defines what is missing, through the same events the admin API uses, and moves instances and endpoint to the target.
// Keys is non-nil when the keys were made now; they cannot be read again.
func Ensure(ctx context.Context, c Control, t Target) (*Keys, error) {
	var keys *Keys
	w := writer{ctx: ctx, c: c}
	w.missing(events.KindTenant, TenantID, func(version uint64) {
		define(&w, events.KindTenant, TenantID, events.Tenant{ID: TenantID, Name: "Acme", TimeZone: "America/Sao_Paulo"}, version)
	})
	w.missing(events.KindProject, ProjectID, func(version uint64) {
		define(&w, events.KindProject, ProjectID, events.Project{
			ID: ProjectID, TenantID: TenantID, Name: "Acme shop", ProductionApproved: true, RetentionDays: 30,
		}, version)
	})
	for _, tpl := range templates() {
		w.missing(events.KindTemplate, tpl.ID, func(version uint64) { define(&w, events.KindTemplate, tpl.ID, tpl, version) })
	}
	noTyping := false // as the pace: a demonstration is fast
	w.instance(SharedInstanceID, t, events.Instance{
		TenantID: events.PlatformTenant, Shared: true, Typing: &noTyping, Name: SharedName, DisplayName: "Pilot", Number: SharedNumber,
	})
	w.instance(OwnInstanceID, t, events.Instance{TenantID: TenantID, Name: OwnName, DisplayName: "Acme", Number: OwnNumber})
	w.missing(events.KindKey, LiveKeyID, func(uint64) {
		keys = &Keys{}
		keys.Live = w.key(LiveKeyID, events.Live, "")
		keys.Test = w.key(TestKeyID, events.Test, "")
		keys.Own = w.key(OwnKeyID, events.Live, OwnInstanceID)
	})
	secret := w.endpoint(t)
	if keys != nil {
		keys.Secret = secret
	}
	if w.err == nil && w.last > 0 {
		w.err = c.Feed.Await(ctx, w.last)
	}
	if w.err != nil {
		return nil, fmt.Errorf("write first data: %w", w.err)
	}
	return keys, nil
}

// writer keeps the first error; after it nothing is written.
type writer struct {
	ctx  context.Context
	c    Control
	last uint64
	err  error
}

func (w *writer) version(kind, id string) (v uint64, exists bool) {
	w.c.Feed.Read(func(cat *catalog.Catalog) {
		v = cat.Version(kind, id)
		switch kind {
		case events.KindTenant:
			_, exists = cat.Tenant(id)
		case events.KindProject:
			_, exists = cat.Project(id)
		case events.KindKey:
			_, exists = cat.Key(id)
		case events.KindTemplate:
			_, exists = cat.TemplateByID(id)
		case events.KindInstance:
			_, exists = cat.Instance(id)
		case events.KindEndpoint:
			_, exists = cat.Endpoint(id)
		}
	})
	return v, exists
}

func (w *writer) missing(kind, id string, create func(version uint64)) {
	if v, exists := w.version(kind, id); !exists && w.err == nil {
		create(v)
	}
}

func define[T any](w *writer, kind, id string, value T, version uint64) {
	if w.err != nil {
		return
	}
	w.last, w.err = control.Define(w.ctx, w.c.Log, kind, id, value, author, version)
}

// instance defines an instance, or moves it to the target's gateway.
func (w *writer) instance(id string, t Target, inst events.Instance) {
	var have events.Instance
	version, exists := w.version(events.KindInstance, id)
	w.c.Feed.Read(func(cat *catalog.Catalog) { have, _ = cat.Instance(id) })
	if w.err != nil || (exists && have.GatewayURL == t.GatewayURL) {
		return
	}
	inst.ID, inst.GatewayURL, inst.Concurrency, inst.MaxConcurrency = id, t.GatewayURL, 1, 1
	inst.Pace = events.Pace{RatePerMinute: 1200, Burst: 1} // a demonstration is fast; a human-like pace is a setting
	if inst, w.err = w.c.Secrets.SealNew(w.ctx, inst, t.GatewayKey); w.err != nil {
		return
	}
	define(w, events.KindInstance, id, inst, version)
}

func (w *writer) key(id string, env events.Environment, instance string) string {
	if w.err != nil {
		return ""
	}
	k, raw, err := control.NewKey(events.Key{ID: id, TenantID: TenantID, ProjectID: ProjectID, Environment: env, Name: id, InstanceID: instance})
	if err != nil {
		w.err = err
		return ""
	}
	version, _ := w.version(events.KindKey, id)
	define(w, events.KindKey, id, k, version)
	return raw
}

// endpoint defines the endpoint, or moves it to the target. The secret is known only when it was made now.
func (w *writer) endpoint(t Target) string {
	var have events.Endpoint
	version, exists := w.version(events.KindEndpoint, EndpointID)
	w.c.Feed.Read(func(cat *catalog.Catalog) { have, _ = cat.Endpoint(EndpointID) })
	if w.err != nil || (exists && have.URL == t.EndpointURL) {
		return ""
	}
	secret, err := apikey.WebhookSecret(rand.Reader, 32)
	if err != nil {
		w.err = err
		return ""
	}
	sealed, err := w.c.Secrets.Seal(w.ctx, EndpointID, []byte(secret))
	if err != nil {
		w.err = err
		return ""
	}
	define(w, events.KindEndpoint, EndpointID, events.Endpoint{
		ID: EndpointID, TenantID: TenantID, Name: "Acme", URL: t.EndpointURL, Environment: events.Live, Active: true,
		Events: []string{"*"}, Secrets: []events.Sealed{sealed}, CreatedAt: time.Now().UTC(),
	}, version)
	return secret
}

// Secret reads the endpoint's newest secret: the demonstration plays the customer too.
func Secret(ctx context.Context, c Control) (string, error) {
	var e events.Endpoint
	c.Feed.Read(func(cat *catalog.Catalog) { e, _ = cat.Endpoint(EndpointID) })
	if len(e.Secrets) == 0 {
		return "", errors.New("the demonstration's endpoint has no secret")
	}
	raw, err := c.Secrets.Open(ctx, EndpointID, e.Secrets[0])
	return string(raw), err
}

func templates() []events.Template {
	made := func(id string, c events.Category, s template.Structure) events.Template {
		raw, err := json.Marshal(s)
		if err != nil {
			panic("demo: a template does not encode: " + err.Error())
		}
		return events.Template{
			ID: "tpl-" + id, TenantID: TenantID, ProjectID: ProjectID, Name: id, Category: c,
			Versions: []events.TemplateVersion{{Version: 1, Structure: raw, State: events.TemplateApproved, ApprovedForProduction: true}},
		}
	}
	return []events.Template{
		made(TemplateOTP, events.OTP, template.Structure{Body: template.Text{Text: "Your Acme code is {{code}}. It is valid for two minutes."}}),
		made(TemplateUtility, events.Utility, template.Structure{
			Header: &template.Text{Text: "Order {{order}}"}, Body: template.Text{Text: "Hello {{name}}, your order is ready."},
			Footer:  &template.Text{Text: "Acme"},
			Buttons: []template.Button{{Type: template.QuickReply, Text: "On my way"}, {Type: template.QuickReply, Text: "Tomorrow"}},
		}),
		made(TemplateMarket, events.Marketing, template.Structure{Body: template.Text{Text: "Hi {{name}}, spring sale: 20 % off everything this week."}}),
	}
}
