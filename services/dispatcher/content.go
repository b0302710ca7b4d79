package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/infra/evolution"
)

// content is the personal part of a message, unsealed for one turn.
type content struct {
	events.Payload
	trace     string // W3C trace context of the message
	recipient string // its keyed hash
	again     bool   // an operator sends it once more
	done      func() // lets the lane bring its next message
}

// content reads the accepted message, from its lane when it is at its head, else by direct get, and unseals it.
// A key that cannot be read parks the message, it does not fail it.
func (a *actor) content(ctx context.Context, j job) (content, bool) {
	rec, done := a.head(ctx, j)
	if rec == nil {
		var err error
		if rec, err = a.read(ctx, j.queuedSeq); err != nil {
			a.log.Warn().Err(err).Str("message", j.id).Msg("read accepted message")
			a.postpone(j, postponeFor)
			return content{}, false
		}
	}
	p, err := a.unseal(ctx, *rec)
	if err != nil {
		a.log.Warn().Err(err).Str("message", j.id).Msg("unseal message")
		done()
		a.postpone(j, parkedKeyFor)
		return content{}, false
	}
	body, _ := rec.Body.(*events.MessageQueued)
	return content{Payload: p, trace: rec.TraceParent, recipient: body.RecipientHash, again: body.RetryOf != "", done: done}, true
}

// parkedKeyFor is how long a message whose key cannot be read waits before it is tried again.
const parkedKeyFor = 30 * time.Second

func (a *actor) read(ctx context.Context, seq uint64) (*events.Recorded, error) {
	bounded, cancel := context.WithTimeout(ctx, a.p.d.set.AppendTry)
	defer cancel()
	rec, err := a.p.log.Get(bounded, events.EventsStream(a.p.n), seq)
	if err != nil {
		return nil, err
	}
	return &rec, nil
}

func (a *actor) unseal(ctx context.Context, rec events.Recorded) (events.Payload, error) {
	body, ok := rec.Body.(*events.MessageQueued)
	if !ok {
		return events.Payload{}, events.Errorf(events.CodeMalformed, "the event at %s is no accepted message", rec.Position)
	}
	bounded, cancel := context.WithTimeout(ctx, a.p.d.set.AppendTry)
	defer cancel()
	raw, err := a.p.d.keys.OpenPayload(bounded, rec.TenantID, rec.Subject, body.Sealed)
	if err != nil {
		return events.Payload{}, fmt.Errorf("open payload: %w", err)
	}
	var p events.Payload
	if err := json.Unmarshal(raw, &p); err != nil {
		return events.Payload{}, events.Errorf(events.CodeMalformed, "the payload at %s does not decode", rec.Position)
	}
	return p, nil
}

func callOf(c content) evolution.Call {
	if len(c.Content.Buttons) > 0 {
		return evolution.CallSendButtons
	}
	return evolution.CallSendText
}

// storedText is the text under which the gateway stores the message: what look-ups compare.
func storedText(c template.Content) string {
	if len(c.Buttons) == 0 {
		return c.Text()
	}
	title, description := titled(c)
	return evolution.ButtonsText(title, description)
}

// titled splits a content with buttons into the gateway's title and description. The gateway prints "*undefined*" without a
// title, so a content without a header lends its first line.
func titled(c template.Content) (title, description string) {
	if c.Header != "" {
		return c.Header, c.Body
	}
	title, description, _ = strings.Cut(c.Body, "\n")
	return title, strings.TrimLeft(description, "\n")
}

func buttons(c template.Content) []evolution.Button {
	out := make([]evolution.Button, 0, len(c.Buttons))
	for i, b := range c.Buttons {
		g := evolution.Button{DisplayText: b.Text}
		switch b.Type {
		case template.URL:
			g.Type, g.URL = "url", b.URL
		case template.PhoneNumber:
			g.Type, g.PhoneNumber = "call", b.PhoneNumber
		case template.CopyCode:
			g.Type, g.CopyCode = "copy", b.Code
		default:
			g.Type, g.ID = "reply", strconv.Itoa(i+1)
		}
		out = append(out, g)
	}
	return out
}
