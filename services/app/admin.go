package app

import (
	"context"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/services/control"
)

// apiControl writes to the control plane for the API.
type apiControl struct {
	*control.Feed
	log *eventlog.Log
}

func (c apiControl) Append(ctx context.Context, kind, id, eventType string, body any, expected uint64) (uint64, error) {
	return control.Next(ctx, c.log, kind, id, eventType, body, expected)
}

func (c apiControl) CatchUp(ctx context.Context) error {
	last, err := c.log.LastSequence(ctx, events.StreamControl)
	if err != nil {
		return err
	}
	return c.Await(ctx, last)
}

func (c apiControl) History(ctx context.Context, kind, id string, after uint64, limit int) ([]events.Recorded, error) {
	return c.log.History(ctx, events.ControlSubject(kind, id), after, limit)
}

// apiSecrets seals secrets of the control plane for the API.
type apiSecrets struct{ control.Secrets }

func (s apiSecrets) SealIngress(ctx context.Context, in events.Instance, secret events.IngressSecret) (events.Instance, error) {
	return s.Secrets.SealIngress(ctx, in, control.Ingress{IngressSecret: secret})
}

// Ingress opens what the gateway of an instance must present.
func (s apiSecrets) Ingress(ctx context.Context, in events.Instance) (events.IngressSecret, error) {
	ingress, err := s.Secrets.Ingress(ctx, in)
	return ingress.IngressSecret, err
}

// serveAPI serves customers and operators at one address, or operators at one of their own.
func (a *App) serveAPI(ctx context.Context, cfg api.Config, ports api.Ports, log *eventlog.Log) (err error) {
	ports.Control, ports.Secrets, ports.Eraser = apiControl{a.p.feed, log}, apiSecrets{a.p.secrets}, a.p.keys
	ports.Words, ports.Originals = apiWords{log}, apiOriginals{a.views(), log}
	ports.Gateway = apiGateway{a.p.secrets, a.p.cfg.NumberLimit}
	cfg.AllowLoopback = a.p.cfg.AllowLoopbackEndpoints
	if a.p.cfg.AdminAddr != "" {
		alone := cfg
		cfg.Only, alone.Only = api.OnlyCustomers, api.OnlyAdmin
		if a.urls.Admin, err = a.serve(ctx, "admin", a.p.cfg.AdminAddr, api.New(alone, ports)); err != nil {
			return err
		}
	}
	a.urls.API, err = a.serve(ctx, "http", a.p.cfg.HTTPAddr, api.New(cfg, ports))
	if a.urls.Admin == "" {
		a.urls.Admin = a.urls.API
	}
	return err
}
