package dispatcher

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

// The version of a gateway is asked until it is told, not with each use; until then no id is chosen.
func TestVersionIsAskedUntilItIsTold(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":200,"version":"2.4.0"}`)) // the client's own error shows
	}))
	defer server.Close()
	g := newGateways(func(context.Context, events.Instance) (string, error) { return "key", nil }, func(url, key string) (*evolution.Client, error) {
		return evolution.New(evolution.Config{BaseURL: url, APIKey: key})
	})
	defer g.close()
	use := func() string {
		t.Helper()
		c, err := g.client(t.Context(), events.Instance{ID: "i", GatewayURL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		return chooseID(c, evolution.CallSendText)
	}
	for range 3 { // asked a moment ago
		if id := use(); id != "" || asked.Load() != 1 {
			t.Fatalf("chosen %q after %d questions", id, asked.Load())
		}
	}
	g.again = time.Nanosecond
	for range 3 {
		if id := use(); id == "" || asked.Load() != 2 {
			t.Fatalf("chosen %q after %d questions", id, asked.Load())
		}
	}
}
