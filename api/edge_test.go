package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	for _, c := range []struct {
		method, path string
		want         events.Code
		allow        string
	}{
		{http.MethodGet, "/", events.CodeNotFound, ""},
		{http.MethodGet, "/v1", events.CodeNotFound, ""},
		{http.MethodGet, "/api/livez", events.CodeNotFound, ""}, // only /v1 has the alias
		{http.MethodPost, "/v2/messages/send", events.CodeNotFound, ""},
		{http.MethodPut, "/v1/messages/send", CodeMethodNotAllowed, "GET, HEAD, POST"},
		{http.MethodPost, "/api/v1/messages/x/events", CodeMethodNotAllowed, "GET, HEAD"},
		{http.MethodPost, "/docs/none", events.CodeNotFound, ""},
	} {
		r := f.do(c.method, c.path, liveKey, nil)
		wantCode(t, r, c.want)
		if got := r.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow = %q", c.method, c.path, got)
		}
	}
}

// Clients repeat a redirected POST in ways of their own: a slash too many is served where it is.
func TestNoRedirects(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	f.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{"/v1/messages/send", "/api/v1/messages/send", "//v1//messages/send", "/api//v1/messages/send/"} {
		if r := f.do(http.MethodPost, path, liveKey, strings.NewReader(note)); r.status != http.StatusAccepted {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	big := func(n int) string {
		return `{` + to + `,"text":"a","x":"` + strings.Repeat("y", n) + `"}`
	}
	if r := f.send(ownKey, big(64<<10-len(big(0)))); r.status != http.StatusAccepted {
		t.Errorf("64 KiB: %d", r.status)
	}
	wantCode(t, f.send(ownKey, big(64<<10-len(big(0))+1)), events.CodeTooLarge)
	// Judged in its turn: whoever may not send hears that first.
	wantCode(t, f.send(rawProject, big(64<<10)), CodeProjectNotApproved)
}

// A compressed body is refused by its name, not as bad JSON.
func TestCompressedBody(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	for _, c := range [][3]string{
		{"POST", "/v1/messages/send", ownKey},
		{"POST", "/v1/messages/batch", ownKey},
		{"DELETE", "/v1/messages/cancel", ownKey},
		{"POST", "/v1/webhooks", liveKey},
		{"POST", "/v1/admin/plans", f.ana},
	} {
		r := f.do(c[0], c[1], c[2], strings.NewReader("\x1f\x8b\x08"), "Content-Encoding", "gzip", "X-Reason", "test")
		wantCode(t, r, CodeEncodingNotSupported)
		if r.header.Get("Accept-Encoding") != "identity" || r.status != http.StatusUnsupportedMediaType {
			t.Errorf("%v: %d, %v", c, r.status, r.header)
		}
	}
	wantCode(t, f.do("POST", "/v1/messages/send", "", strings.NewReader("x"), "Content-Encoding", "br"), events.CodeUnauthorized)
	if r := f.send(ownKey, `{`+to+`,"text":"a"}`, "Content-Encoding", "Identity"); r.status != http.StatusAccepted {
		t.Errorf("identity: %d %s", r.status, r.body)
	}
}

// A7: a client that never finishes its body is answered and let go.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.BodyTimeout = 30 * time.Millisecond
	f.start()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", f.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/messages/send HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: 100\r\n\r\n{", liveKey); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header, body: body}
	checkProblem(t, r)
	wantCode(t, r, CodeRequestTimeout)
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	for given, kept := range map[string]bool{
		"req-0123456789": true, "a1b2c3d4": true,
		"short": false, "5511987650123": false, "has space here": false, "line\tbreak": false, strings.Repeat("a", 65): false,
	} {
		r := f.do(http.MethodGet, "/none", "", nil, "X-Request-Id", given)
		if got := r.header.Get("X-Request-Id"); (got == given) != kept {
			t.Errorf("%q became %q", given, got)
		}
	}
}

func TestTraceParent(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	for given, want := range map[string]string{
		trace:                        trace,
		"cc" + trace[2:] + "-future": trace, // later versions may be longer
		"":                           "",
		trace + "-more":              "",
		"ff" + trace[2:]:             "",
		strings.ToUpper(trace):       "",
		trace[:54]:                   "",
		"cc" + trace[2:] + "x":       "",
		"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01":  "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"00-0af7651916cd43dd8448eb211c80319c0b7ad6b7169203331-01": "",
	} {
		got := traceParent(given)
		if !form.MatchString(got) || want != "" && got != want || want == "" && got == given {
			t.Errorf("%q became %q", given, got)
		}
	}
	if first, second := traceParent(""), traceParent(""); first == second {
		t.Error("two traces are the same")
	}
}

// A panic is a 500 without details, and what it carried is not logged.
func TestPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.log.append = func(context.Context, events.Event) (uint64, error) { panic(canary) }
	f.start()
	wantCode(t, f.send(liveKey, note), events.CodeInternal)
	if log := f.logged.String(); strings.Contains(log, canary) || !strings.Contains(log, `"panic":"string"`) {
		t.Errorf("log: %s", log)
	}
}

