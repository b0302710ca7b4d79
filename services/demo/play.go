package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"pilotstatus.dev/infra/apicall"
	"pilotstatus.dev/infra/await"
)

// Result is the last line of a demonstration.
type Result struct {
	Accepted         int `json:"accepted"`
	Read             int `json:"read"`
	Ledger           int `json:"ledger"`
	Duplicates       int `json:"duplicates"`
	WebhooksVerified int `json:"webhooksVerified"`
}

// Good reports that everything that was accepted left once, was read, and was told to the customer.
func (r Result) Good() bool {
	return r.Accepted > 0 && r.Read == r.Accepted && r.Ledger == r.Accepted && r.Duplicates == 0 && r.WebhooksVerified >= r.Accepted
}

// Player plays a customer over HTTP and shows what becomes of the messages.
type Player struct {
	API    string // base URL
	Ledger string // URL of the simulator's ledger
	Stage  *Stage
	Out    io.Writer
	// Within bounds the whole play.
	Within time.Duration
}

// act is one message to send.
type act struct {
	title, key string
	body       map[string]any
}

// sent is a message the API took.
type sent struct {
	act
	ID     string `json:"id"`
	Origin string `json:"origin"`
}

func (p *Player) acts() []act {
	k := p.Stage.Keys
	order := rand.Text()[:8] // played again, be it at once, it is another text: the same one within ten minutes is suppressed
	return []act{
		{"OTP, shared number", k.Live, map[string]any{
			"templateId": TemplateOTP, "destinationNumber": "+5511988887777", "variables": map[string]string{"code": "482913"},
		}},
		{"UTILITY with buttons, shared number", k.Live, map[string]any{
			"templateId": TemplateUtility, "destinationNumber": "+5521977776666", "variables": map[string]string{"order": order, "name": "Maria"},
		}},
		{"MARKETING, own number", k.Own, map[string]any{
			"templateId": TemplateMarket, "destinationNumber": "+5511955554444", "variables": map[string]string{"name": "João"},
		}},
	}
}

// Play sends, waits until every message is read and told, and prints timelines, webhooks and ledger.
func (p *Player) Play(ctx context.Context) (Result, error) {
	if p.Stage.Keys == nil {
		return Result{}, errors.New("the demonstration needs a fresh deployment: its keys were printed earlier")
	}
	ctx, cancel := context.WithTimeout(ctx, p.Within)
	defer cancel()
	var r Result
	var all []sent
	for _, a := range p.acts() {
		s := sent{act: a}
		if err := p.call(ctx, http.MethodPost, p.API+"/v1/messages/send", a.key, a.body, http.StatusAccepted, &s); err != nil {
			return r, fmt.Errorf("send %s: %w", a.title, err)
		}
		r.Accepted++
		fmt.Fprintf(p.Out, "202  %s  %s (from %s)\n", s.ID, a.title, s.Origin)
		all = append(all, s)
	}
	for _, s := range all {
		if err := p.awaitRead(ctx, s); err != nil {
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return r, errors.Join(err, p.showTimeline(late, s)) // what became of it
		}
		r.Read++
		if err := p.showTimeline(ctx, s); err != nil {
			return r, err
		}
	}
	hooks, err := p.awaitHooks(ctx, all)
	if err != nil {
		return r, err
	}
	r.WebhooksVerified = len(hooks)
	fmt.Fprintln(p.Out, "\ncustomer webhooks, signatures verified")
	for _, h := range hooks {
		fmt.Fprintf(p.Out, "  %-18s %s  webhook-id %s\n", h.Event, h.MessageID, h.ID)
	}
	return r, p.showLedger(ctx, &r)
}

func (p *Player) awaitRead(ctx context.Context, s sent) error {
	var m struct {
		Status    string `json:"status"`
		Stage     string `json:"stage"`
		ErrorCode string `json:"errorCode"`
	}
	for {
		if err := p.call(ctx, http.MethodGet, p.API+"/v1/messages/"+s.ID, s.key, nil, http.StatusOK, &m); err != nil {
			return fmt.Errorf("read %s: %w", s.ID, err)
		}
		switch m.Status {
		case "READ":
			return nil
		case "FAILED", "CANCELED":
			return fmt.Errorf("%s, %s, ended %s (%s %s)", s.title, s.ID, m.Status, m.Stage, m.ErrorCode)
		}
		if !await.Elapsed(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s, %s, stayed %s (%s %s): %w", s.title, s.ID, m.Status, m.Stage, m.ErrorCode, ctx.Err())
		}
	}
}

func (p *Player) showTimeline(ctx context.Context, s sent) error {
	var t struct {
		Data []struct {
			Event    string    `json:"event"`
			Time     time.Time `json:"time"`
			Position string    `json:"position"`
			Attempt  *int      `json:"attempt"`
		} `json:"data"`
	}
	if err := p.call(ctx, http.MethodGet, p.API+"/v1/messages/"+s.ID+"/events", s.key, nil, http.StatusOK, &t); err != nil {
		return fmt.Errorf("read timeline of %s: %w", s.ID, err)
	}
	fmt.Fprintf(p.Out, "\n%s  %s\n", s.ID, s.title)
	for _, e := range t.Data {
		attempt := ""
		if e.Attempt != nil && *e.Attempt > 0 {
			attempt = fmt.Sprintf("attempt %d", *e.Attempt)
		}
		fmt.Fprintf(p.Out, "  %-20s %s  at %-8s %s\n", e.Event, e.Time.Format("15:04:05.000"), e.Position, attempt)
	}
	return nil
}

// events each message is told of: sent, delivered, read.
const eventsPerMessage = 3

func (p *Player) awaitHooks(ctx context.Context, all []sent) ([]Hook, error) {
	for {
		hooks, refused := p.Stage.Receiver.Hooks()
		if refused > 0 {
			return nil, fmt.Errorf("%d webhooks had no valid signature", refused)
		}
		if len(hooks) >= len(all)*eventsPerMessage {
			return hooks, nil
		}
		if !await.Elapsed(ctx, 20*time.Millisecond) {
			return nil, fmt.Errorf("%d webhooks came: %w", len(hooks), ctx.Err())
		}
	}
}

func (p *Player) showLedger(ctx context.Context, r *Result) error {
	var l struct {
		Entries []struct {
			Seq      int    `json:"seq"`
			Instance string `json:"instance"`
			Call     string `json:"call"`
			JID      string `json:"jid"`
			KeyID    string `json:"keyId"`
			TextHash string `json:"textHash"`
		} `json:"entries"`
	}
	if err := p.call(ctx, http.MethodGet, p.Ledger, "", nil, http.StatusOK, &l); err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	fmt.Fprintln(p.Out, "\nthe gateway's ledger: what left")
	seen := map[string]bool{}
	for _, e := range l.Entries {
		r.Ledger++
		if seen[e.JID+e.TextHash] {
			r.Duplicates++
		}
		seen[e.JID+e.TextHash] = true
		fmt.Fprintf(p.Out, "  %d  %-13s %-12s %s  %s\n", e.Seq, e.Instance, e.Call, e.KeyID, e.JID)
	}
	return nil
}

// call makes one HTTP call and decodes the answer.
func (p *Player) call(ctx context.Context, method, url, key string, body any, want int, into any) error {
	status, raw, err := apicall.Do(ctx, client, method, url, key, body)
	if err != nil {
		return err
	}
	if status != want {
		return fmt.Errorf("%s %s answered %d: %s", method, url, status, raw)
	}
	return json.Unmarshal(raw, into)
}

var client = &http.Client{Timeout: 20 * time.Second}
