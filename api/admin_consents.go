package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// ConsentSettings name a contact and what it consents to.
type ConsentSettings struct {
	TenantID  string `json:"tenantId"`
	ProjectID string `json:"projectId,omitempty" doc:"Of an opt-in; an opt-out is from the whole tenant."`
	Number    string `json:"number" example:"+5511987654321" doc:"Kept as a keyed hash only."`
}

// OptInView is the consent of a contact, who is not named.
type OptInView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID        string `json:"id"`
	TenantID  string `json:"tenantId"`
	ProjectID string `json:"projectId"`
	Source    string `json:"source" enum:"inbound,operator,import,customer"`
	FirstAt   string `json:"firstAt" format:"date-time"`
	LastAt    string `json:"lastAt" format:"date-time"`
}

// OptOutView is the wish of a contact, who is not named, to get nothing more.
type OptOutView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID       string `json:"id"`
	TenantID string `json:"tenantId"`
	Source   string `json:"source" enum:"inbound,operator,import,customer"`
	At       string `json:"at" format:"date-time"`
}

func optInEntity() entity[events.OptIn] {
	return entity[events.OptIn]{kind: events.KindOptIn, get: (*catalog.Catalog).OptInByID, check: policy.OptIn, again: true}
}

func (a *API) optIns() noun[events.OptIn, ConsentSettings, OptInView] {
	return noun[events.OptIn, ConsentSettings, OptInView]{
		entity: optInEntity(), path: "opt-ins", name: "optIn", scope: events.OperatorWrite, owned: true,
		list: func(c *catalog.Catalog, q ListQuery) []events.OptIn { return c.OptIns(q.TenantID) },
		idOf: func(o events.OptIn) string { return o.ID },
		view: func(o events.OptIn) OptInView {
			return OptInView{ID: o.ID, TenantID: o.TenantID, ProjectID: o.ProjectID, Source: o.Source, FirstAt: stamp(o.FirstAt), LastAt: stamp(o.LastAt)}
		},
	}
}

func (a *API) optOuts() noun[events.OptOut, ConsentSettings, OptOutView] {
	return noun[events.OptOut, ConsentSettings, OptOutView]{
		entity: entity[events.OptOut]{kind: events.KindOptOut, get: (*catalog.Catalog).OptOutByID, check: policy.OptOut, again: true},
		path:   "opt-outs", name: "optOut", scope: events.OperatorWrite, owned: true,
		list: func(c *catalog.Catalog, q ListQuery) []events.OptOut { return c.OptOuts(q.TenantID) },
		idOf: func(o events.OptOut) string { return o.ID },
		view: func(o events.OptOut) OptOutView {
			return OptOutView{ID: o.ID, TenantID: o.TenantID, Source: o.Source, At: stamp(o.At)}
		},
	}
}

// registerAdminConsents registers opt-ins and opt-outs. Recording one twice is no error: who consents again goes on doing so.
func (a *API) registerAdminConsents() {
	ins, outs := a.optIns(), a.optOuts()
	readable(a, ins)
	removable(a, ins)
	readable(a, outs)
	removable(a, outs)
	consented(a, ins, func(s ConsentSettings, hash string) (string, func(*events.OptIn) (events.OptIn, error)) {
		now, id := a.ports.Now().UTC(), events.OptInID(s.ProjectID, hash)
		return id, func(old *events.OptIn) (events.OptIn, error) {
			o := events.OptIn{ID: id, TenantID: s.TenantID, ProjectID: s.ProjectID, RecipientHash: hash, Source: events.SourceOperator, FirstAt: now}
			if old != nil {
				o = *old
			}
			o.LastAt = now
			return o, nil
		}
	})
	consented(a, outs, func(s ConsentSettings, hash string) (string, func(*events.OptOut) (events.OptOut, error)) {
		now, id := a.ports.Now().UTC(), events.OptOutID(s.TenantID, hash)
		return id, func(old *events.OptOut) (events.OptOut, error) {
			if old != nil {
				return *old, nil
			}
			return events.OptOut{ID: id, TenantID: s.TenantID, RecipientHash: hash, Source: events.SourceOperator, At: now}, nil
		}
	})
}

// consented registers the recording of what a contact wants, under the id that its hash gives.
func consented[T, V any](a *API, n noun[T, ConsentSettings, V], of func(s ConsentSettings, hash string) (string, func(*T) (T, error))) {
	op := a.adminOperation(http.MethodPost, adminPrefix+n.path, "record", n.name, n.path, n.scope)
	op.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, op, func(ctx context.Context, in *createInput[ConsentSettings]) (*entityOutput[V], error) {
		by, err := authorOf(ctx, in.Reason)
		if err != nil {
			return nil, err
		}
		if _, _, found := findEntity(a.ports.Catalog, tenantEntity(), in.Body.TenantID); !found {
			return nil, faultsError(faults{{Field: "tenantId", Rule: policy.RuleUnknown}})
		}
		hashing, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
		defer cancel()
		_, hash, err := a.hashNumber(hashing, in.Body.TenantID, "number", in.Body.Number)
		if err != nil {
			return nil, err
		}
		id, next := of(in.Body, hash)
		value, version, err := defineEntity(ctx, a.writer, n.entity, id, anyVersion, by, next)
		if err != nil {
			return nil, err
		}
		return &entityOutput[V]{ETag: etag(version), Location: locationOf(adminPrefix+n.path, id), Body: n.view(value)}, nil
	})
}

// anyVersion expects nothing.
func anyVersion(uint64, bool) error { return nil }
