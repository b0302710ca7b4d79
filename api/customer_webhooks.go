package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// Webhook is an endpoint as customers see it.
type Webhook struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID                  string       `json:"id" example:"end-8d1f0a9b8c7d6e5f"`
	TenantID            string       `json:"tenantId"`
	ProjectID           *string      `json:"projectId" doc:"Whose messages it hears of; null for those of every project of the account."`
	Name                string       `json:"name"`
	URL                 string       `json:"url" example:"https://example.com/hooks?token=t"`
	Environment         string       `json:"environment" enum:"TEST,LIVE"`
	Active              bool         `json:"active"`
	Events              []string     `json:"events" nullable:"false"`
	DisabledAt          *string      `json:"disabledAt" format:"date-time" doc:"When it was switched off by itself; null while it is on, or when you paused it. active: true switches it on again."`
	DisabledReason      *string      `json:"disabledReason" example:"failing" doc:"gone: it answered 410. failing: too many deliveries in a row ended without success."`
	APIKeys             []WebhookKey `json:"apiKeys" nullable:"false" doc:"Keys whose messages it alone hears of."`
	LastTriggered       *string      `json:"lastTriggered" format:"date-time" doc:"The newest try to tell it; null when there was none in 30 days, or when that cannot be looked up right now."`
	WhatsappNumberIDs   []string     `json:"whatsappNumberIds" nullable:"false" doc:"Always empty: it hears of every number."`
	WhatsappInstanceIDs []string     `json:"whatsappInstanceIds" nullable:"false" doc:"Always empty."`
	CreatedAt           string       `json:"createdAt" format:"date-time"`
	UpdatedAt           string       `json:"updatedAt" format:"date-time"`
}

// WebhookKey is a key that is linked to a webhook.
type WebhookKey struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID        string `json:"id"`
	Name      string `json:"name"`
	KeyPrefix string `json:"keyPrefix" example:"ps_live_ab12cd34"`
}

// WebhookWithSecret is a webhook with a secret that was just made; it is shown this once.
type WebhookWithSecret struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Webhook
	Secret string `json:"secret" example:"whsec_…" doc:"Signs every delivery (Standard Webhooks). It cannot be shown again."`
}

// WebhookSettings are what customers set of a webhook. What is absent or null stays as it is, or has its default.
type WebhookSettings struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Name                *string  `json:"name,omitempty" doc:"The host of the URL when absent."`
	URL                 *string  `json:"url,omitempty" doc:"https, port 443, on the public internet. Used as it is, with its query."`
	Active              *bool    `json:"active,omitempty" doc:"true when absent."`
	Events              []string `json:"events,omitempty" doc:"message.sent, message.delivered, message.read, message.failed; * is all, empty is none. A list replaces the one before."`
	WhatsappNumberIDs   []string `json:"whatsappNumberIds,omitempty" doc:"Empty only: a webhook hears of every number."`
	WhatsappInstanceIDs []string `json:"whatsappInstanceIds,omitempty" doc:"Empty only."`
}

// lookUpTriggered bounds looking for the newest tries: what is asked for is there without.
const lookUpTriggered = time.Second

// onWebhooks tells whether a key may see an endpoint: one of its project and environment, or one of the whole account when the
// account has no other project.
func onWebhooks(c *catalog.Catalog, k events.Key, e events.Endpoint) bool {
	if e.TenantID != k.TenantID || e.Environment != k.Environment {
		return false
	}
	return e.ProjectID == k.ProjectID || e.ProjectID == "" && len(c.Projects(k.TenantID)) == 1
}

func errNoWebhook() error {
	return events.Errorf(CodeWebhookNotFound, "There is no webhook of this id.")
}

// webhook gives an endpoint that a key may see.
func (a *API) webhook(k events.Key, id string) (e events.Endpoint, err error) {
	found := false
	a.ports.Catalog.Read(func(c *catalog.Catalog) {
		e, found = c.Endpoint(id)
		found = found && onWebhooks(c, k, e)
	})
	if !found {
		return events.Endpoint{}, errNoWebhook()
	}
	return e, nil
}