// The log line of an acceptance has everything but the person.
func TestAcceptanceLine(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	f.send(liveKey, note, "X-Request-Id", "req-0123456789")
	line := f.logged.String()
	for _, want := range []string{
		`"request_id":"req-0123456789"`, `"message_id":"msg_`, `"correlation_id":"cor_`, `"tenant":"acme"`, `"project":"shop"`,
		`"environment":"LIVE"`, `"key_id":"key-aaaa"`, `"instance":"shared"`, `"category":"UTILITY"`, `"class":"utility"`,
		`"deliver_until":"2026-11-29T16:22:01`, `:42"`, `"elapsed_ms":`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	if strings.Count(line, "\n") != 1 {
		t.Errorf("not one line: %s", line)
	}
}

// A9: nothing of a person is in an answer, its headers or a log line, whatever goes wrong.
func TestCanary(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	bodies := []string{
		note, text, `{"destinationNumber":"5511987650123x","text":"CANARY-7f3a-secret"}`, `{"text":"CANARY-7f3a-secret`,
		`{"destinationNumber":"+5511987650123","templateId":"CANARY-7f3a-secret","CANARY-7f3a-secret":"CANARY-7f3a-secret"}`,
		`{"destinationNumber":["+5511987650123"],"variables":"CANARY-7f3a-secret","category":"CANARY-7f3a-secret","deliverAt":"CANARY-7f3a-secret"}`,
		`{"destinationNumber":"+5511987650123","templateId":"generic_notification","variables":{"CANARY-7f3a-secret":"+5511987650123","name":7}}`,
		`{"destinationNumber":"+5511987650123","text":"CANARY-7f3a-secret","buttons":[{"type":"CANARY-7f3a-secret"}],"labels":[{"a":"CANARY-7f3a-secret"}]}`,
	}
	var all bytes.Buffer
	for _, k := range []string{liveKey, testKey, ownKey, rawProject, pausedKey, "ps_live_" + canary} {
		for _, b := range bodies {
			r := f.send(k, b)
			fmt.Fprintf(&all, "%d %v %s\n", r.status, r.header, r.body)
		}
	}
	for _, path := range []string{"/v1/messages/" + canary, "/v1/messages/5511987650123/events", "/" + canary, "/readyz?" + canary} {
		r := f.do(http.MethodGet, path, liveKey, nil, "X-Request-Id", "5511987650123")
		fmt.Fprintf(&all, "%v %s\n", r.header, r.body)
	}
	all.WriteString(f.logged.String())
	if len(f.events()) == 0 {
		t.Error("nothing was accepted")
	}
	for _, secret := range []string{canary, "5511987650123", "secretsecret"} {
		if i := strings.Index(all.String(), secret); i >= 0 {
			t.Errorf("%s leaked: …%s", secret, all.String()[max(0, i-200):i])
		}
	}
}

func TestDocsLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	index := f.get("/docs", "")
	if index.status != http.StatusOK || !strings.HasPrefix(index.header.Get("Content-Type"), "text/html") {
		t.Fatalf("%d %s", index.status, index.header.Get("Content-Type"))
	}
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(string(index.body), -1)
	if len(links) != 5 {
		t.Errorf("links: %v", links)
	}
	for _, l := range links {
		if !strings.HasPrefix(l[1], "/docs/") {
			t.Errorf("the page loads %s", l[1])
		}
		if r := f.get(l[1], ""); r.status != http.StatusOK || len(r.body) < 100 {
			t.Errorf("%s: %d, %d bytes", l[1], r.status, len(r.body))
		}
	}
	if strings.Contains(string(index.body), "<style") || regexp.MustCompile(`<script>|://`).Match(index.body) {
		t.Error("the page has inline parts or a foreign address")
	}
	if policy := index.header.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self';") || strings.Contains(policy, "http") {
		t.Errorf("policy: %s", policy)
	}
	if policy := f.get("/livez", "").header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("policy: %s", policy)
	}
	script := f.get("/docs/init.js", "")
	if !strings.Contains(string(script.body), `url: "/openapi.json"`) || !strings.Contains(string(script.body), "validatorUrl: null") {
		t.Error("the page does not show our document only")
	}
}

func TestNewServerLimits(t *testing.T) {
	t.Parallel()
	s := NewServer("127.0.0.1:0", http.NotFoundHandler())
	got := []time.Duration{s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout}
	if diff := cmp.Diff([]time.Duration{5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}, got); diff != "" {
		t.Error(diff)
	}
	if s.MaxHeaderBytes != 16<<10 || s.Addr != "127.0.0.1:0" {
		t.Errorf("%+v", s.MaxHeaderBytes)
	}
}

func TestNewNeedsItsPorts(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(Config{}, Ports{})
}
