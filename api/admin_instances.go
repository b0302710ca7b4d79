package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// InstanceSettings are what is set of an instance: one WhatsApp number at a gateway.
type InstanceSettings struct {
	ID             string   `json:"id,omitempty" doc:"Chosen at creation, drawn when absent. Never changes."`
	TenantID       string   `json:"tenantId,omitempty" doc:"Its owner; platform for a shared one. Never changes."`
	Shared         bool     `json:"shared,omitempty" doc:"Serves every tenant that has none of its own. Never changes."`
	Name           string   `json:"name" doc:"The gateway's name of it; unique at its gateway."`
	DisplayName    string   `json:"displayName,omitempty" doc:"Shown to customers as origin."`
	Number         string   `json:"number,omitempty" example:"5511900000001" doc:"Digits of its number."`
	GatewayURL     string   `json:"gatewayUrl" example:"http://evolution:8080"`
	GatewayKey     string   `json:"gatewayKey,omitempty" maxLength:"512" doc:"The gateway's apikey. Sealed, never shown; kept when absent on a change."`
	Concurrency    int      `json:"concurrency,omitempty" doc:"Calls at once; 1 when absent."`
	MaxConcurrency int      `json:"maxConcurrency,omitempty" doc:"Slots; 1 when absent. Never changes."`
	Pace           PaceView `json:"pace,omitzero" doc:"How fast it sends; absent: as a person would on a shared number, unpaced on an own one. Holds at once, for what waits too."`
	Typing         *bool    `json:"typing,omitempty" doc:"Whether recipients see that somebody types before a message comes, but for codes; absent: on a shared number only."`
}

// PaceView is the token bucket of an instance.
type PaceView struct {
	RatePerMinute float64                     `json:"ratePerMinute,omitempty" doc:"Tokens a minute in the long run; absent or 0: one in 30 to 46 seconds on a shared number, unpaced on an own one."`
	Burst         int                         `json:"burst,omitempty" doc:"Tokens after a rest, at most 100; 1 when absent."`
	Jitter        float64                     `json:"jitter,omitempty" doc:"Each gap is drawn within this share of the mean, up or down; 0 to 0.9."`
	Costs         map[events.Category]float64 `json:"costs,omitempty" doc:"Tokens that a message takes, by category (OTP, UTILITY, MARKETING), at most what the bucket holds; 0 never waits. Absent: 1, and 0.1 for OTP on a shared number."`
}

// InstanceView is an instance without its secrets.
type InstanceView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	InstanceSettings
	GatewayKeySet bool           `json:"gatewayKeySet"`
	State         *InstanceState `json:"state,omitempty" doc:"What the log says of it now; only where it is read."`
}

func (a *API) instances() noun[events.Instance, InstanceSettings, InstanceView] {
	return noun[events.Instance, InstanceSettings, InstanceView]{
		entity: entity[events.Instance]{kind: events.KindInstance, get: (*catalog.Catalog).Instance, check: policy.Instance},
		path:   "instances", name: "instance", scope: events.OperatorWrite, draw: "ins",
		list: func(c *catalog.Catalog, q ListQuery) []events.Instance {
			if q.TenantID != "" {
				return c.InstancesOf(q.TenantID)
			}
			return c.Instances()
		},
		idOf: func(i events.Instance) string { return i.ID }, chosen: func(s InstanceSettings) string { return s.ID },
		prepare: a.prepareInstance, live: a.addState,
		view: func(i events.Instance) InstanceView {
			return InstanceView{
				InstanceSettings: InstanceSettings{
					ID: i.ID, TenantID: i.TenantID, Shared: i.Shared, Name: i.Name, DisplayName: i.DisplayName, Number: i.Number,
					GatewayURL: i.GatewayURL, Concurrency: i.Concurrency, MaxConcurrency: i.MaxConcurrency, Pace: PaceView(i.Pace), Typing: i.Typing,
				},
				GatewayKeySet: len(i.GatewayKey.Blob) > 0,
			}
		},
	}
}

// prepareInstance seals the gateway's key, and what the gateway must present to hand in receipts: made with the instance.
func (a *API) prepareInstance(ctx context.Context, id string, s InstanceSettings) (func(*events.Instance) (events.Instance, error), error) {
	var key events.Sealed
	var err error
	if s.GatewayKey != "" {
		if key, err = a.sealSecret(ctx, id, s.GatewayKey); err != nil {
			return nil, err
		}
	}
	_, _, exists := findEntity(a.ports.Catalog, entity[events.Instance]{kind: events.KindInstance, get: (*catalog.Catalog).Instance}, id)
	fresh := events.Instance{ID: id}
	if !exists {
		sealing, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
		defer cancel()
		fresh, err = a.ports.Secrets.SealIngress(sealing, fresh, events.IngressSecret{Token: secretText(), Secret: secretText()})
		if err != nil {
			return nil, outage(err, "Nothing was changed; try again.")
		}
	}
	return func(old *events.Instance) (events.Instance, error) {
		i := fresh
		if old != nil {
			i = *old
		}
		i.TenantID, i.Shared, i.Name, i.DisplayName, i.Number = s.TenantID, s.Shared, s.Name, s.DisplayName, s.Number
		if s.Shared && s.TenantID == "" {
			i.TenantID = events.PlatformTenant
		}
		i.GatewayURL, i.Concurrency, i.MaxConcurrency, i.Pace = s.GatewayURL, max(s.Concurrency, 1), max(s.MaxConcurrency, 1), events.Pace(s.Pace)
		i.Typing = s.Typing
		if s.Concurrency < 0 || s.MaxConcurrency < 0 {
			return i, faultsError(faults{{Field: "concurrency", Rule: policy.RuleRange}})
		}
		if len(key.Blob) > 0 {
			i.GatewayKey = key
		}
		return i, nil
	}, nil
}

// secretText is 192 random bits in hex.
func secretText() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}

func (a *API) registerAdminInstances() {
	n := a.instances()
	readable(a, n)
	creatable(a, n)
	editable(a, n)
	a.registerLevers(n.path, n.name)
}
