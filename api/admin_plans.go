package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// PlanSettings are a plan. A limit of 0 is none.
type PlanSettings struct {
	ID      string  `json:"id,omitempty" example:"pro" doc:"Chosen at creation, drawn when absent. Never changes."`
	Name    string  `json:"name" example:"Pro"`
	Month   int     `json:"month,omitempty" doc:"LIVE messages in a month of the tenant's time zone; packages add to it."`
	Day     int     `json:"day,omitempty" doc:"LIVE messages in a day."`
	TestDay int     `json:"testDay,omitempty" doc:"TEST messages in a day; those to a profile number do not count."`
	Rate    float64 `json:"rate,omitempty" doc:"Requests in a second of one API key; 0 takes the default of the process."`
	Burst   int     `json:"burst,omitempty" doc:"Requests at once."`
	Weight  int     `json:"weight,omitempty" doc:"Share of a shared number beside other tenants; 0 is 1."`
}

// PackageSettings are a package.
type PackageSettings struct {
	ID       string `json:"id,omitempty" doc:"Chosen at creation, drawn when absent. Never changes."`
	TenantID string `json:"tenantId" doc:"Never changes."`
	Messages int    `json:"messages" doc:"LIVE messages that it adds to each month."`
	From     string `json:"from" example:"2026-11" doc:"First month."`
	Until    string `json:"until,omitempty" example:"2026-12" doc:"Last month; for ever when absent."`
}

func (a *API) plans() noun[events.Plan, PlanSettings, PlanSettings] {
	return noun[events.Plan, PlanSettings, PlanSettings]{
		entity: entity[events.Plan]{kind: events.KindPlan, get: (*catalog.Catalog).Plan, check: policy.Plan, again: true},
		path:   "plans", name: "plan", scope: events.OperatorWrite, draw: "pln",
		list: func(c *catalog.Catalog, _ ListQuery) []events.Plan { return c.Plans() },
		idOf: func(p events.Plan) string { return p.ID }, chosen: func(s PlanSettings) string { return s.ID },
		prepare: func(_ context.Context, id string, s PlanSettings) (func(*events.Plan) (events.Plan, error), error) {
			s.ID = id
			return func(*events.Plan) (events.Plan, error) { return events.Plan(s), nil }, nil
		},
		view: func(p events.Plan) PlanSettings { return PlanSettings(p) },
	}
}

func (a *API) packages() noun[events.Package, PackageSettings, PackageSettings] {
	return noun[events.Package, PackageSettings, PackageSettings]{
		entity: entity[events.Package]{kind: events.KindPackage, get: (*catalog.Catalog).Package, check: policy.Package},
		path:   "packages", name: "package", scope: events.OperatorWrite, draw: "pkg", owned: true,
		list: func(c *catalog.Catalog, q ListQuery) []events.Package { return c.Packages(q.TenantID) },
		idOf: func(p events.Package) string { return p.ID }, chosen: func(s PackageSettings) string { return s.ID },
		prepare: func(_ context.Context, id string, s PackageSettings) (func(*events.Package) (events.Package, error), error) {
			s.ID = id
			return func(*events.Package) (events.Package, error) { return events.Package(s), nil }, nil
		},
		view: func(p events.Package) PackageSettings { return PackageSettings(p) },
	}
}

func (a *API) registerAdminPlans() {
	plans, packages := a.plans(), a.packages()
	readable(a, plans)
	creatable(a, plans)
	editable(a, plans)
	readable(a, packages)
	creatable(a, packages)
	editable(a, packages)
}

// PlatformSettings are set for all tenants.
type PlatformSettings struct {
	OptInRequired  bool   `json:"optInRequired,omitempty" doc:"UTILITY from the shared number in LIVE needs an opt-in."`
	RecipientLimit int    `json:"recipientLimit,omitempty" doc:"Messages of one tenant to one recipient in an hour; 0 is no limit."`
	PlanID         string `json:"planId,omitempty" doc:"Plan of tenants that name none; without limits when absent."`
}

// PlatformView is what is set for all tenants.
type PlatformView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	PlatformSettings
	Stopped bool `json:"stopped" doc:"Nothing is accepted or started."`
}

type (
	platformInput struct {
		Reasoned
		IfMatch string `header:"If-Match" doc:"The version that is changed: its ETag. Needed."`
		Body    PlatformSettings
	}
	stopInput struct{ Reasoned }
)

// platform is a noun of one entity, which is there from the start.
func (a *API) platform() noun[events.Platform, PlatformSettings, PlatformView] {
	return noun[events.Platform, PlatformSettings, PlatformView]{
		entity: entity[events.Platform]{
			kind: events.KindPlatform, check: policy.Platform, again: true,
			get: func(c *catalog.Catalog, _ string) (events.Platform, bool) { return c.Platform(), true },
		},
		path: "platform", name: "platform",
		prepare: func(_ context.Context, _ string, s PlatformSettings) (func(*events.Platform) (events.Platform, error), error) {
			return func(old *events.Platform) (events.Platform, error) {
				return events.Platform{Stopped: old.Stopped, OptInRequired: s.OptInRequired, RecipientLimit: s.RecipientLimit, PlanID: s.PlanID}, nil
			}, nil
		},
		chosen: func(PlatformSettings) string { return "" },
		view: func(p events.Platform) PlatformView {
			return PlatformView{
				PlatformSettings: PlatformSettings{OptInRequired: p.OptInRequired, RecipientLimit: p.RecipientLimit, PlanID: p.PlanID}, Stopped: p.Stopped,
			}
		},
	}
}

func (a *API) registerAdminPlatform() {
	n := a.platform()
	base := adminPrefix + n.path
	at := func(out *entityOutput[PlatformView], err error) (*entityOutput[PlatformView], error) {
		if out != nil {
			out.Location = base
		}
		return out, err
	}
	huma.Register(a.huma, a.adminOperation(http.MethodGet, base, "get", n.name, n.path, events.OperatorRead),
		func(ctx context.Context, _ *struct{}) (*entityOutput[PlatformView], error) {
			return at(read(ctx, a, n, events.PlatformID))
		})
	huma.Register(a.huma, a.adminOperation(http.MethodPut, base, "replace", n.name, n.path, events.OperatorWrite, preconditions()...),
		func(ctx context.Context, in *platformInput) (*entityOutput[PlatformView], error) {
			return at(replace(ctx, a, n, events.PlatformID, in.IfMatch, in.Reason, in.Body))
		})
	huma.Register(a.huma, a.adminOperation(http.MethodGet, base+"/history", "list", "platformChanges", n.path, events.OperatorRead, events.CodeNotFound),
		func(ctx context.Context, in *ListQuery) (*historyOutput[PlatformView], error) {
			return history(ctx, a, n, &historyInput{ID: events.PlatformID, Limit: in.Limit})
		})
	for verb, stopped := range map[string]bool{"stop": true, "start": false} {
		op := a.adminOperation(http.MethodPost, base+"/"+verb, verb, "sending", n.path, events.OperatorSend)
		huma.Register(a.huma, op, func(ctx context.Context, in *stopInput) (*entityOutput[PlatformView], error) {
			return at(act(ctx, a, n, events.PlatformID, "", in.Reason, func(p events.Platform) (events.Platform, error) {
				p.Stopped = stopped
				return p, nil
			}))
		})
	}
}
