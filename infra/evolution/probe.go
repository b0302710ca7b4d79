package evolution

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Failure is the error of a call that gave nothing usable. Its text holds no personal data.
type Failure struct {
	Call    Call
	Status  int // 0 when no answer came
	Verdict Verdict
	Cause   error
}

func (f *Failure) Error() string {
	if f.Cause != nil {
		return fmt.Sprintf("gateway %s: %s: %v", f.Call, f.Verdict.Code, f.Cause)
	}
	return fmt.Sprintf("gateway %s: %s (status %d)", f.Call, f.Verdict.Code, f.Status)
}

// Unwrap gives why no answer came.
func (f *Failure) Unwrap() error { return f.Cause }

// call makes a request that sends no message and decodes its answer into out.
func (c *Client) call(ctx context.Context, call Call, method, path string, limit time.Duration, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = encode(in); err != nil {
			return fmt.Errorf("encode %s: %w", call, err)
		}
	}
	r := c.do(ctx, request{call: call, method: method, path: path, body: body, limit: limit})
	v := c.verdict(ctx, call, c.KnownVersion(), r)
	if v.Outcome != Answered {
		return &Failure{Call: call, Status: r.answer.Status, Verdict: v, Cause: r.err}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(r.answer.Body, out); err != nil {
		return &Failure{Call: call, Status: r.answer.Status, Verdict: failed(CauseUnreadable, ScopeMessage)}
	}
	return nil
}

// State is the gateway's own word about an instance's connection. Open does not prove that messages flow.
type State string

// The states of the gateway. StateNotLoaded is ours for its answer without a state.
const (
	StateOpen       State = "open"
	StateConnecting State = "connecting"
	StateClose      State = "close"
	StateNotLoaded  State = "" // known to the gateway's database and not to its memory
)

// ConnectionState asks for the live state of an instance.
func (c *Client) ConnectionState(ctx context.Context, instance string) (State, error) {
	var out struct {
		Instance struct {
			State State `json:"state"`
		} `json:"instance"`
	}
	err := c.call(ctx, CallConnectionState, http.MethodGet, path("/instance/connectionState", instance), c.config.Limits.Other, nil, &out)
	return out.Instance.State, err
}

// Webhook says where the gateway posts the events of an instance.
type Webhook struct {
	URL     string
	Headers map[string]string // sent with every event
	Events  []string          // like MESSAGES_UPDATE; empty means all of them
}

// SetWebhook replaces the webhook of an instance and switches it on.
func (c *Client) SetWebhook(ctx context.Context, instance string, w Webhook) error {
	type webhook struct {
		Enabled  bool              `json:"enabled"`
		URL      string            `json:"url"`
		Headers  map[string]string `json:"headers,omitempty"`
		ByEvents bool              `json:"byEvents"`
		Base64   bool              `json:"base64"`
		Events   []string          `json:"events"` // the gateway fails without it
	}
	if w.Events == nil {
		w.Events = []string{}
	}
	in := map[string]webhook{"webhook": {Enabled: true, URL: w.URL, Headers: w.Headers, Events: w.Events}}
	return c.call(ctx, CallSetWebhook, http.MethodPost, path("/webhook/set", instance), c.config.Limits.Other, in, nil)
}

// presenceMargin is left of the presence limit for the way there and back.
const presenceMargin = 500 * time.Millisecond

// SendPresence shows "composing" (or another presence of the gateway) at the recipient for d. The gateway holds the request open for that
// time, so d is cut to what fits into the limit.
func (c *Client) SendPresence(ctx context.Context, instance, number, presence string, d time.Duration) error {
	d = max(min(d, c.config.Limits.Presence-presenceMargin), 0)
	in := struct {
		Number   string `json:"number"`
		Presence string `json:"presence"`
		Delay    int64  `json:"delay"` // milliseconds
	}{number, presence, d.Milliseconds()}
	return c.call(ctx, CallSendPresence, http.MethodPost, path("/chat/sendPresence", instance), c.config.Limits.Presence, in, nil)
}

// Number is the gateway's answer about one number.
type Number struct {
	Number string `json:"number"` // as asked
	JID    string `json:"jid"`    // the address it resolves to; trust it only when it is a variant of Number (recipient.JIDMatches)
	Exists bool   `json:"exists"` // false: WhatsApp knows no such account in this spelling
	LID    string `json:"lid"`    // WhatsApp's other name of the account, where given
}

// WhatsAppNumbers asks which of the numbers (digits only, no duplicates) are on WhatsApp. The gateway answers from a cache of 7 days where
// it can, and in an order of its own.
func (c *Client) WhatsAppNumbers(ctx context.Context, instance string, numbers []string) ([]Number, error) {
	in := map[string][]string{"numbers": numbers}
	var out []Number
	err := c.call(ctx, CallWhatsAppNumbers, http.MethodPost, path("/chat/whatsappNumbers", instance), c.config.Limits.NumberCheck, in, &out)
	return out, err
}
