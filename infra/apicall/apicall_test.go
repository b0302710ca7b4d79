package apicall_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"pilotstatus.dev/infra/apicall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDo(t *testing.T) {
	t.Parallel()
	type seen struct{ Method, Path, Key, ContentType, Body string }
	var got seen
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = seen{r.Method, r.URL.Path, r.Header.Get("X-Api-Key"), r.Header.Get("Content-Type"), string(raw)}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "answer")
	}))
	t.Cleanup(server.Close)
	for name, c := range map[string]struct {
		key  string
		body any
		want seen
	}{
		"with key and body":         {"k", map[string]int{"n": 1}, seen{http.MethodPost, "/a", "k", "application/json", `{"n":1}`}},
		"with neither key nor body": {"", nil, seen{http.MethodPost, "/a", "", "", ""}},
	} {
		status, raw, err := apicall.Do(t.Context(), server.Client(), http.MethodPost, server.URL+"/a", c.key, c.body)
		if err != nil || status != http.StatusTeapot || string(raw) != "answer" {
			t.Errorf("%s: %d %q %v", name, status, raw, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDoWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
	}))
	t.Cleanup(server.Close)
	for name, c := range map[string]struct {
		url  string
		body any
	}{
		"a body that is no JSON": {server.URL, make(chan int)},
		"no URL":                 {"http://a b", nil},
		"nobody listens":         {"http://127.0.0.1:1", nil},
		"half an answer":         {server.URL, nil},
	} {
		if status, raw, err := apicall.Do(t.Context(), server.Client(), http.MethodGet, c.url, "", c.body); err == nil {
			t.Errorf("%s: %d %q", name, status, raw)
		}
	}
}
