package evolution

import (
	"context"
	"net/http"
)

// Pairing is what pairs an instance with a telephone. All of it is empty while the gateway has no code yet.
type Pairing struct {
	Open    bool   // the instance is connected: there is nothing to pair
	Picture string // QR code as a data URL
	Text    string // what the QR code says
	Code    string // to be typed instead of it
}

// Connect begins a connection of an instance where there is none, and gives the code that pairs it.
func (c *Client) Connect(ctx context.Context, instance string) (Pairing, error) {
	var out struct {
		Instance struct {
			State State `json:"state"`
		} `json:"instance"`
		Base64      string `json:"base64"`
		Code        string `json:"code"`
		PairingCode string `json:"pairingCode"`
	}
	err := c.call(ctx, CallConnect, http.MethodGet, path("/instance/connect", instance), c.config.Limits.Other, nil, &out)
	return Pairing{Open: out.Instance.State == StateOpen, Picture: out.Base64, Text: out.Code, Code: out.PairingCode}, err
}