// viewWebhooks shows endpoints to a key that may see them.
func (a *API) viewWebhooks(ctx context.Context, k events.Key, all []events.Endpoint) []Webhook {
	out := make([]Webhook, len(all))
	a.ports.Catalog.Read(func(c *catalog.Catalog) {
		for i, e := range all {
			w := Webhook{
				ID: e.ID, TenantID: e.TenantID, ProjectID: orNull(e.ProjectID), Name: e.Name, URL: e.URL, Environment: string(e.Environment),
				Active: e.Active, Events: append([]string{}, e.Events...), APIKeys: []WebhookKey{}, WhatsappNumberIDs: []string{},
				WhatsappInstanceIDs: []string{}, CreatedAt: stamp(e.CreatedAt), UpdatedAt: stamp(e.CreatedAt),
			}
			if e.Disabled != nil {
				w.DisabledAt, w.DisabledReason = stampOrNull(e.Disabled.At), orNull(e.Disabled.Reason)
			}
			if at := c.EndpointChanged(e.ID); !at.IsZero() {
				w.UpdatedAt = stamp(at)
			}
			for _, linked := range c.Keys(k.TenantID) {
				if linked.EndpointID == e.ID && sameScope(linked, k) {
					w.APIKeys = append(w.APIKeys, WebhookKey{ID: linked.ID, Name: linked.Name, KeyPrefix: viewKey(linked).Prefix})
				}
			}
			out[i] = w
		}
	})
	ctx, cancel := context.WithTimeout(ctx, lookUpTriggered)
	defer cancel()
	for i, e := range all {
		tries, err := a.ports.Reads.Deliveries.Deliveries(ctx, e.TenantID, e.ID, 0, 1)
		if err != nil {
			break
		}
		for _, d := range tries {
			out[i].LastTriggered = stampOrNull(d.At)
		}
	}
	return out
}

func (a *API) viewWebhook(ctx context.Context, k events.Key, e events.Endpoint) Webhook {
	return a.viewWebhooks(ctx, k, []events.Endpoint{e})[0]
}

func sameScope(a, b events.Key) bool {
	return a.TenantID == b.TenantID && a.ProjectID == b.ProjectID && a.Environment == b.Environment
}

// apply takes what was set over into an endpoint.
func (s WebhookSettings) apply(e *events.Endpoint) {
	if s.Name != nil {
		e.Name = *s.Name
	}
	if s.URL != nil {
		e.URL = *s.URL
	}
	if s.Active != nil {
		*e = e.Switched(*s.Active)
	}
	if s.Events != nil {
		e.Events = slices.Clone(s.Events)
	}
}

// faults are those that the rules of endpoints do not know.
func (s WebhookSettings) faults() error {
	var f faults
	if len(s.WhatsappNumberIDs) > 0 {
		f = append(f, events.FieldError{Field: "whatsappNumberIds", Rule: ruleTooMany})
	}
	if len(s.WhatsappInstanceIDs) > 0 {
		f = append(f, events.FieldError{Field: "whatsappInstanceIds", Rule: ruleTooMany})
	}
	return f.err()
}

func (a *API) registerWebhooks() {
	const path, one, tag, scope = "/v1/webhooks", "/v1/webhooks/{id}", "webhooks", events.ScopeWebhooks
	list := a.customerOperation(http.MethodGet, path, "listWebhooks", "List webhooks", tag, scope)
	huma.Register(a.huma, list, func(ctx context.Context, _ *struct{}) (*listed[Webhook], error) {
		caller, _ := callerOf(ctx)
		var all []events.Endpoint
		a.ports.Catalog.Read(func(c *catalog.Catalog) {
			all = slices.DeleteFunc(c.EndpointsOf(caller.Key.TenantID), func(e events.Endpoint) bool { return !onWebhooks(c, caller.Key, e) })
		})
		return &listed[Webhook]{Body: a.viewWebhooks(ctx, caller.Key, all)}, nil
	})
	create := a.customerOperation(http.MethodPost, path, "createWebhook", "Create a webhook", tag, scope)
	create.DefaultStatus = http.StatusCreated
	create.Description = "It hears of the messages of the key's project and environment. The answer shows its signing secret this once."
	huma.Register(a.huma, create, a.createWebhook)
	get := a.customerOperation(http.MethodGet, one, "getWebhook", "Read a webhook", tag, scope, CodeWebhookNotFound)
	huma.Register(a.huma, get, func(ctx context.Context, in *pathInput) (*bodyOf[Webhook], error) {
		caller, _ := callerOf(ctx)
		e, err := a.webhook(caller.Key, in.ID)
		if err != nil {
			return nil, err
		}
		return &bodyOf[Webhook]{Body: a.viewWebhook(ctx, caller.Key, e)}, nil
	})
	change := a.customerOperation(http.MethodPatch, one, "changeWebhook", "Change a webhook", tag, scope, CodeWebhookNotFound)
	change.Description = "What is absent stays as it is; active: false pauses it."
	huma.Register(a.huma, change, func(ctx context.Context, in *changeInput[WebhookSettings]) (*bodyOf[Webhook], error) {
		if err := in.Body.faults(); err != nil {
			return nil, err
		}
		e, caller, err := a.changeWebhook(ctx, in.ID, in.Body.apply)
		if err != nil {
			return nil, err
		}
		return &bodyOf[Webhook]{Body: a.viewWebhook(ctx, caller.Key, e)}, nil
	})
	remove := a.customerOperation(http.MethodDelete, one, "deleteWebhook", "Delete a webhook", tag, scope, CodeWebhookNotFound, CodeInUse)
	huma.Register(a.huma, remove, func(ctx context.Context, in *pathInput) (*bodyOf[Deleted], error) {
		caller, by := callerOf(ctx)
		if _, err := a.webhook(caller.Key, in.ID); err != nil {
			return nil, err
		}
		if err := removeEntity(ctx, a.writer, a.endpoints().entity, in.ID, existing, by); err != nil {
			return nil, gone(err, errNoWebhook())
		}
		return &bodyOf[Deleted]{Body: Deleted{ID: in.ID, Deleted: true}}, nil
	})
	rotate := a.customerOperation(http.MethodPost, one+"/rotate-secret", "rotateWebhookSecret", "Make a new signing secret", tag, scope, CodeWebhookNotFound)
	rotate.Description = "The new secret and the one before sign together until retire-secret is called."
	huma.Register(a.huma, rotate, a.rotateWebhook)
	retire := a.customerOperation(http.MethodPost, one+"/retire-secret", "retireWebhookSecret", "Let the old signing secret end", tag, scope, CodeWebhookNotFound)
	huma.Register(a.huma, retire, func(ctx context.Context, in *pathInput) (*bodyOf[Webhook], error) {
		e, caller, err := a.changeWebhook(ctx, in.ID, func(e *events.Endpoint) { e.Secrets = slices.Clone(e.Secrets[:min(len(e.Secrets), 1)]) })
		if err != nil {
			return nil, err
		}
		return &bodyOf[Webhook]{Body: a.viewWebhook(ctx, caller.Key, e)}, nil
	})
	a.registerWebhookLogs(one+"/logs", tag, scope)
}

