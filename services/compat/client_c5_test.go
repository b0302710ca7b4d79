package compat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// sdk is the surface of the published SDK that the monitor uses.
type sdk struct{ base, key string }

// sdkError is the SDK's PilotStatusHttpError.
type sdkError struct {
	Status int
	Body   map[string]any
}

func (e *sdkError) Error() string { return fmt.Sprintf("HTTP %d: %v", e.Status, e.Body["error"]) }

func (s sdk) call(t *testing.T, method, path string, body any) (map[string]any, error) {
	t.Helper()
	a, err := fetch(plain, newRequest(t, request{
		method: method, url: s.base + path, key: s.key, body: body, header: map[string]string{"Accept": "application/json"},
	}))
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(a.raw, &out); err != nil {
		return nil, err
	}
	if a.status < 200 || a.status > 299 {
		return nil, &sdkError{a.status, out}
	}
	return out, nil
}

func (s sdk) send(t *testing.T, body map[string]any) (map[string]any, error) {
	t.Helper()
	return s.call(t, http.MethodPost, "/messages/send", body)
}

func (s sdk) get(t *testing.T, id string) (map[string]any, error) {
	t.Helper()
	return s.call(t, http.MethodGet, "/messages/"+url.PathEscape(id), nil)
}

func (s sdk) checkOptIn(t *testing.T, number string) (map[string]any, error) {
	t.Helper()
	return s.call(t, http.MethodGet, "/messages/opt-in?destinationNumber="+url.QueryEscape(number), nil)
}

// c5 is the monitor: it asks for the opt-in with a LIVE key, stores the id of the 202, and looks the webhook's messageId up in it.
type c5 struct {
	sdk
	mu     sync.Mutex
	stored map[string]bool
	found  []string // events whose messageId is a stored id
	heard  []string // all that had a messageId
}

func (c *c5) alert(t *testing.T, number, message string) (string, error) {
	t.Helper()
	if strings.HasPrefix(c.key, "ps_live_") {
		consent, err := c.checkOptIn(t, number)
		if err != nil {
			return "", err
		}
		if required, _ := consent["required"].(bool); required && consent["authorized"] != true {
			return "", fmt.Errorf("not authorized: %v", consent["reason"])
		}
	}
	out, err := c.send(t, map[string]any{"templateId": "generic_notification", "destinationNumber": number, "variables": map[string]any{"message": message}})
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored[stringOf(out, "id")] = true
	return stringOf(out, "id"), nil
}

// take is its webhook: 400 without data.messageId.
func (c *c5) take(h hook) int {
	var p struct {
		Event string `json:"event"`
		Data  struct {
			MessageID string `json:"messageId"`
		} `json:"data"`
	}
	if json.Unmarshal(h.body, &p) != nil || p.Data.MessageID == "" {
		return http.StatusBadRequest
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, p.Event)
	if c.stored[p.Data.MessageID] {
		c.found = append(c.found, p.Event)
	}
	return http.StatusOK
}

func c5Checks(t *testing.T, w *checks) {
	monitor := &c5{sdk: sdk{w.v1(), w.keys.shared}, stored: map[string]bool{}}
	w.hooks.answers("c5", monitor.take)
	w.check(t, "live_key_asks_for_the_opt_in", func(t *testing.T) {
		id, err := monitor.alert(t, someone, "c5: instance is down.")
		if err != nil || id == "" {
			t.Fatalf("%q, %v", id, err)
		}
		var m map[string]any
		eventually(t, "an answer about it", func() bool {
			m, err = monitor.get(t, id)
			later, ok := err.(*sdkError) //nolint:errorlint // as the SDK's users do: instanceof
			return !ok || later.Status != http.StatusServiceUnavailable
		}, nil)
		if err != nil || m["id"] != id {
			t.Errorf("%v, %v", m, err)
		}
	})
	w.check(t, "old_key_does_not", func(t *testing.T) {
		old := &c5{sdk: sdk{w.v1(), w.keys.old}, stored: map[string]bool{}}
		if id, err := old.alert(t, someone, "c5: with a key of the other prefix."); err != nil || id == "" {
			t.Errorf("%q, %v", id, err)
		}
	})
	w.check(t, "sdk_error", func(t *testing.T) {
		_, err := monitor.send(t, map[string]any{"templateId": "generic_notification", "destinationNumber": someone})
		failed, ok := err.(*sdkError) //nolint:errorlint // as the SDK's users do: instanceof
		if !ok || failed.Status != http.StatusBadRequest || failed.Body["code"] != "MISSING_TEMPLATE_VARIABLES" {
			t.Errorf("%v", err)
		}
	})
	w.check(t, "webhook_reads_message_id", func(t *testing.T) {
		id, err := monitor.alert(t, someone, "c5: heard of.")
		if err != nil {
			t.Fatal(err)
		}
		w.hooks.event(t, "c5", id, "message.read")
		for _, h := range w.hooks.of("c5", id) {
			if h.said != http.StatusOK || h.data(t)["messageId"] == id {
				t.Errorf("%d %s", h.said, h.body)
			}
		}
		monitor.mu.Lock()
		defer monitor.mu.Unlock()
		if len(monitor.heard) == 0 || len(monitor.found) != 0 { // messageId is WhatsApp's id, as the old service documented it
			t.Errorf("heard %d, found %d", len(monitor.heard), len(monitor.found))
		}
	})
	w.check(t, "refusal_of_its_webhook_harms_nobody", func(t *testing.T) {
		id := w.failing(t, "c5: refused by the gateway.")
		if h := w.hooks.event(t, "c5", id, "message.failed"); h.said != http.StatusBadRequest || h.data(t)["messageId"] != nil {
			t.Errorf("%d %s", h.said, h.body)
		}
		w.hooks.event(t, "plain", id, "message.failed")
	})
}
