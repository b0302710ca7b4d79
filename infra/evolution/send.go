package evolution

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"pilotstatus.dev/events/recipient"
)

// ErrNoCheck refuses a send without a last check: nothing may be sent unasked.
var ErrNoCheck = errors.New("a send needs a last check")

// Text is a text message to send.
type Text struct {
	Instance    string `json:"-"`
	Number      string `json:"number"` // digits only; any other spelling loses the gateway's ninth-digit handling
	Text        string `json:"text"`
	LinkPreview bool   `json:"linkPreview"` // true makes the gateway fetch the first link before it sends
	// MessageID is the key id to use (NewMessageID). Only some gateways read it (TakesMessageID); leave it empty for others.
	MessageID string `json:"messageId,omitempty"`
	// TraceParent is the W3C trace context of the message, told to the gateway as a header; empty for none.
	TraceParent string `json:"-"`
	// Connect bounds the wait for a connection to the gateway; when it is over nothing is written (CauseNotConnected). 0: DialLimit does.
	Connect time.Duration `json:"-"`
	// Check is asked by every write of the request, last before it. An error refuses the write. It must not block.
	Check func() error `json:"-"`
}

// Button is one button of a Buttons message. Which fields count depends on Type.
type Button struct {
	Type        string `json:"type"` // reply, url, call or copy
	DisplayText string `json:"displayText,omitempty"`
	ID          string `json:"id,omitempty"`          // reply
	URL         string `json:"url,omitempty"`         // url
	PhoneNumber string `json:"phoneNumber,omitempty"` // call
	CopyCode    string `json:"copyCode,omitempty"`    // copy
}

// Buttons is a message with buttons to send. At most three replies, and replies are not mixed with other types.
type Buttons struct {
	Instance    string        `json:"-"`
	Number      string        `json:"number"` // digits only
	Title       string        `json:"title"`
	Description string        `json:"description,omitempty"`
	Footer      string        `json:"footer,omitempty"`
	Buttons     []Button      `json:"buttons"`
	TraceParent string        `json:"-"` // as in Text
	Connect     time.Duration `json:"-"` // as in Text
	Check       func() error  `json:"-"` // as in Text
}

// Result is what came of one send.
type Result struct {
	Verdict
	// Wrote tells whether any byte of the request left. While it is false the gateway was not called.
	Wrote bool
	// Pause is the longest time from the begin of a Check to the end of the write that it allowed, or to the end of the request where
	// that had not ended: the process may have stood still in between, and what Check said may not have held any more.
	Pause time.Duration
	// Stopped is the error of Check when it refused a write, else nil. With Wrote false nothing was called.
	Stopped error
	// ForeignJID marks an acceptance whose RemoteJID is no ninth-digit variant of the number: the message went to somebody else.
	ForeignJID bool
	// Status is the HTTP status of the answer; 0 when none came.
	Status int
	// Err is why no complete answer came, for logs; nil when one did. It holds neither number nor text nor key.
	Err error
}

// SendText sends a text message, at most once.
func (c *Client) SendText(ctx context.Context, m Text) Result {
	return c.send(ctx, CallSendText, path("/message/sendText", m.Instance), m.Number, m, last{m.Check, m.TraceParent, m.Connect})
}

// SendButtons sends a message with buttons, at most once. It is stored by the gateway with the text that ButtonsText gives.
func (c *Client) SendButtons(ctx context.Context, m Buttons) Result {
	return c.send(ctx, CallSendButtons, path("/message/sendButtons", m.Instance), m.Number, m, last{m.Check, m.TraceParent, m.Connect})
}

// ButtonsText is the text under which the gateway stores a message with buttons, without its last line break (Record.Text).
func ButtonsText(title, description string) string {
	if description == "" {
		return "*" + title + "*"
	}
	return strings.TrimRight("*"+title+"*\n\n"+description, "\n")
}

// last is what goes with a send beside its body.
type last struct {
	check   func() error
	trace   string
	connect time.Duration
}

func (c *Client) send(ctx context.Context, call Call, path, number string, message any, with last) Result {
	if with.check == nil {
		return Result{Verdict: refused(CodeRequestInvalid), Err: ErrNoCheck}
	}
	body, err := encode(message)
	if err != nil {
		return Result{Verdict: refused(CodeRequestInvalid), Err: fmt.Errorf("encode %s: %w", call, err)}
	}
	if len(body) > c.config.MaxRequestBytes {
		// It would not fit into one write.
		return Result{Verdict: refused(CodeRejected), Err: fmt.Errorf("encode %s: longer than %d bytes", call, c.config.MaxRequestBytes)}
	}
	version := c.KnownVersion()
	r := c.do(ctx, request{call: call, method: http.MethodPost, path: path, body: body, limit: c.config.Limits.Send, connect: with.connect, check: with.check, trace: with.trace})
	v := c.verdict(ctx, call, version, r)
	return Result{
		Verdict:    v,
		Wrote:      r.wrote,
		Pause:      r.pause,
		Stopped:    r.stopped,
		ForeignJID: v.RemoteJID != "" && !recipient.JIDMatches(v.RemoteJID, number),
		Status:     r.answer.Status,
		Err:        r.err,
	}
}

// encode writes JSON without the escapes meant for web pages, which would make a text up to six times longer.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
