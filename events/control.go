package events

import (
	"encoding/json"
	"slices"
	"time"
)

// Kinds of entities of the control plane: the second token of a CONTROL subject.
const (
	KindDeployment = "deployment"
	KindTenant     = "tenant"
	KindProject    = "project"
	KindKey        = "key"
	KindTemplate   = "template"
	KindInstance   = "instance"
	KindEndpoint   = "endpoint"
)

// ControlKinds lists the kinds.
func ControlKinds() []string {
	return []string{
		KindDeployment, KindTenant, KindProject, KindKey, KindTemplate, KindInstance, KindEndpoint,
		KindPlan, KindPackage, KindOptIn, KindOptOut, KindOperator, KindPlatform,
	}
}

// DefinedType is the wire name of the event that records the state of an entity.
func DefinedType(kind string) string { return kind + ".defined.v1" }

// RemovedType is the wire name of the event that ends an entity.
func RemovedType(kind string) string { return kind + ".removed.v1" }

// Defined records the whole state of an entity, who set it and why. The last one on a subject is the entity; the ones before are its history.
type Defined[T any] struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	Value  T      `json:"value"`
}

// Removed ends an entity.
type Removed struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// PlatformTenant owns what belongs to the platform: the shared instance and the secrets of gateways.
const PlatformTenant = "platform"

// Deployment is fixed when a deployment is created and checked at every boot.
type Deployment struct {
	Partitions int       `json:"partitions"`
	CreatedAt  time.Time `json:"createdAt"`
}

// Tenant is a customer of the platform.
type Tenant struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	TimeZone  string `json:"timeZone,omitempty"` // of day and month windows; default America/Sao_Paulo
	Suspended bool   `json:"suspended,omitempty"`
	PlanID    string `json:"planId,omitempty"` // empty takes the platform's default
	// ProfileNumbers are the only destinations in TEST; what is sent to them does not count.
	ProfileNumbers []PersonalNumber `json:"profileNumbers,omitempty"`
}

// Project groups keys and templates of a tenant.
type Project struct {
	ID                 string `json:"id"`
	TenantID           string `json:"tenantId"`
	Name               string `json:"name"`
	ProductionApproved bool   `json:"productionApproved,omitempty"`
	RetentionDays      int    `json:"retentionDays"`
}

// Key is an API key; only the SHA-256 of the whole key is kept.
type Key struct {
	ID          string      `json:"id"`
	TenantID    string      `json:"tenantId"`
	ProjectID   string      `json:"projectId"`
	Environment Environment `json:"environment"`
	Name        string      `json:"name"`
	PublicID    string      `json:"publicId"` // the 8 characters that are looked up
	SHA256      string      `json:"sha256"`   // hex
	// SecretIDHash is the hex SHA-256 of the secret id with which the header x-api-key-id alone authenticates; empty: it does not.
	SecretIDHash  string    `json:"secretIdHash,omitempty"`
	Scopes        []string  `json:"scopes,omitempty"`     // of KeyScopes; empty is all of them
	InstanceID    string    `json:"instanceId,omitempty"` // bound instance; else the shared default
	EndpointID    string    `json:"endpointId,omitempty"` // endpoint linked to the key
	RetentionDays *int      `json:"retentionDays,omitempty"`
	ExpiresAt     time.Time `json:"expiresAt,omitzero"`
	RevokedAt     time.Time `json:"revokedAt,omitzero"`
	CreatedAt     time.Time `json:"createdAt"`
}

// Scopes of an API key.
const (
	ScopeSend      = "send"      // send and cancel messages
	ScopeRead      = "read"      // read messages, usage and figures
	ScopeTemplates = "templates" // read and change templates
	ScopeWebhooks  = "webhooks"  // read and change endpoints
	ScopeKeys      = "keys"      // read and make API keys
	ScopeNumbers   = "numbers"   // read and pair numbers
)

// KeyScopes lists the scopes of an API key.
func KeyScopes() []string {
	return []string{ScopeSend, ScopeRead, ScopeTemplates, ScopeWebhooks, ScopeKeys, ScopeNumbers}
}

// May tells whether the key may be used for a scope.
func (k Key) May(scope string) bool { return len(k.Scopes) == 0 || slices.Contains(k.Scopes, scope) }

// States of a template version.
const (
	TemplateDraft     = "draft"
	TemplateSubmitted = "submitted"
	TemplateApproved  = "approved"
	TemplateRejected  = "rejected"
)