// changeWebhook records a change of an endpoint that the caller may see.
func (a *API) changeWebhook(ctx context.Context, id string, change func(*events.Endpoint)) (events.Endpoint, Caller, error) {
	caller, by := callerOf(ctx)
	if _, err := a.webhook(caller.Key, id); err != nil {
		return events.Endpoint{}, caller, err
	}
	e, _, err := defineEntity(ctx, a.writer, a.endpoints().entity, id, existing, by, func(old *events.Endpoint) (events.Endpoint, error) {
		e := *old
		change(&e)
		return e, nil
	})
	return e, caller, gone(err, errNoWebhook())
}

func (a *API) createWebhook(ctx context.Context, in *bodyInput[WebhookSettings]) (*bodyOf[WebhookWithSecret], error) {
	if err := in.Body.faults(); err != nil {
		return nil, err
	}
	caller, by := callerOf(ctx)
	k := caller.Key
	e := events.Endpoint{
		ID: a.drawID("end"), TenantID: k.TenantID, ProjectID: k.ProjectID, Environment: k.Environment, Active: true, Events: []string{},
		CreatedAt: a.ports.Now().UTC(),
	}
	in.Body.apply(&e)
	if u, err := url.Parse(e.URL); err == nil && in.Body.Name == nil {
		e.Name = u.Hostname()
	}
	secret, sealed, err := a.newSecret(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	e.Secrets = []events.Sealed{sealed}
	limited := within(a.endpoints().entity, "webhooks", maxWebhooks, func(c *catalog.Catalog) (n int) {
		for _, other := range c.EndpointsOf(k.TenantID) {
			if other.ProjectID == k.ProjectID {
				n++
			}
		}
		return n
	})
	e, _, err = defineEntity(ctx, a.writer, limited, e.ID, created, by, func(*events.Endpoint) (events.Endpoint, error) { return e, nil })
	if err != nil {
		return nil, err
	}
	return &bodyOf[WebhookWithSecret]{Body: WebhookWithSecret{Webhook: a.viewWebhook(ctx, k, e), Secret: secret}}, nil
}

func (a *API) rotateWebhook(ctx context.Context, in *pathInput) (*bodyOf[WebhookWithSecret], error) {
	caller, _ := callerOf(ctx)
	if _, err := a.webhook(caller.Key, in.ID); err != nil { // before anything is sealed for it
		return nil, err
	}
	secret, sealed, err := a.newSecret(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	e, _, err := a.changeWebhook(ctx, in.ID, func(e *events.Endpoint) {
		e.Secrets = append([]events.Sealed{sealed}, e.Secrets[:min(len(e.Secrets), 1)]...)
	})
	if err != nil {
		return nil, err
	}
	return &bodyOf[WebhookWithSecret]{Body: WebhookWithSecret{Webhook: a.viewWebhook(ctx, caller.Key, e), Secret: secret}}, nil
}
