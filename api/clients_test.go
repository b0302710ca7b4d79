package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
)

// What customers' clients do, as seen in public code, goes on working (docs/reference/api.md, Clients).

// A client of several tenants: 30 s limit, up to two repeats on network errors, 429 and 5xx, all fields, no idempotency key.
func TestClientThatRepeats(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	accept := f.log.append
	calls := 0
	f.log.append = func(ctx context.Context, e events.Event) (uint64, error) {
		if calls++; calls < 3 {
			return 0, events.Errorf(events.CodeUnavailable, "leader change")
		}
		return accept(ctx, e)
	}
	f.start()
	body := `{"destinationNumber":"+5511987650123","templateId":"generic_notification","variables":{"name":"a","message":"b"},
		"labels":["lead"],"deliverAt":"2026-11-29T15:30:00.000Z","deliverUntil":"2026-11-29T18:00:00.000Z",
		"marketingOptions":{"aiRewriteEnabled":false},"groupId":null,"newsletterId":null}`
	var last reply
	for try := 0; try < 3; try++ {
		last = f.send(liveKey, body)
		if last.status != http.StatusTooManyRequests && last.status < 500 {
			break
		}
		if s, ok := last.member(t, "error").(string); !ok || s == "" {
			t.Errorf("error is no string: %s", last.body)
		}
	}
	if last.status != http.StatusAccepted || len(f.events()) != 1 {
		t.Fatalf("%d, %d events", last.status, len(f.events()))
	}
	id, _ := last.member(t, "id").(string)
	view := stored(func(m *MessageView) { m.ID, m.Stage, m.Sealed = id, events.StageUnconfirmed, events.Sealed{} })
	f.serve(view)
	if got := f.get("/v1/messages/"+id, liveKey).member(t, "status"); got != "QUEUED" {
		t.Errorf("status = %v", got)
	}
}

// Edge functions: the /api/v1 route, one generic template, JSON parsed whatever the status.
func TestClientThatAlwaysParses(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	ok := `{"templateId":"generic_notification","destinationNumber":"5511987650123","variables":{"message":"Oi","name":"x"}}`
	for body, want := range map[string]int{ok: 202, `{"templateId":"generic_notification"}`: 400, `x`: 400} {
		r := f.do(http.MethodPost, "/api/v1/messages/send", liveKey, strings.NewReader(body), "Content-Type", "application/json")
		if r.status != want || !json.Valid(r.body) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	for _, path := range []string{"/api/v1/none", "/none"} {
		if r := f.get(path, ""); !json.Valid(r.body) {
			t.Errorf("%s: %s", path, r.body)
		}
	}
}

// A sender of codes: all variables made strings, any 2xx is success, no content type, header names in any case.
func TestClientThatLooksAtTheStatusOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	for variables, want := range map[string]int{`{"code":"123456"}`: 202, `{"code":123456}`: 400, `{"code":""}`: 400, `{}`: 400} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+"/v1/messages/send",
			strings.NewReader(`{"templateId":"code","destinationNumber":"+5511987650123","variables":`+variables+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header["X-API-KEY"] = []string{liveKey} // as written, not canonical
		req.Header.Set("Accept", "text/html, */*;q=0.1")
		begun := time.Now()
		resp, err := f.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want || !json.Valid(body) || time.Since(begun) > 20*time.Second {
			t.Errorf("%s: %d %s", variables, resp.StatusCode, body)
		}
	}
}

func TestVariableDetails(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	send := func(variables string) (reply, string) {
		r := f.send(liveKey, `{"templateId":"t-note","destinationNumber":"+5511987650123","variables":`+variables+`}`)
		details, _ := json.Marshal(r.member(t, "details"))
		return r, string(details)
	}
	r, details := send(`{"name":7}`)
	wantCode(t, r, events.CodeMissingVariables)
	if details != `{"invalidKeys":[{"key":"name","reason":"not_a_string"}],"missingKeys":["message"]}` {
		t.Error(details)
	}
	r, details = send(`{"name":" ","message":null}`)
	wantCode(t, r, events.CodeInvalidVariable)
	if details != `{"invalidKeys":[{"key":"name","reason":"blank"},{"key":"message","reason":"not_a_string"}]}` {
		t.Error(details)
	}
	r, details = send(`{"name":"a","message":"` + strings.Repeat("x", 5000) + `"}`)
	wantCode(t, r, events.CodeValidation)
	if details != `{"errors":[{"field":"variables","rule":"too_long"}]}` {
		t.Error(details)
	}
}
