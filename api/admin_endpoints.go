package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/infra/apikey"
)

// EndpointSettings are what is set of a customer's endpoint.
type EndpointSettings struct {
	ID          string   `json:"id,omitempty" doc:"Chosen at creation, drawn when absent. Never changes."`
	TenantID    string   `json:"tenantId" doc:"Never changes."`
	ProjectID   string   `json:"projectId,omitempty" doc:"Hears of messages of this project only; of all of the tenant when absent at creation. Never changes, and may be left out of a change."`
	Name        string   `json:"name"`
	URL         string   `json:"url" example:"https://example.com/hooks?token=t" doc:"https, port 443, on the public internet. Used as it is, with its query."`
	Environment string   `json:"environment" enum:"TEST,LIVE" doc:"Never changes."`
	Active      bool     `json:"active" default:"true"`
	Events      []string `json:"events" doc:"message.sent, message.delivered, message.read, message.failed; * is all, empty is none."`
}

// EndpointView is an endpoint without its secrets.
type EndpointView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	EndpointSettings
	Secrets   int               `json:"secrets" doc:"How many secrets sign; 2 during a rotation."`
	CreatedAt string            `json:"createdAt" format:"date-time"`
	Disabled  *EndpointDisabled `json:"disabled,omitempty" doc:"Why it was switched off by itself; active: true switches it on again."`
}

// EndpointDisabled says why an endpoint was switched off by the notifier.
type EndpointDisabled struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	At       string `json:"at" format:"date-time"`
	Reason   string `json:"reason" enum:"gone,failing" doc:"gone: it answered 410. failing: too many deliveries in a row ended without success."`
	Failures int    `json:"failures,omitempty" doc:"How many in a row."`
}

// NewEndpointView is an endpoint with its new secret, which is shown this once.
type NewEndpointView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	EndpointView
	Secret string `json:"secret" example:"whsec_…" doc:"Signs every delivery (Standard Webhooks)."`
}

func (a *API) endpoints() noun[events.Endpoint, EndpointSettings, EndpointView] {
	return noun[events.Endpoint, EndpointSettings, EndpointView]{
		entity: entity[events.Endpoint]{kind: events.KindEndpoint, get: (*catalog.Catalog).Endpoint, check: policy.Endpoint(a.cfg.AllowLoopback)},
		path:   "endpoints", name: "endpoint", scope: events.OperatorWrite, draw: "end", owned: true,
		list: func(c *catalog.Catalog, q ListQuery) []events.Endpoint { return c.EndpointsOf(q.TenantID) },
		idOf: func(e events.Endpoint) string { return e.ID }, chosen: func(s EndpointSettings) string { return s.ID },
		prepare: func(_ context.Context, id string, s EndpointSettings) (func(*events.Endpoint) (events.Endpoint, error), error) {
			return func(old *events.Endpoint) (events.Endpoint, error) {
				e := events.Endpoint{CreatedAt: a.ports.Now().UTC(), ProjectID: s.ProjectID}
				if old != nil {
					e = *old
				}
				e.ID, e.TenantID, e.Name, e.URL, e.Environment = id, s.TenantID, s.Name, s.URL, events.Environment(s.Environment)
				e.ProjectID = cmp.Or(s.ProjectID, e.ProjectID)
				e.Events = append([]string{}, s.Events...)
				return e.Switched(s.Active), nil
			}, nil
		},
		view: func(e events.Endpoint) EndpointView {
			v := EndpointView{
				EndpointSettings: EndpointSettings{
					ID: e.ID, TenantID: e.TenantID, ProjectID: e.ProjectID, Name: e.Name, URL: e.URL, Environment: string(e.Environment), Active: e.Active,
					Events: append([]string{}, e.Events...),
				},
				Secrets: len(e.Secrets), CreatedAt: stamp(e.CreatedAt),
			}
			if d := e.Disabled; d != nil {
				v.Disabled = &EndpointDisabled{At: stamp(d.At), Reason: d.Reason, Failures: d.Failures}
			}
			return v
		},
	}
}

