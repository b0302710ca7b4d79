package compat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/services/app"
)

// c3 is the provider of many tenants: 30 s limit and up to two repeats on a network error, 429 and 500 or more, without a key.
type c3 struct {
	base, key string
	wire      http.RoundTripper
	header    map[string]string
	tries     int // of the last call
}

// c3Failure is its error of a provider.
type c3Failure struct {
	status        int
	code, message string
}

const c3Repeats = 2

// call is its `request()`: it repeats, and reads `code` and `message ?? error` of what is no success.
func (c *c3) call(t *testing.T, method, path string, body any) (map[string]any, *c3Failure) {
	t.Helper()
	client := browser(30 * time.Second)
	if c.wire != nil {
		client.Transport = c.wire
	}
	for try := 0; ; try++ {
		c.tries = try + 1
		header := map[string]string{"x-api-key": c.key, "Accept": "application/json", "User-Agent": "messaging-provider/3"}
		for k, v := range c.header {
			header[k] = v
		}
		a, err := fetch(client, newRequest(t, request{method: method, url: c.base + path, body: body, header: header}))
		again := err != nil || a.status == http.StatusTooManyRequests || a.status >= http.StatusInternalServerError
		if again && try < c3Repeats {
			await.Elapsed(t.Context(), 250*time.Millisecond<<try)
			continue
		}
		if err != nil {
			return nil, &c3Failure{message: err.Error()}
		}
		decoded := map[string]any{}
		if json.Unmarshal(a.raw, &decoded) != nil {
			return nil, &c3Failure{status: a.status, message: "not JSON"}
		}
		if a.status < 200 || a.status > 299 {
			return nil, &c3Failure{a.status, stringOf(decoded, "code"), firstOf(stringOf(decoded, "message"), stringOf(decoded, "error"))}
		}
		return decoded, nil
	}
}

// c3Status is its map of states; what it does not know it takes for queued.
func c3Status(status string) (state string, known bool) {
	state, known = map[string]string{
		"QUEUED": "queued", "SENT": "sent", "DELIVERED": "delivered", "READ": "read", "FAILED": "failed",
		"CANCELED": "canceled", "CANCELLED": "canceled",
	}[status]
	return firstOf(state, "queued"), known
}

// c3Query is what its webhook is guarded by. It must arrive byte for byte.
const c3Query = "?token=s3cret%2Fwith+signs&tenant=a%20b"

// c3Inbox is its webhook.
type c3Inbox struct {
	mu     sync.Mutex
	seen   map[string]bool
	states map[string][]string // by id of the 202
}

func (in *c3Inbox) take(h hook) int {
	if !strings.HasSuffix(h.uri, c3Query) {
		return http.StatusUnauthorized
	}
	var p struct {
		Event string `json:"event"`
		Data  struct {
			InternalMessageID string  `json:"internalMessageId"`
			MessageID         *string `json:"messageId"`
			Status            string  `json:"status"`
			SentAt            string  `json:"sentAt"`
			DeliveredAt       string  `json:"deliveredAt"`
			ReadAt            string  `json:"readAt"`
			FailedAt          string  `json:"failedAt"`
		} `json:"data"`
	}
	if json.Unmarshal(h.body, &p) != nil {
		return http.StatusBadRequest
	}
	at := firstOf(p.Data.SentAt, p.Data.DeliveredAt, p.Data.ReadAt, p.Data.FailedAt)
	sum := sha256.Sum256([]byte(p.Event + "|" + p.Data.InternalMessageID + "|" + at)) // its event id
	id := hex.EncodeToString(sum[:])
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.seen[id] {
		in.seen[id] = true
		state, known := c3Status(p.Data.Status)
		if !known || at == "" {
			state = "unknown"
		}
		in.states[p.Data.InternalMessageID] = append(in.states[p.Data.InternalMessageID], state)
	}
	return http.StatusOK
}

func (in *c3Inbox) of(id string) []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]string(nil), in.states[id]...)
}

// bad is a wire that fails the first calls: before they reach Pilot, by a 503 of a proxy, or by losing the answer.
type bad struct {
	mu   sync.Mutex
	plan []string
}

