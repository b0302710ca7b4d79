package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// The trace context that a client gives goes with the message to the gateway.
func TestTraceGoesFromTheClientToTheGateway(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var mu sync.Mutex
	var seen []string
	r := newRigBehind(t, func(gateway string) string {
		target, err := url.Parse(gateway)
		if err != nil {
			t.Fatal(err)
		}
		pass := httputil.NewSingleHostReverseProxy(target)
		transport := &http.Transport{}
		pass.Transport = transport
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasPrefix(req.URL.Path, "/message/") {
				mu.Lock()
				seen = append(seen, req.Header.Values("Traceparent")...)
				mu.Unlock()
			}
			pass.ServeHTTP(w, req)
		}))
		t.Cleanup(transport.CloseIdleConnections)
		t.Cleanup(s.Close)
		return s.URL
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.app.URLs().API+"/v1/messages/send",
		strings.NewReader(`{"text":"traced","destinationNumber":"+5511988887777"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", r.keys.Own)
	req.Header.Set("Traceparent", trace)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	eventually(t, "the message has left", func() bool { return r.ledger("traced") == 1 }, nil)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 1 || seen[0] != trace {
		t.Errorf("the gateway was told %q", seen)
	}
}
