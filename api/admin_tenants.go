package api

import (
	"context"
	_ "time/tzdata" // time zones of tenants are known on every machine

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/infra/timezone"
)

// TenantSettings are what an operator sets of a tenant.
type TenantSettings struct {
	ID        string `json:"id,omitempty" example:"acme" doc:"Chosen at creation, 1 to 40 of a-z, 0-9 and '-'; drawn when absent. Never changes."`
	Name      string `json:"name" example:"Acme Ltda"`
	TimeZone  string `json:"timeZone,omitempty" example:"America/Sao_Paulo" doc:"Of day and month windows (IANA); America/Sao_Paulo when absent."`
	Suspended bool   `json:"suspended,omitempty" doc:"Its keys are refused, except to operators."`
	PlanID    string `json:"planId,omitempty" doc:"The platform's default plan when absent."`
}

// TenantView is a tenant.
type TenantView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	TenantSettings
	ProfileNumbers int `json:"profileNumbers" doc:"How many numbers it may send to in TEST."`
}

func (a *API) tenants() noun[events.Tenant, TenantSettings, TenantView] {
	return noun[events.Tenant, TenantSettings, TenantView]{
		entity: tenantEntity(), path: "tenants", name: "tenant", scope: events.OperatorWrite, draw: "tnt",
		list: func(c *catalog.Catalog, _ ListQuery) []events.Tenant { return c.Tenants() },
		idOf: func(t events.Tenant) string { return t.ID }, chosen: func(s TenantSettings) string { return s.ID },
		prepare: func(_ context.Context, id string, s TenantSettings) (func(*events.Tenant) (events.Tenant, error), error) {
			return func(old *events.Tenant) (events.Tenant, error) {
				t := events.Tenant{ID: id, Name: s.Name, TimeZone: s.TimeZone, Suspended: s.Suspended, PlanID: s.PlanID}
				if old != nil {
					t.ProfileNumbers = old.ProfileNumbers
				}
				return t, nil
			}, nil
		},
		view: func(t events.Tenant) TenantView {
			return TenantView{
				TenantSettings: TenantSettings{ID: t.ID, Name: t.Name, TimeZone: t.TimeZone, Suspended: t.Suspended, PlanID: t.PlanID},
				ProfileNumbers: len(t.ProfileNumbers),
			}
		},
	}
}

func tenantEntity() entity[events.Tenant] {
	return entity[events.Tenant]{kind: events.KindTenant, get: (*catalog.Catalog).Tenant, check: policy.Tenant(timezone.Known)}
}

func (a *API) registerAdminTenants() {
	n := a.tenants()
	readable(a, n)
	creatable(a, n)
	editable(a, n)
}
