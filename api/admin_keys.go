package api

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/infra/apikey"
)

// KeySettings are what is set of a customer's API key.
type KeySettings struct {
	ID            string   `json:"id,omitempty" doc:"Chosen at creation, drawn when absent. Never changes."`
	TenantID      string   `json:"tenantId" doc:"Never changes."`
	ProjectID     string   `json:"projectId" doc:"Of the tenant. Never changes."`
	Environment   string   `json:"environment" enum:"TEST,LIVE" doc:"Never changes."`
	Name          string   `json:"name"`
	Scopes        []string `json:"scopes,omitempty" doc:"What it may do: send, read, templates, webhooks, keys, numbers. All when absent or empty."`
	InstanceID    string   `json:"instanceId,omitempty" doc:"Number of the tenant that it sends from; the shared one when absent."`
	EndpointID    string   `json:"endpointId,omitempty" doc:"Endpoint that alone hears of its messages; every one of the tenant and environment when absent."`
	RetentionDays *int     `json:"retentionDays,omitempty" minimum:"0" maximum:"3650" doc:"The project's when absent."`
	ExpiresAt     string   `json:"expiresAt,omitempty" format:"date-time" doc:"Until when it is valid."`
}

// KeyView is an API key without its secret.
type KeyView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	KeySettings
	ByID      bool    `json:"secretIdEnabled" doc:"x-api-key-id alone authenticates, with the secret id that was shown when it was made."`
	Prefix    string  `json:"prefix" example:"ps_live_ab12cd34" doc:"Begin of the raw key, to recognise it by."`
	CreatedAt string  `json:"createdAt" format:"date-time"`
	RevokedAt *string `json:"revokedAt" format:"date-time"`
}

// NewKeyView is an API key with its secret, which is shown this once.
type NewKeyView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	KeyView
	Key string `json:"key" doc:"The raw key. It is not kept and cannot be shown again."`
}

// Rotation is the body of a rotation.
type Rotation struct {
	OldValidUntil string `json:"oldValidUntil,omitempty" format:"date-time" doc:"Until when the old key goes on being valid, at most; now when absent."`
}

func keyEntity() entity[events.Key] {
	return entity[events.Key]{kind: events.KindKey, get: (*catalog.Catalog).Key, check: policy.Key}
}

func (a *API) keys() noun[events.Key, KeySettings, KeyView] {
	return noun[events.Key, KeySettings, KeyView]{
		entity: keyEntity(), path: "keys", name: "key", scope: events.OperatorKeys, draw: "key", owned: true,
		list: func(c *catalog.Catalog, q ListQuery) []events.Key { return c.Keys(q.TenantID) },
		idOf: func(k events.Key) string { return k.ID }, chosen: func(s KeySettings) string { return s.ID },
		prepare: func(_ context.Context, id string, s KeySettings) (func(*events.Key) (events.Key, error), error) {
			var f faults
			expires := timeOf(&f, "expiresAt", s.ExpiresAt)
			return func(old *events.Key) (events.Key, error) {
				k := events.Key{CreatedAt: a.ports.Now().UTC()}
				if old != nil {
					k = *old
				}
				k.ID, k.TenantID, k.ProjectID, k.Environment, k.Name = id, s.TenantID, s.ProjectID, events.Environment(s.Environment), s.Name
				k.Scopes, k.InstanceID, k.EndpointID, k.RetentionDays, k.ExpiresAt = s.Scopes, s.InstanceID, s.EndpointID, s.RetentionDays, expires
				return k, nil
			}, f.err()
		},
		view: viewKey,
	}
}

func viewKey(k events.Key) KeyView {
	prefix := "ps_live_"
	if k.Environment == events.Test {
		prefix = "ps_test_"
	}
	return KeyView{
		KeySettings: KeySettings{
			ID: k.ID, TenantID: k.TenantID, ProjectID: k.ProjectID, Environment: string(k.Environment), Name: k.Name, Scopes: k.Scopes,
			InstanceID: k.InstanceID, EndpointID: k.EndpointID, RetentionDays: k.RetentionDays, ExpiresAt: stampOrEmpty(k.ExpiresAt),
		},
		ByID: k.SecretIDHash != "", Prefix: prefix + k.PublicID, CreatedAt: stamp(k.CreatedAt), RevokedAt: stampOrNull(k.RevokedAt),
	}
}