// newSecret makes a secret of an endpoint and seals it.
func (a *API) newSecret(ctx context.Context, endpoint string) (string, events.Sealed, error) {
	secret, err := apikey.WebhookSecret(rand.Reader, apikey.DefaultWebhookSecret)
	if err != nil {
		return "", events.Sealed{}, internal(err)
	}
	sealed, err := a.sealSecret(ctx, endpoint, secret)
	return secret, sealed, err
}

func (a *API) sealSecret(ctx context.Context, entity, secret string) (events.Sealed, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	sealed, err := a.ports.Secrets.Seal(ctx, entity, []byte(secret))
	if err != nil {
		return events.Sealed{}, outage(err, "Nothing was changed; try again.")
	}
	return sealed, nil
}

func (a *API) registerAdminEndpoints() {
	n := a.endpoints()
	readable(a, n)
	editable(a, n)
	op := a.adminOperation(http.MethodPost, adminPrefix+n.path, "create", n.name, n.path, n.scope, CodeAlreadyExists)
	op.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, op, func(ctx context.Context, in *createInput[EndpointSettings]) (*entityOutput[NewEndpointView], error) {
		by, err := authorOf(ctx, in.Reason)
		if err != nil {
			return nil, err
		}
		return a.createEndpoint(ctx, in.Body, by)
	})
	rotate := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/rotate-secret", "rotate", n.name+"Secret", n.path, n.scope, events.CodeNotFound)
	rotate.Description += " The new secret and the one before sign together until retire-secret is called."
	huma.Register(a.huma, rotate, func(ctx context.Context, in *bareInput) (*entityOutput[NewEndpointView], error) {
		if _, _, found := findEntity(a.ports.Catalog, n.entity, in.ID); !found {
			return nil, errNoEntity()
		}
		secret, sealed, err := a.newSecret(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		out, err := act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(e events.Endpoint) (events.Endpoint, error) {
			e.Secrets = append([]events.Sealed{sealed}, e.Secrets[:min(len(e.Secrets), 1)]...)
			return e, nil
		})
		if err != nil {
			return nil, err
		}
		return &entityOutput[NewEndpointView]{ETag: out.ETag, Location: out.Location, Body: NewEndpointView{EndpointView: out.Body, Secret: secret}}, nil
	})
	retire := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/retire-secret", "retire", n.name+"Secret", n.path, n.scope, events.CodeNotFound)
	retire.Description += " Only the newest secret signs from now on."
	huma.Register(a.huma, retire, func(ctx context.Context, in *bareInput) (*entityOutput[EndpointView], error) {
		return act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(e events.Endpoint) (events.Endpoint, error) {
			e.Secrets = append([]events.Sealed{}, e.Secrets[:min(len(e.Secrets), 1)]...)
			return e, nil
		})
	})
}

// createEndpoint makes an endpoint and shows its secret once. Routes of customers use it too.
func (a *API) createEndpoint(ctx context.Context, s EndpointSettings, by author) (*entityOutput[NewEndpointView], error) {
	n := a.endpoints()
	prepared, secret := n.prepare, ""
	n.prepare = func(ctx context.Context, id string, s EndpointSettings) (func(*events.Endpoint) (events.Endpoint, error), error) {
		next, err := prepared(ctx, id, s)
		if err != nil {
			return nil, err
		}
		raw, sealed, err := a.newSecret(ctx, id)
		secret = raw
		return func(old *events.Endpoint) (events.Endpoint, error) {
			e, err := next(old)
			e.Secrets = []events.Sealed{sealed}
			return e, err
		}, err
	}
	value, out, err := create(ctx, a, n, by, s)
	if err != nil {
		return nil, err
	}
	return &entityOutput[NewEndpointView]{ETag: out.ETag, Location: out.Location, Body: NewEndpointView{EndpointView: n.view(value), Secret: secret}}, nil
}
