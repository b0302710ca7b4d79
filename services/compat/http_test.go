package compat

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
)

// transport is the wire that all clients share.
var transport = &http.Transport{MaxIdleConnsPerHost: 32}

// errRedirected fails a client that is redirected: those of old repeat a redirected POST in ways of their own.
var errRedirected = errors.New("redirected")

// browser makes a client with a time limit, as each of them has.
func browser(limit time.Duration) *http.Client {
	return &http.Client{Timeout: limit, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirected }}
}

var plain = browser(20 * time.Second)

// request is one call.
type request struct {
	method, url, key string
	body             any // a string is sent as it is
	header           map[string]string
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	raw    []byte
}

// json reads the body as every client does, whatever the status.
func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	return objectOf(t, a.raw)
}

// newRequest builds a request; header names are written as given, not in canonical case.
func newRequest(t *testing.T, r request) *http.Request {
	t.Helper()
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case string:
		body = bytes.NewReader([]byte(b))
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, r.url, body)
	if err != nil {
		t.Fatal(err)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		req.Header["x-api-key"] = []string{r.key}
	}
	for name, value := range r.header {
		req.Header[name] = []string{value}
	}
	return req
}

// fetch makes one call with a client's own limits.
func fetch(client *http.Client, req *http.Request) (answer, error) {
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, raw}, err
}

// call makes a call, and a read again while the answer is that it cannot be told just now.
func (w *world) call(t *testing.T, r request) (a answer) {
	t.Helper()
	eventually(t, "an answer to "+r.method+" "+r.url, func() bool {
		var err error
		if a, err = fetch(plain, newRequest(t, r)); err != nil {
			t.Fatal(err)
		}
		return r.method != http.MethodGet || a.status != http.StatusServiceUnavailable
	}, func() string { return string(a.raw) })
	return a
}

// v1 and apiV1 are the two bases that clients are configured with.
func (w *world) v1() string    { return w.app.URLs().API + "/v1" }
func (w *world) apiV1() string { return w.app.URLs().API + "/api/v1" }

func (w *world) send(t *testing.T, key string, body any) answer {
	t.Helper()
	return w.call(t, request{method: http.MethodPost, url: w.v1() + "/messages/send", key: key, body: body})
}

// accepted sends and gives the 202's body.
func (w *world) accepted(t *testing.T, key string, body any) map[string]any {
	t.Helper()
	a := w.send(t, key, body)
	if a.status != http.StatusAccepted {
		t.Fatalf("send: %d %s", a.status, a.raw)
	}
	return a.json(t)
}

func (w *world) read(t *testing.T, key, id string) answer {
	t.Helper()
	return w.call(t, request{method: http.MethodGet, url: w.v1() + "/messages/" + id, key: key})
}

// await reads a message until it has the status.
func (w *world) await(t *testing.T, key, id, status string) map[string]any {
	t.Helper()
	var a answer
	eventually(t, id+" is "+status, func() bool {
		a = w.read(t, key, id)
		return a.status == http.StatusOK && stringOf(a.json(t), "status") == status
	}, func() string { return string(a.raw) })
	return a.json(t)
}

// cancel cancels messages, again while one of them is to be tried again.
func (w *world) cancel(t *testing.T, key string, ids ...string) (a answer) {
	t.Helper()
	eventually(t, "a word about each", func() bool {
		a = w.call(t, request{method: http.MethodDelete, url: w.v1() + "/messages/cancel", key: key, body: map[string]any{"messageIds": ids}})
		return !bytes.Contains(a.raw, []byte(tryAgain))
	}, func() string { return string(a.raw) })
	return a
}

// tryAgain is why a message was not canceled of which nothing can be said just now.
const tryAgain = "TRY_AGAIN"

// left counts what the gateway sent with a text.
func (w *world) left(text string) int {
	return len(w.sim.Ledger(evolutionsim.Filter{Text: text}).Entries)
}

// text is free text to someone.
func text(s string) map[string]any { return map[string]any{"destinationNumber": someone, "text": s} }

// with adds fields to a body.
func with(body map[string]any, pairs ...any) map[string]any {
	for i := 0; i+1 < len(pairs); i += 2 {
		body[pairs[i].(string)] = pairs[i+1]
	}
	return body
}

// ahead is a time in the form that clients write, which is that of JavaScript's toISOString.
func ahead(d time.Duration) string { return time.Now().Add(d).UTC().Format("2006-01-02T15:04:05.000Z") }

// failing sends what the gateway refuses for good.
func (w *world) failing(t *testing.T, body string) (id string) {
	t.Helper()
	_, err := w.sim.AddFault(evolutionsim.Fault{
		Kind: "answer", Status: http.StatusBadRequest, TextContains: body,
		Body: `{"status":400,"error":"Bad Request","response":{"message":["Text is required"]}}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	return stringOf(w.accepted(t, w.keys.own, text(body)), "id")
}

type fault = evolutionsim.Fault

// fault makes the gateway misbehave for one text.
func (w *world) fault(t *testing.T, f fault) {
	t.Helper()
	if _, err := w.sim.AddFault(f); err != nil {
		t.Fatal(err)
	}
}
