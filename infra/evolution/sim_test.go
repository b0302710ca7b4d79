package evolution_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/evolutionsim"
)

func pair(t *testing.T, o evolutionsim.Options) (*evolution.Client, *evolutionsim.Server) {
	t.Helper()
	o.Instances = append(o.Instances, evolutionsim.Instance{
		Name: "acme", Number: "5511888880000", Missing: []string{"5521911112222"}, Accounts: []string{"551188887777"},
	})
	s, err := evolutionsim.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return connect(t, s, evolution.Limits{}), s
}

func connect(t *testing.T, s *evolutionsim.Server, limits evolution.Limits) *evolution.Client {
	t.Helper()
	c, err := evolution.New(evolution.Config{BaseURL: s.URL(), APIKey: s.APIKey(), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func text(number, words string) evolution.Text {
	return evolution.Text{Instance: "acme", Number: number, Text: words, Check: func() error { return nil }}
}

func TestAMessageIsSentAndFoundAgain(t *testing.T) {
	t.Parallel()
	c, s := pair(t, evolutionsim.Options{})
	ctx, from := t.Context(), time.Now().Add(-5*time.Second)
	numbers, err := c.WhatsAppNumbers(ctx, "acme", []string{"5511988887777"})
	if err != nil || len(numbers) != 1 || !numbers[0].Exists || !recipient.JIDMatches(numbers[0].JID, "5511988887777") {
		t.Fatalf("%+v %v", numbers, err)
	}
	if err := c.SendPresence(ctx, "acme", "5511988887777", "composing", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	r := c.SendText(ctx, text("5511988887777", "olá <&> \u2028"))
	if r.Outcome != evolution.Accepted || r.RemoteJID != "551188887777@s.whatsapp.net" || r.ForeignJID {
		t.Fatalf("%+v", r)
	}
	b := c.SendButtons(ctx, evolution.Buttons{
		Instance: "acme", Number: "5511988887777", Title: "T", Description: "D",
		Buttons: []evolution.Button{{Type: "reply", DisplayText: "ok", ID: "1"}}, Check: func() error { return nil },
	})
	if b.Outcome != evolution.Accepted {
		t.Fatalf("%+v", b)
	}
	found, err := c.FindMessages(ctx, evolution.Query{Instance: "acme", RemoteJID: r.RemoteJID, From: from, To: time.Now().Add(time.Minute), PageSize: 1})
	if err != nil || !found.Complete || len(found.Records) != 2 {
		t.Fatalf("%+v %v", found, err)
	}
	if found.Records[0].Text != evolution.ButtonsText("T", "D") || found.Records[1].Text != "olá <&> \u2028" || found.Records[1].KeyID != r.GatewayID {
		t.Errorf("%+v", found.Records)
	}
	if n := s.Ledger(evolutionsim.Filter{}).Total; n != 2 {
		t.Errorf("%d messages left", n)
	}
}

// TestVerdictsHoldAgainstTheLedger compares what a verdict claims with what really left.
func TestVerdictsHoldAgainstTheLedger(t *testing.T) {
	t.Parallel()
	unavailable := `{"status":500,"error":"Internal Server Error","response":{"message":"Connection Closed"}}`
	for name, tt := range map[string]struct {
		fault evolutionsim.Fault
		want  evolution.Outcome
		left  int64
	}{
		"reset after":    {evolutionsim.Fault{Kind: "reset", When: "after"}, evolution.Unknown, 1},
		"reset before":   {evolutionsim.Fault{Kind: "reset"}, evolution.Unknown, 0},
		"hang after":     {evolutionsim.Fault{Kind: "hang", When: "after"}, evolution.Unknown, 1},
		"unsaved":        {evolutionsim.Fault{Kind: "unsaved"}, evolution.Unknown, 1},
		"malformed 201":  {evolutionsim.Fault{Kind: "answer", When: "after", Status: 201, Body: `{"key":`}, evolution.Accepted, 1},
		"502 after":      {evolutionsim.Fault{Kind: "answer", When: "after", Status: 502}, evolution.Unknown, 1},
		"closed":         {evolutionsim.Fault{Kind: "answer", Status: 500, Body: unavailable}, evolution.Deferred, 0},
		"404 of a proxy": {evolutionsim.Fault{Kind: "answer", Status: 404, Body: "<html>", ContentType: "text/html"}, evolution.Deferred, 0},
		"misroute":       {evolutionsim.Fault{Kind: "misroute", JID: "5519988887777@s.whatsapp.net"}, evolution.Accepted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := pair(t, evolutionsim.Options{})
			if tt.fault.Kind == "hang" { // as long as a machine may stand still: what was not written is another verdict
				c = connect(t, s, evolution.Limits{Send: 3 * time.Second})
			}
			if _, err := s.AddFault(tt.fault); err != nil {
				t.Fatal(err)
			}
			r := c.SendText(t.Context(), text("5511999990000", "x"))
			if r.Outcome != tt.want || s.Ledger(evolutionsim.Filter{}).Total != tt.left {
				t.Errorf("%+v with %d messages left", r, s.Ledger(evolutionsim.Filter{}).Total)
			}
			if r.ForeignJID != (name == "misroute") {
				t.Errorf("foreign address: %v", r.ForeignJID)
			}
		})
	}
}

func TestStatesOfAnInstance(t *testing.T) {
	t.Parallel()
	c, _ := pair(t, evolutionsim.Options{Instances: []evolutionsim.Instance{{Name: "ghost", Unloaded: true}, {Name: "new"}}})
	for name, want := range map[string]string{"ghost": evolution.CauseNotLoaded, "new": evolution.CauseNotLoaded, "nobody": evolution.CauseInstanceUnknown} {
		m := text("5511999990000", "x")
		m.Instance = name
		if r := c.SendText(t.Context(), m); r.Code != want || r.Outcome != evolution.Deferred || !r.Park {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if state, err := c.ConnectionState(t.Context(), "ghost"); err != nil || state != evolution.StateNotLoaded {
		t.Errorf("%q %v", state, err)
	}
	if r := c.SendText(t.Context(), text("5521911112222", "x")); !r.NumberRefused {
		t.Errorf("%+v", r)
	}
	var f *evolution.Failure
	if _, err := c.WhatsAppNumbers(t.Context(), "new", []string{"1"}); !errors.As(err, &f) || f.Verdict.Scope != evolution.ScopeInstance {
		t.Errorf("%v", err)
	}
}

func TestAnInstanceIsPaired(t *testing.T) {
	t.Parallel()
	c, s := pair(t, evolutionsim.Options{})
	ctx := t.Context()
	if p, err := c.Connect(ctx, "acme"); err != nil || p != (evolution.Pairing{Open: true}) {
		t.Errorf("connected: %+v %v", p, err)
	}
	if err := s.AddInstance(evolutionsim.Instance{Name: "new"}); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Connect(ctx, "new"); err != nil || p != (evolution.Pairing{}) {
		t.Errorf("before there is a code: %+v %v", p, err)
	}
	first, err := c.Connect(ctx, "new")
	if err != nil || first.Open || first.Text == "" || !strings.HasPrefix(first.Picture, "data:image/png;base64,") {
		t.Errorf("code: %+v %v", first, err)
	}
	if second, err := c.Connect(ctx, "new"); err != nil || second.Text == first.Text {
		t.Errorf("the code is not renewed: %+v %v", second, err)
	}
	if state, err := c.ConnectionState(ctx, "new"); err != nil || state != evolution.StateConnecting {
		t.Errorf("state: %s %v", state, err)
	}
	if _, err := c.Connect(ctx, "none"); err == nil {
		t.Error("an instance that is not there was connected")
	}
	if _, err := s.AddFault(evolutionsim.Fault{Kind: "answer", Status: 200, Body: `{"error":true,"message":"[object Object]"}`, Call: "connect", Times: 1}); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Connect(ctx, "new"); err == nil {
		t.Errorf("an error is a pairing: %+v", p)
	}
}