// newKey makes a raw key, and gives what keeps its digest in a record.
func newKey(env events.Environment) (raw string, keep func(*events.Key), err error) {
	if env != events.Live && env != events.Test {
		return "", nil, faultsError(faults{{Field: "environment", Rule: ruleUnknownValue}})
	}
	k, err := apikey.Generate(env, rand.Reader)
	if err != nil {
		return "", nil, internal(err)
	}
	return k.Reveal(), k.Keep, nil
}

func (a *API) registerAdminKeys() {
	n := a.keys()
	readable(a, n)
	editable(a, n)
	op := a.adminOperation(http.MethodPost, adminPrefix+n.path, "create", n.name, n.path, n.scope, CodeAlreadyExists)
	op.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, op, func(ctx context.Context, in *createInput[KeySettings]) (*entityOutput[NewKeyView], error) {
		by, err := authorOf(ctx, in.Reason)
		if err != nil {
			return nil, err
		}
		return a.createKey(ctx, in.Body, by)
	})
	a.registerSecretID(n)
	rotate := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/rotate", "rotate", n.name, n.path, n.scope, events.CodeNotFound)
	rotate.DefaultStatus = http.StatusCreated
	rotate.Description += " Makes a second key with the same settings and lets the old one end. Both are valid in between."
	huma.Register(a.huma, rotate, func(ctx context.Context, in *actInput[Rotation]) (*entityOutput[NewKeyView], error) {
		by, err := authorOf(ctx, in.Reason)
		if err != nil {
			return nil, err
		}
		return a.rotateKey(ctx, in.ID, in.Body, by)
	})
	revoke := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/revoke", "revoke", n.name, n.path, n.scope, events.CodeNotFound)
	revoke.Description += " It is refused everywhere within 5 s."
	huma.Register(a.huma, revoke, func(ctx context.Context, in *bareInput) (*entityOutput[KeyView], error) {
		return act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(k events.Key) (events.Key, error) {
			if k.RevokedAt.IsZero() {
				k.RevokedAt = a.ports.Now().UTC()
			}
			return k, nil
		})
	})
}

// createKey makes a key and shows it once. Routes of customers use it too.
func (a *API) createKey(ctx context.Context, s KeySettings, by author) (*entityOutput[NewKeyView], error) {
	n := a.keys()
	raw, keep, err := newKey(events.Environment(s.Environment))
	if err != nil {
		return nil, err
	}
	prepared := n.prepare
	n.prepare = func(ctx context.Context, id string, s KeySettings) (func(*events.Key) (events.Key, error), error) {
		next, err := prepared(ctx, id, s)
		return func(old *events.Key) (events.Key, error) {
			k, err := next(old)
			keep(&k)
			return k, err
		}, err
	}
	value, out, err := create(ctx, a, n, by, s)
	if err != nil {
		return nil, err
	}
	return &entityOutput[NewKeyView]{ETag: out.ETag, Location: out.Location, Body: NewKeyView{KeyView: n.view(value), Key: raw}}, nil
}

// rotateKey makes a key like another one, then ends that one. When the second step fails, both keys stay valid.
func (a *API) rotateKey(ctx context.Context, id string, r Rotation, by author) (*entityOutput[NewKeyView], error) {
	var f faults
	until := timeOf(&f, "oldValidUntil", r.OldValidUntil)
	if err := f.err(); err != nil {
		return nil, err
	}
	now := a.ports.Now().UTC()
	if until.Before(now) {
		until = now
	}
	old, _, found := findEntity(a.ports.Catalog, keyEntity(), id)
	if !found {
		return nil, errNoEntity()
	}
	if revoked(old, now) {
		return nil, events.Errorf(events.CodeConflict, "The key is not valid any more: make a new one.")
	}
	s := viewKey(old).KeySettings
	s.ID = ""
	made, err := a.createKey(ctx, s, by)
	if err != nil {
		return nil, err
	}
	_, _, err = defineEntity(ctx, a.writer, keyEntity(), id, existing, by, func(k *events.Key) (events.Key, error) {
		if k.ExpiresAt.IsZero() || until.Before(k.ExpiresAt) {
			k.ExpiresAt = until
		}
		return *k, nil
	})
	if err != nil && events.CodeOf(err) != events.CodeNotFound { // removed meanwhile: it has ended
		return nil, err
	}
	return made, nil
}
