package evolutionsim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// acme is an open instance whose events go to url.
func acme(url string) Instance {
	i := Instance{Name: "acme", Token: "INSTANCE-TOKEN", Number: "5511888880000"}
	if url != "" {
		i.Webhook = &Webhook{URL: url, Enabled: true, Headers: map[string]string{"X-Secret": "s"}, Events: []string{"MESSAGES_UPDATE", "CONNECTION_UPDATE"}}
	}
	return i
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func do(t *testing.T, s *Server, method, path, key, body string) (int, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	status, answer, err := try(ctx, s, method, path, key, body)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

func try(ctx context.Context, s *Server, method, path, key, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("apikey", key)
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// send posts a text and gives the status and the key id.
func send(t *testing.T, s *Server, text string) (int, string) {
	t.Helper()
	status, body := do(t, s, "POST", "/message/sendText/acme", s.APIKey(), `{"number":"5511999990000","text":"`+text+`"}`)
	var sent sentBody
	_ = json.Unmarshal(body, &sent)
	return status, sent.Key.ID
}

// hook is what a webhook received.
type hook struct {
	Event  string
	Data   receiptData
	Header http.Header
	Path   string
}

// sink collects webhooks and answers with what status gives.
type sink struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []hook
	change chan struct{}
	status func(n int) int
}

func newSink(t *testing.T) *sink {
	t.Helper()
	k := &sink{change: make(chan struct{}, 1), status: func(int) int { return 200 }}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct {
			Event string
			Data  json.RawMessage
		}
		_ = json.NewDecoder(r.Body).Decode(&e)
		h := hook{Event: e.Event, Header: r.Header, Path: r.URL.Path}
		_ = json.Unmarshal(e.Data, &h.Data)
		k.mu.Lock()
		k.seen = append(k.seen, h)
		status := k.status(len(k.seen))
		k.mu.Unlock()
		w.WriteHeader(status)
		select {
		case k.change <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *sink) hooks() []hook {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]hook(nil), k.seen...)
}

// wait gives the webhooks once there are n.
func (k *sink) wait(t *testing.T, n int) []hook {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		if seen := k.hooks(); len(seen) >= n {
			return seen
		}
		select {
		case <-k.change:
		case <-deadline:
			t.Fatalf("%d webhooks, want %d", len(k.hooks()), n)
		}
	}
}

// quiet waits until nothing is to be posted any more.
func quiet(t *testing.T, s *Server) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); s.Stats().Pending > 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("still pending: %+v", s.Stats())
		}
	}
}

func statuses(hooks []hook, keyID string) []string {
	list := []string{}
	for _, h := range hooks {
		if h.Data.KeyID == keyID {
			list = append(list, h.Data.Status)
		}
	}
	return list
}