// TemplateVersion is one wording of a template; approved versions never change.
type TemplateVersion struct {
	Version               int             `json:"version"`
	Structure             json.RawMessage `json:"structure"` // header, body, footer, buttons (docs/reference/templates.md)
	State                 string          `json:"state"`
	ApprovedForProduction bool            `json:"approvedForProduction,omitempty"`
}

// Template is a message model; its category is fixed when it is created.
type Template struct {
	ID        string            `json:"id"`
	TenantID  string            `json:"tenantId"`
	ProjectID string            `json:"projectId"`
	Name      string            `json:"name"` // friendly name, unique in its project
	Category  Category          `json:"category"`
	Versions  []TemplateVersion `json:"versions"`
}

// Instance is an Evolution instance: one paired WhatsApp number.
type Instance struct {
	ID             string `json:"id"`
	TenantID       string `json:"tenantId"` // PlatformTenant for a shared one
	Shared         bool   `json:"shared,omitempty"`
	Name           string `json:"name"` // the gateway's name of it; unique with GatewayURL
	DisplayName    string `json:"displayName"`
	Number         string `json:"number,omitempty"` // digits
	GatewayURL     string `json:"gatewayUrl"`
	GatewayKey     Sealed `json:"gatewayKey"`     // apikey, sealed for PlatformTenant
	Concurrency    int    `json:"concurrency"`    // live, 1..MaxConcurrency
	MaxConcurrency int    `json:"maxConcurrency"` // fixed; the number of slots
	Pace           Pace   `json:"pace,omitzero"`
	Typing         *bool  `json:"typing,omitempty"` // whether recipients see that somebody types; nil: see Types
	IngressHash    string `json:"ingressHash"`      // hex SHA-256 of the path token of its webhook
	Ingress        Sealed `json:"ingress"`          // path token and secret header as JSON IngressSecret, sealed for PlatformTenant

	IngressTold *IngressTold `json:"ingressTold,omitempty"` // of the last rotation; nil before there was one
}

// Endpoint is a customer's webhook URL.
type Endpoint struct {
	ID          string      `json:"id"`
	TenantID    string      `json:"tenantId"`
	ProjectID   string      `json:"projectId,omitempty"` // hears of messages of this project only; empty: of all of the tenant
	Name        string      `json:"name"`
	URL         string      `json:"url"`
	Environment Environment `json:"environment"`
	Active      bool        `json:"active"`
	Events      []string    `json:"events"`  // "*" is all; empty is none
	Secrets     []Sealed    `json:"secrets"` // whsec_ secrets, newest first; all sign during a rotation
	CreatedAt   time.Time   `json:"createdAt"`
	// Disabled says why the notifier switched it off; nil while it is on, or when its owner switched it off.
	Disabled *EndpointDisabled `json:"disabled,omitempty"`
}

// Why the notifier switches an endpoint off.
const (
	DisabledGone    = "gone"    // it answered 410
	DisabledFailing = "failing" // too many deliveries in a row ended without success
)

// EndpointDisabled says when and why an endpoint was switched off by the notifier.
type EndpointDisabled struct {
	At       time.Time `json:"at"`
	Reason   string    `json:"reason"`             // DisabledGone or DisabledFailing
	Failures int       `json:"failures,omitempty"` // deliveries in a row without success
}

// Switched gives the endpoint on or off at its owner's word, which ends what the notifier said about it.
func (e Endpoint) Switched(active bool) Endpoint {
	e.Active = active
	if active {
		e.Disabled = nil
	}
	return e
}

func controlSpecs() []Spec {
	kinds := map[string]func() any{
		KindDeployment: func() any { return new(Defined[Deployment]) },
		KindTenant:     func() any { return new(Defined[Tenant]) },
		KindProject:    func() any { return new(Defined[Project]) },
		KindKey:        func() any { return new(Defined[Key]) },
		KindTemplate:   func() any { return new(Defined[Template]) },
		KindInstance:   func() any { return new(Defined[Instance]) },
		KindEndpoint:   func() any { return new(Defined[Endpoint]) },
		KindPlan:       func() any { return new(Defined[Plan]) },
		KindPackage:    func() any { return new(Defined[Package]) },
		KindOptIn:      func() any { return new(Defined[OptIn]) },
		KindOptOut:     func() any { return new(Defined[OptOut]) },
		KindOperator:   func() any { return new(Defined[Operator]) },
		KindPlatform:   func() any { return new(Defined[Platform]) },
	}
	var out []Spec
	for _, k := range ControlKinds() {
		out = append(out, Spec{Name: k + ".defined", Version: 1, New: kinds[k]},
			Spec{Name: k + ".removed", Version: 1, New: func() any { return new(Removed) }})
	}
	return out
}
