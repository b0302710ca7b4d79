package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

var update = flag.Bool("update", false, "write testdata/openapi.json")

var served struct {
	once sync.Once
	mu   sync.Mutex
	v    validator.Validator
	err  string
}

// documentValidator is built once, from the document as it is served.
func documentValidator(t *testing.T) validator.Validator {
	t.Helper()
	served.once.Do(func() {
		raw, err := os.ReadFile("testdata/openapi.json")
		if err != nil {
			served.err = err.Error()
			return
		}
		doc, err := libopenapi.NewDocument(raw)
		if err != nil {
			served.err = err.Error()
			return
		}
		v, errs := validator.NewValidator(doc)
		if len(errs) > 0 {
			served.err = errs[0].Error()
		}
		served.v = v
	})
	if served.err != "" {
		t.Fatal(served.err)
	}
	return served.v
}

// checkAgainstDocument holds an answer against the document. TestOpenAPIGolden holds the served document against the file.
func checkAgainstDocument(t *testing.T, req *http.Request, r reply) {
	t.Helper()
	path := strings.TrimPrefix(req.URL.Path, "/api")
	documented := path == "/livez" || path == "/readyz" || path == "/v1/messages" || path == "/v1/usage" || path == "/v1/analytics/dashboard" || strings.HasPrefix(path, "/v1/messages/") ||
		setUpByCustomers(path) || strings.HasPrefix(path, "/v1/admin/")
	if !documented || r.status == http.StatusNotFound && strings.Count(path, "/") > 4 || r.status == http.StatusMethodNotAllowed {
		return
	}
	if r.status == http.StatusNotFound && strings.HasPrefix(path, "/v1/admin/") && strings.Count(path, "/") == 3 {
		return // not served here
	}
	if rest, ok := strings.CutPrefix(path, "/v1/messages/"); ok && rest != "send" && rest != "cancel" && rest != "batch" && rest != "opt-in" {
		// An id may hold an escaped slash, which the validator takes for a separator.
		path = "/v1/messages/x"
		if strings.HasSuffix(rest, "/events") {
			path += "/events"
		}
	}
	v := documentValidator(t)
	again := req.Clone(t.Context())
	again.URL.Path, again.URL.RawPath = path, ""
	again.URL.Host, again.Host = "", ""
	again.Body = http.NoBody
	resp := &http.Response{StatusCode: r.status, Header: r.header, Body: io.NopCloser(bytes.NewReader(r.body)), Request: again}
	served.mu.Lock()
	defer served.mu.Unlock()
	if ok, errs := v.ValidateHttpResponse(again, resp); !ok {
		for _, e := range errs {
			t.Errorf("%s %s: answer %d is not as documented: %s: %s", req.Method, path, r.status, e.Message, e.Reason)
		}
	}
}

func TestOpenAPIGolden(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	got := f.get("/openapi.json", "")
	if *update {
		if err := os.WriteFile("testdata/openapi.json", append(got.body, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got.body)); diff != "" {
		t.Errorf("document changed (-file +served); if it should, run go test -run OpenAPIGolden -update:\n%s", diff)
	}
	if y := f.get("/openapi.yaml", ""); y.status != http.StatusOK || !strings.Contains(string(y.body), "openapi: 3.1.0") {
		t.Errorf("YAML: status %d", y.status)
	}
}

func TestOpenAPIIsValid(t *testing.T) {
	t.Parallel()
	v := documentValidator(t)
	served.mu.Lock()
	defer served.mu.Unlock()
	if ok, errs := v.ValidateDocument(); !ok {
		for _, e := range errs {
			t.Errorf("%s: %s", e.Message, e.Reason)
		}
	}
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// Every operation of the document is called without a key.
func TestEveryOperationNeedsItsKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	var doc struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string `json:"security"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(f.get("/openapi.json", "").body, &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for path, operations := range doc.Paths {
		for method, op := range operations {
			open := path == "/livez" || path == "/readyz"
			if (len(op.Security) == 0) != open {
				t.Errorf("%s %s declares security %v", method, path, op.Security)
			}
			if open {
				continue
			}
			n++
			for _, prefix := range []string{"", "/api"} {
				r := f.do(strings.ToUpper(method), prefix+placeholder.ReplaceAllString(path, "x"), "", nil)
				if r.status != http.StatusUnauthorized {
					t.Errorf("%s %s%s without a key: %d", method, prefix, path, r.status)
				}
			}
		}
	}
	if n < 3 {
		t.Errorf("only %d operations were called", n)
	}
}

func TestWebhooksAreDocumented(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	var doc struct {
		Webhooks map[string]any `json:"webhooks"`
	}
	if err := json.Unmarshal(f.get("/openapi.json", "").body, &doc); err != nil {
		t.Fatal(err)
	}
	for _, e := range []string{"message.sent", "message.delivered", "message.read", "message.failed"} {
		if doc.Webhooks[e] == nil {
			t.Errorf("webhook %s is not documented", e)
		}
	}
}
