package compat

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// c2 is the CRM in PHP: any 2xx is success; of an error it shows the scalar `error`.
type c2 struct{ base, key string }

// send adds the plus to a number and gives the id, or what it would show to its user.
func (c c2) send(t *testing.T, to string, fields map[string]any) (id, shown string) {
	t.Helper()
	if !strings.HasPrefix(to, "+") {
		to = "+" + to
	}
	body := map[string]any{"destinationNumber": to}
	for k, v := range fields {
		body[k] = v
	}
	a, err := fetch(browser(20*time.Second), newRequest(t, request{
		method: http.MethodPost, url: c.base + "/messages/send", body: body,
		header: map[string]string{"x-api-key": c.key, "Accept": "application/json"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	_ = json.Unmarshal(a.raw, &decoded) // json_decode: null when it is none
	if a.status >= 200 && a.status < 300 {
		return stringOf(decoded, "id"), ""
	}
	switch e := decoded["error"].(type) { // is_scalar
	case string:
		return "", e
	case float64, bool:
		return "", "scalar"
	}
	return "", "HTTP error"
}

// c2Inbox is its webhook: it marks an event as seen by event and id.
type c2Inbox struct {
	mu     sync.Mutex
	seen   map[string]int
	events []c2Event
}

type c2Event struct{ event, id, trouble string }

// take gives the HTTP status it answers with.
func (in *c2Inbox) take(raw []byte) int {
	var payload map[string]any
	if json.Unmarshal(raw, &payload) != nil {
		return http.StatusBadRequest
	}
	if _, native := payload["entry"].([]any); native { // Meta's own form, by `entry[].changes[]`
		return http.StatusOK
	}
	event := stringOf(payload, "event")
	data, _ := payload["data"].(map[string]any)
	id := firstOf(stringOf(data, "id"), stringOf(data, "internalMessageId"), stringOf(data, "message_id"), stringOf(data, "messageId"))
	if event == "" || id == "" {
		return http.StatusUnprocessableEntity
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.seen[event+":"+id]++; in.seen[event+":"+id] == 1 {
		trouble := firstOf(stringOf(data, "errorMessage"), stringOf(data, "error"), stringOf(data, "errorCode"), stringOf(data, "reason"))
		in.events = append(in.events, c2Event{event, id, trouble})
	}
	return http.StatusOK
}

// of lists the events of a message.
func (in *c2Inbox) of(id string) (out []c2Event) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range in.events {
		if e.id == id {
			out = append(out, e)
		}
	}
	return out
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func c2Checks(t *testing.T, w *checks) {
	crm := c2{w.v1(), w.keys.own}
	inbox := &c2Inbox{seen: map[string]int{}}
	w.hooks.answers("c2", func(h hook) int { return inbox.take(h.body) })
	w.check(t, "adds_the_plus", func(t *testing.T) {
		id, shown := crm.send(t, shortNumber, map[string]any{"text": "c2: hello."})
		if id == "" || stringOf(w.read(t, w.keys.own, id).json(t), "destinationNumber") != someone {
			t.Errorf("%q, %q", id, shown)
		}
	})
	w.check(t, "shows_scalar_errors", func(t *testing.T) {
		for name, c := range map[string]struct {
			client c2
			to     string
			fields map[string]any
		}{
			"no number":   {crm, "12", map[string]any{"text": "x"}},
			"no content":  {crm, someone, nil},
			"no key":      {c2{w.v1(), "ps_live_unknown"}, someone, map[string]any{"text": "x"}},
			"no template": {crm, someone, map[string]any{"templateId": "none"}},
			"media":       {crm, someone, map[string]any{"media": "https://example.com/a.png", "mediaType": "image"}},
		} {
			if id, shown := c.client.send(t, c.to, c.fields); id != "" || shown == "" || shown == "scalar" || shown == "HTTP error" {
				t.Errorf("%s: %q, %q", name, id, shown)
			}
		}
	})
	w.check(t, "webhook_by_event_and_id", func(t *testing.T) {
		id, _ := crm.send(t, someone, map[string]any{"text": "c2: heard of."})
		eventually(t, "three events", func() bool { return len(inbox.of(id)) == 3 }, nil)
		for _, e := range inbox.of(id) {
			if e.trouble != "" {
				t.Errorf("%+v", e)
			}
		}
	})
	w.check(t, "webhook_of_a_failure", func(t *testing.T) {
		id := w.failing(t, "c2: refused by the gateway.")
		var got []c2Event
		eventually(t, "it failed", func() bool { got = inbox.of(id); return len(got) == 1 }, nil)
		if got[0].event != "message.failed" || !strings.HasSuffix(got[0].trouble, ".") {
			t.Errorf("%+v", got)
		}
	})
}
