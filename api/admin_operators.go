package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/infra/apikey"
)

// OperatorSettings are what is set of an operator's key.
type OperatorSettings struct {
	ID        string   `json:"id,omitempty" doc:"Chosen at creation, drawn when absent. Never changes."`
	Name      string   `json:"name" example:"ana" doc:"Of the person, 1 to 40 of a-z, 0-9 and '-': the author of every change made with the key."`
	Scopes    []string `json:"scopes" doc:"What it may do: read, write, keys, send. None that the operator who sets it lacks."`
	ExpiresAt string   `json:"expiresAt,omitempty" format:"date-time" doc:"Until when it is valid."`
}

// OperatorView is an operator's key without its secret.
type OperatorView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	OperatorSettings
	Prefix    string  `json:"prefix" example:"ps_oper_ab12cd34"`
	CreatedAt string  `json:"createdAt" format:"date-time"`
	RevokedAt *string `json:"revokedAt" format:"date-time"`
}

// NewOperatorView is an operator's key with its secret, which is shown this once.
type NewOperatorView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	OperatorView
	Key string `json:"key" doc:"The raw key. It is not kept and cannot be shown again."`
}

func (a *API) operators() noun[events.Operator, OperatorSettings, OperatorView] {
	return noun[events.Operator, OperatorSettings, OperatorView]{
		entity: entity[events.Operator]{kind: events.KindOperator, get: (*catalog.Catalog).Operator, check: policy.Operator},
		path:   "operators", name: "operator", scope: events.OperatorKeys, draw: "opr",
		list: func(c *catalog.Catalog, _ ListQuery) []events.Operator { return c.Operators() },
		idOf: func(o events.Operator) string { return o.ID }, chosen: func(s OperatorSettings) string { return s.ID },
		prepare: func(ctx context.Context, id string, s OperatorSettings) (func(*events.Operator) (events.Operator, error), error) {
			own := operatorOf(ctx).Scopes
			if err := scoped(s.Scopes, func(scope string) bool {
				return slices.Contains(own, scope) || !slices.Contains(events.OperatorScopes(), scope) // unknown ones are faults
			}); err != nil {
				return nil, err
			}
			var f faults
			expires := timeOf(&f, "expiresAt", s.ExpiresAt)
			return func(old *events.Operator) (events.Operator, error) {
				o := events.Operator{CreatedAt: a.ports.Now().UTC()}
				if old != nil {
					o = *old
				}
				o.ID, o.Name, o.Scopes, o.ExpiresAt = id, s.Name, s.Scopes, expires
				return o, nil
			}, f.err()
		},
		view: func(o events.Operator) OperatorView {
			return OperatorView{
				OperatorSettings: OperatorSettings{ID: o.ID, Name: o.Name, Scopes: o.Scopes, ExpiresAt: stampOrEmpty(o.ExpiresAt)},
				Prefix:           operatorPrefix + o.PublicID, CreatedAt: stamp(o.CreatedAt), RevokedAt: stampOrNull(o.RevokedAt),
			}
		},
	}
}

func (a *API) registerAdminOperators() {
	n := a.operators()
	readable(a, n)
	editable(a, n)
	op := a.adminOperation(http.MethodPost, adminPrefix+n.path, "create", n.name, n.path, n.scope, CodeAlreadyExists)
	op.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, op, func(ctx context.Context, in *createInput[OperatorSettings]) (*entityOutput[NewOperatorView], error) {
		by, err := authorOf(ctx, in.Reason)
		if err != nil {
			return nil, err
		}
		return a.createOperator(ctx, in.Body, by)
	})
	revoke := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/revoke", "revoke", n.name, n.path, n.scope, events.CodeNotFound)
	revoke.Description += " It is refused everywhere within 5 s. To rotate a key, make a second one and revoke the first."
	huma.Register(a.huma, revoke, func(ctx context.Context, in *bareInput) (*entityOutput[OperatorView], error) {
		return act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(o events.Operator) (events.Operator, error) {
			if o.RevokedAt.IsZero() {
				o.RevokedAt = a.ports.Now().UTC()
			}
			return o, nil
		})
	})
}

func (a *API) createOperator(ctx context.Context, s OperatorSettings, by author) (*entityOutput[NewOperatorView], error) {
	n := a.operators()
	k, err := apikey.GenerateOperator(rand.Reader)
	if err != nil {
		return nil, internal(err)
	}
	sum := k.SHA256()
	prepared := n.prepare
	n.prepare = func(ctx context.Context, id string, s OperatorSettings) (func(*events.Operator) (events.Operator, error), error) {
		next, err := prepared(ctx, id, s)
		return func(old *events.Operator) (events.Operator, error) {
			o, err := next(old)
			o.PublicID, o.SHA256 = k.PublicID(), hex.EncodeToString(sum[:])
			return o, err
		}, err
	}
	value, out, err := create(ctx, a, n, by, s)
	if err != nil {
		return nil, err
	}
	return &entityOutput[NewOperatorView]{ETag: out.ETag, Location: out.Location, Body: NewOperatorView{OperatorView: n.view(value), Key: k.Reveal()}}, nil
}
