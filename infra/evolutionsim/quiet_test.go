package evolutionsim

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Without a socket requests come through ServeHTTP, and webhooks leave by the given dialer.
func TestNoSocketNeeded(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	s := start(t, Options{
		Address: "gateway.example", DontListen: true, Instances: []Instance{acme("http://ingest.example/hook")},
		Webhooks: Webhooks{MaxAttempts: 1, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			select {
			case asked <- address:
			default: // each receipt is a webhook: nobody waits for the later ones
			}
			return nil, net.ErrClosed
		}},
	})
	if s.URL() != "http://gateway.example" {
		t.Errorf("URL %q", s.URL())
	}
	r := httptest.NewRequest(http.MethodPost, "/message/sendText/acme", strings.NewReader(`{"number":"5511988887777","text":"x"}`))
	r.Header.Set("apikey", s.APIKey())
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	select {
	case address := <-asked:
		if address != "ingest.example:80" {
			t.Errorf("dialed %q", address)
		}
	case <-time.After(10 * time.Second):
		t.Error("no webhook was dialed")
	}
}