func (b *bad) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	var now string
	if len(b.plan) > 0 {
		now, b.plan = b.plan[0], b.plan[1:]
	}
	b.mu.Unlock()
	switch now {
	case "refused":
		return nil, errors.New("connection refused")
	case "503":
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	resp, err := transport.RoundTrip(r)
	if now == "lost" && err == nil {
		_ = resp.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return resp, err
}

func c3Checks(t *testing.T, w *checks) {
	provider := func() *c3 { return &c3{base: w.v1(), key: w.keys.own} }
	inbox := &c3Inbox{seen: map[string]bool{}, states: map[string][]string{}}
	w.hooks.answers("c3", inbox.take)
	w.check(t, "all_fields", func(t *testing.T) {
		out, failure := provider().call(t, http.MethodPost, "/messages/send", map[string]any{
			"destinationNumber": someone, "templateId": "onboarding-test", "variables": map[string]any{"name": "c3"},
			"labels": []string{"lead", "2026"}, "deliverAt": ahead(-time.Minute), "deliverUntil": ahead(time.Hour),
			"marketingOptions": map[string]any{"aiRewriteEnabled": true}, "groupId": nil, "newsletterId": nil,
		})
		if failure != nil || stringOf(out, "id") == "" || stringOf(out, "status") != "QUEUED" {
			t.Errorf("%v, %+v", out, failure)
		}
	})
	w.check(t, "repeats_are_one_message", func(t *testing.T) {
		c := provider()
		c.wire = &bad{plan: []string{"refused", "503"}}
		out, failure := c.call(t, http.MethodPost, "/messages/send", text("c3: the third try."))
		if failure != nil || c.tries != 3 {
			t.Fatalf("%d tries: %+v", c.tries, failure)
		}
		w.await(t, w.keys.own, stringOf(out, "id"), "READ")
		if n := w.left("c3: the third try."); n != 1 {
			t.Errorf("%d left", n)
		}
	})
	w.check(t, "repeats_after_429", func(t *testing.T) {
		base := w.beside(func(cfg *app.Config) { cfg.BurstRate, cfg.Burst = 4, 1 }) + "/v1"
		body := map[string]any{"destinationNumber": someone, "templateId": "code", "variables": map[string]any{"code": "331177"}}
		// Three at once, and the burst of this key is one. On a busy machine they may come one after the other all the same.
		var sent, repeated atomic.Int64
		for range 10 {
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					c := &c3{base: base, key: w.keys.other}
					if _, failure := c.call(t, http.MethodPost, "/messages/send", body); failure != nil {
						t.Errorf("%+v", failure)
					}
					sent.Add(1)
					repeated.Add(int64(c.tries - 1))
				})
			}
			all.Wait()
			if repeated.Load() > 0 {
				break
			}
		}
		if repeated.Load() == 0 {
			t.Error("nothing was answered 429")
		}
		eventually(t, "all left", func() bool { return w.left("331177") == int(sent.Load()) }, nil)
	})
	w.check(t, "lost_answer", func(t *testing.T) {
		c := provider() // nothing tells the repeat from a second message of the same text, as with the old service …
		c.wire = &bad{plan: []string{"lost"}}
		if _, failure := c.call(t, http.MethodPost, "/messages/send", text("c3: its answer was lost.")); failure != nil || c.tries != 2 {
			t.Fatalf("%d tries: %+v", c.tries, failure)
		}
		eventually(t, "both left", func() bool { return w.left("c3: its answer was lost.") == 2 }, nil)
		c.wire, c.header = &bad{plan: []string{"lost"}}, map[string]string{"Idempotency-Key": "c3-" + random(8)} // … but a key
		out, failure := c.call(t, http.MethodPost, "/messages/send", text("c3: it has a key."))
		if failure != nil || c.tries != 2 {
			t.Fatalf("%d tries: %+v", c.tries, failure)
		}
		w.await(t, w.keys.own, stringOf(out, "id"), "READ")
		if n := w.left("c3: it has a key."); n != 1 {
			t.Errorf("%d left", n)
		}
	})
	w.check(t, "cancels_with_a_body", func(t *testing.T) {
		c := provider()
		out, failure := c.call(t, http.MethodPost, "/messages/send", with(text("c3: tomorrow."), "deliverAt", ahead(24*time.Hour)))
		if failure != nil {
			t.Fatalf("%+v", failure)
		}
		id := stringOf(out, "id")
		eventually(t, "a word about it", func() bool {
			out, failure = c.call(t, http.MethodDelete, "/messages/cancel", map[string]any{"messageIds": []string{id}})
			return failure != nil || !strings.Contains(fmt.Sprint(listOf(out, "failed")...), tryAgain)
		}, nil)
		if done := listOf(out, "cancelled"); failure != nil || len(done) != 1 || done[0] != id || len(listOf(out, "failed")) != 0 {
			t.Errorf("%v, %+v", out, failure)
		}
		if state, known := c3Status(stringOf(w.await(t, w.keys.own, id, "CANCELED"), "status")); state != "canceled" || !known {
			t.Error(state)
		}
	})
	w.check(t, "reads_errors", func(t *testing.T) {
		for want, body := range map[c3Failure]map[string]any{
			{status: 400, code: "MISSING_TEMPLATE_VARIABLES"}: {"destinationNumber": someone, "templateId": "onboarding-test"},
			{status: 400, code: "GROUP_NOT_SUPPORTED"}:        {"groupId": "120363021234567890@g.us", "text": "x"},
			{status: 404, code: "TEMPLATE_NOT_FOUND"}:         {"destinationNumber": someone, "templateId": "none"},
		} {
			c := provider()
			_, failure := c.call(t, http.MethodPost, "/messages/send", body)
			if failure == nil || failure.status != want.status || failure.code != want.code || failure.message == "" || c.tries != 1 {
				t.Errorf("%+v after %d tries, want %+v", failure, c.tries, want)
			}
		}
	})
	w.check(t, "webhook_with_token", func(t *testing.T) {
		out, failure := provider().call(t, http.MethodPost, "/messages/send", text("c3: heard of."))
		if failure != nil {
			t.Fatalf("%+v", failure)
		}
		id := stringOf(out, "id")
		eventually(t, "three states", func() bool { return len(inbox.of(id)) == 3 }, nil)
		for _, state := range inbox.of(id) {
			if state == "unknown" || state == "queued" {
				t.Error(inbox.of(id))
			}
		}
	})
}
