package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/presence"
)

// Number is a WhatsApp number of an account.
type Number struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID               string      `json:"id" example:"ins-8d1f0a9b8c7d6e5f"`
	Name             string      `json:"name" doc:"Shown as origin of messages."`
	InstanceName     string      `json:"instanceName" doc:"The gateway's name of it."`
	Number           string      `json:"number" example:"5511900000001" doc:"Digits; empty while not known."`
	State            string      `json:"state" enum:"OPEN,CONNECTING,CLOSE" doc:"As last known; CONNECTING while nothing was heard of it."`
	IsFullyConnected bool        `json:"isFullyConnected"`
	Provider         string      `json:"provider" enum:"EVOLUTION"`
	APIKeys          []NumberKey `json:"apiKeys" nullable:"false" doc:"Keys of the asking key's project and environment that send from it."`
}

// NumberKey is a key that sends from a number.
type NumberKey struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Name      string  `json:"name"`
	KeyPrefix string  `json:"keyPrefix" example:"ps_live_ab12cd34"`
	KeyLast4  *string `json:"keyLast4" doc:"Always null: no more of a key is kept."`
}

// NumberStatus is the state of a number.
type NumberStatus struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID    string `json:"id"`
	State string `json:"state" enum:"OPEN,CONNECTING,CLOSE"`
	Live  bool   `json:"live" doc:"The gateway said so now; false when it did not answer, then it is what was last known."`
}

// NumberPairing is what pairs a number with a telephone.
type NumberPairing struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID           string  `json:"id"`
	State        string  `json:"state" enum:"CONNECTING"`
	QRCodeBase64 *string `json:"qrcodeBase64" example:"data:image/png;base64,…" doc:"A picture, as a data URL; null while the gateway has none: ask again in some seconds."`
	QRCode       *string `json:"qrcode" doc:"What the picture says."`
	PairingCode  *string `json:"pairingCode" doc:"To be typed instead; null where the gateway gives none."`
}

// ownNumber tells whether an instance is a number of a key's account.
func ownNumber(k events.Key, in events.Instance) bool { return in.TenantID == k.TenantID && !in.Shared }

func errNoNumber() error { return events.Errorf(CodeNumberNotFound, "There is no number of this id.") }

func (a *API) number(k events.Key, id string) (in events.Instance, err error) {
	found := false
	a.ports.Catalog.Read(func(c *catalog.Catalog) { in, found = c.Instance(id) })
	if !found || !ownNumber(k, in) {
		return events.Instance{}, errNoNumber()
	}
	return in, nil
}

// lastState is the state of an instance as the log last told it.
func (a *API) lastState(id string) NumberState {
	var known presence.Connection
	if a.ports.Presence != nil {
		known = a.ports.Presence.State(id).Connection
	}
	switch known {
	case presence.Open:
		return NumberOpen
	case presence.Closed:
		return NumberClose
	default:
		return NumberConnecting
	}
}

func (a *API) viewNumber(k events.Key, keys []events.Key, in events.Instance) Number {
	state := a.lastState(in.ID)
	n := Number{
		ID: in.ID, Name: in.DisplayName, InstanceName: in.Name, Number: in.Number, State: string(state), IsFullyConnected: state == NumberOpen,
		Provider: "EVOLUTION", APIKeys: []NumberKey{},
	}
	if n.Name == "" {
		n.Name = in.Name
	}
	for _, other := range keys {
		if other.InstanceID == in.ID && sameScope(other, k) && !revoked(other, a.ports.Now()) {
			n.APIKeys = append(n.APIKeys, NumberKey{Name: other.Name, KeyPrefix: viewKey(other).Prefix})
		}
	}
	return n
}

func (a *API) registerNumbers() {
	const path, one, tag, scope = "/v1/numbers", "/v1/numbers/{id}", "numbers", events.ScopeNumbers
	list := a.customerOperation(http.MethodGet, path, "listNumbers", "List numbers", tag, scope)
	list.Description = "Those of the account; the shared number is none of them."
	huma.Register(a.huma, list, func(ctx context.Context, _ *struct{}) (*listed[Number], error) {
		caller, _ := callerOf(ctx)
		var all []events.Instance
		var keys []events.Key
		a.ports.Catalog.Read(func(c *catalog.Catalog) {
			all, keys = c.InstancesOf(caller.Key.TenantID), keysLike(c, caller.Key)
		})
		return &listed[Number]{Body: mapped(all, func(in events.Instance) Number { return a.viewNumber(caller.Key, keys, in) })}, nil
	})
	get := a.customerOperation(http.MethodGet, one, "getNumber", "Read a number", tag, scope, CodeNumberNotFound)
	huma.Register(a.huma, get, func(ctx context.Context, in *pathInput) (*bodyOf[Number], error) {
		caller, _ := callerOf(ctx)
		number, err := a.number(caller.Key, in.ID)
		if err != nil {
			return nil, err
		}
		var keys []events.Key
		a.ports.Catalog.Read(func(c *catalog.Catalog) { keys = keysLike(c, caller.Key) })
		return &bodyOf[Number]{Body: a.viewNumber(caller.Key, keys, number)}, nil
	})
	status := a.customerOperation(http.MethodGet, one+"/status", "getNumberStatus", "Ask for the state of a number", tag, scope, CodeNumberNotFound)
	status.Description = "Asks the gateway; when it does not answer in time the state is the last known one."
	huma.Register(a.huma, status, a.numberStatus)
	connect := a.customerOperation(http.MethodGet, one+"/connect", "connectNumber", "Get a new QR or pairing code", tag, scope, CodeNumberNotFound, events.CodeConflict)
	connect.Description = "Begins a connection at the gateway. Who has the code can take the number over: show it to its owner only."
	huma.Register(a.huma, connect, a.connectNumber)
}

func (a *API) numberStatus(ctx context.Context, in *pathInput) (*bodyOf[NumberStatus], error) {
	caller, _ := callerOf(ctx)
	number, err := a.number(caller.Key, in.ID)
	if err != nil {
		return nil, err
	}
	out := &bodyOf[NumberStatus]{Body: NumberStatus{ID: number.ID, State: string(a.lastState(number.ID))}}
	if a.ports.Gateway == nil {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.NumberTimeout)
	defer cancel()
	if state, err := a.ports.Gateway.ConnectionState(ctx, number); err == nil && state != "" {
		out.Body.State, out.Body.Live = string(state), true
	}
	return out, nil
}

func (a *API) connectNumber(ctx context.Context, in *pathInput) (*bodyOf[NumberPairing], error) {
	caller, _ := callerOf(ctx)
	number, err := a.number(caller.Key, in.ID)
	if err != nil {
		return nil, err
	}
	if a.ports.Gateway == nil {
		return nil, unavailable(nil, "The gateway of this number cannot be reached right now.")
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.NumberTimeout)
	defer cancel()
	p, err := a.ports.Gateway.Connect(ctx, number)
	if err != nil {
		return nil, unavailable(err, "The gateway of this number gives no code right now.")
	}
	if p.Open {
		return nil, events.Errorf(events.CodeConflict, "The number is connected.")
	}
	return &bodyOf[NumberPairing]{Body: NumberPairing{
		ID: number.ID, State: string(NumberConnecting), QRCodeBase64: orNull(p.Picture), QRCode: orNull(p.Text), PairingCode: orNull(p.Code),
	}}, nil
}
