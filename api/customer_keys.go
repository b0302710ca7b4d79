package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// APIKey is an API key as customers see it.
type APIKey struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID                 string   `json:"id" example:"key-8d1f0a9b8c7d6e5f"`
	Name               string   `json:"name"`
	Environment        string   `json:"environment" enum:"TEST,LIVE"`
	KeyPrefix          string   `json:"keyPrefix" example:"ps_live_ab12cd34" doc:"Begin of the raw key, to recognise it by."`
	CreatedAt          string   `json:"createdAt" format:"date-time"`
	WebhookID          *string  `json:"webhookId" doc:"Webhook that alone hears of its messages; null for every one of its project and environment."`
	WhatsappInstanceID *string  `json:"whatsappInstanceId" doc:"Number that it sends from; null for the shared one."`
	RetentionDays      *int     `json:"retentionDays" doc:"Days that number and content are to be kept; null for the project's, 0 until the message was sent or ended. Recorded, not carried out yet: nothing is erased in this version. Below 4 webhooks carry neither."`
	Scopes             []string `json:"scopes" nullable:"false" doc:"What it may do."`
	ExpiresAt          *string  `json:"expiresAt" format:"date-time"`
	RevokedAt          *string  `json:"revokedAt" format:"date-time"`
}

// APIKeyWithSecret is an API key that was just made; it is shown this once.
type APIKeyWithSecret struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	APIKey
	Key string `json:"key" doc:"The raw key. It is not kept and cannot be shown again."`
}

// APIKeySettings are what customers set of a key that they make.
type APIKeySettings struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Name               string   `json:"name"`
	RetentionDays      *int     `json:"retentionDays,omitempty" doc:"0 to 3650; the project's when absent."`
	WebhookID          *string  `json:"webhookId,omitempty"`
	WhatsappInstanceID *string  `json:"whatsappInstanceId,omitempty" doc:"A number of the account."`
	Scopes             []string `json:"scopes,omitempty" doc:"send, read, templates, webhooks, keys, numbers; those of the key that makes it when absent or empty. Never more than that one has."`
	ExpiresAt          *string  `json:"expiresAt,omitempty" format:"date-time" doc:"Never later than that of the key that makes it."`
}

func viewAPIKey(k events.Key) APIKey {
	scopes := slices.Clone(k.Scopes)
	if len(scopes) == 0 {
		scopes = events.KeyScopes()
	}
	return APIKey{
		ID: k.ID, Name: k.Name, Environment: string(k.Environment), KeyPrefix: viewKey(k).Prefix, CreatedAt: stamp(k.CreatedAt),
		WebhookID: orNull(k.EndpointID), WhatsappInstanceID: orNull(k.InstanceID), RetentionDays: k.RetentionDays, Scopes: scopes,
		ExpiresAt: stampOrNull(k.ExpiresAt), RevokedAt: stampOrNull(k.RevokedAt),
	}
}

func (a *API) registerAPIKeys() {
	const path, tag, scope = "/v1/api-keys", "api-keys", events.ScopeKeys
	list := a.customerOperation(http.MethodGet, path, "listApiKeys", "List API keys", tag, scope)
	list.Description = "Those of the project and environment of the key that asks."
	huma.Register(a.huma, list, func(ctx context.Context, _ *struct{}) (*listed[APIKey], error) {
		caller, _ := callerOf(ctx)
		var all []events.Key
		a.ports.Catalog.Read(func(c *catalog.Catalog) { all = keysLike(c, caller.Key) })
		return &listed[APIKey]{Body: mapped(all, viewAPIKey)}, nil
	})
	create := a.customerOperation(http.MethodPost, path, "createApiKey", "Make an API key", tag, scope)
	create.DefaultStatus = http.StatusCreated
	create.Description = "It has the project and the environment of the key that makes it, and at most its scopes and its end. The answer shows it this once."
	huma.Register(a.huma, create, a.createAPIKey)
}

// keysLike lists the keys of the project and environment of a key, by id.
func keysLike(c *catalog.Catalog, k events.Key) []events.Key {
	return slices.DeleteFunc(c.Keys(k.TenantID), func(other events.Key) bool { return !sameScope(other, k) })
}

// child is the key that a key asks for, without an id and a secret.
func (a *API) child(maker events.Key, s APIKeySettings) (events.Key, error) {
	k := events.Key{
		TenantID: maker.TenantID, ProjectID: maker.ProjectID, Environment: maker.Environment, Name: s.Name, Scopes: slices.Clone(s.Scopes),
		RetentionDays: s.RetentionDays, CreatedAt: a.ports.Now().UTC(),
	}
	if len(k.Scopes) == 0 {
		k.Scopes = slices.Clone(maker.Scopes)
	}
	var f faults
	if s.ExpiresAt != nil {
		k.ExpiresAt = timeOf(&f, "expiresAt", *s.ExpiresAt)
	}
	if !maker.ExpiresAt.IsZero() && (k.ExpiresAt.IsZero() || maker.ExpiresAt.Before(k.ExpiresAt)) {
		k.ExpiresAt = maker.ExpiresAt
	}
	if k.ExpiresAt != (time.Time{}) && !a.ports.Now().Before(k.ExpiresAt) {
		f = append(f, events.FieldError{Field: "expiresAt", Rule: ruleNotFuture})
	}
	a.ports.Catalog.Read(func(c *catalog.Catalog) {
		if s.WebhookID != nil && *s.WebhookID != "" {
			k.EndpointID = *s.WebhookID
			if e, ok := c.Endpoint(k.EndpointID); !ok || !onWebhooks(c, maker, e) {
				f = append(f, events.FieldError{Field: "webhookId", Rule: policy.RuleUnknown})
			}
		}
		if s.WhatsappInstanceID != nil && *s.WhatsappInstanceID != "" {
			k.InstanceID = *s.WhatsappInstanceID
			if in, ok := c.Instance(k.InstanceID); !ok || !ownNumber(maker, in) {
				f = append(f, events.FieldError{Field: "whatsappInstanceId", Rule: policy.RuleUnknown})
			}
		}
	})
	if err := f.err(); err != nil {
		return k, err
	}
	known := slices.DeleteFunc(slices.Clone(s.Scopes), func(scope string) bool { return !slices.Contains(events.KeyScopes(), scope) })
	return k, scoped(known, maker.May) // what is no scope at all is told with the other faults
}

func (a *API) createAPIKey(ctx context.Context, in *bodyInput[APIKeySettings]) (*bodyOf[APIKeyWithSecret], error) {
	caller, by := callerOf(ctx)
	k, err := a.child(caller.Key, in.Body)
	if err != nil {
		return nil, err
	}
	raw, keep, err := newKey(k.Environment)
	if err != nil {
		return nil, err
	}
	k.ID = a.drawID("key")
	keep(&k)
	limited := within(keyEntity(), "api-keys", maxKeys, func(c *catalog.Catalog) int { return len(keysLike(c, caller.Key)) })
	k, _, err = defineEntity(ctx, a.writer, limited, k.ID, created, by, func(*events.Key) (events.Key, error) { return k, nil })
	if err != nil {
		return nil, err
	}
	return &bodyOf[APIKeyWithSecret]{Body: APIKeyWithSecret{APIKey: viewAPIKey(k), Key: raw}}, nil
}
