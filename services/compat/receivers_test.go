package compat

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// hook is one request that a receiver got.
type hook struct {
	uri    string // path and query as they were on the wire
	header http.Header
	body   []byte
	said   int // status of the answer
}

// receivers are the endpoints of the clients: one server, a path for each.
type receivers struct {
	base   string
	secret string

	mu   sync.Mutex
	got  map[string][]hook
	code map[string]func(hook) int // the client's own code; nil answers 200
}

func newReceivers(t *testing.T) *receivers {
	t.Helper()
	r := &receivers{got: map[string][]hook{}, code: map[string]func(hook) int{}}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.base = "http://" + l.Addr().String() + "/"
	srv := &http.Server{Handler: http.HandlerFunc(r.receive), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		bounded, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Shutdown(bounded); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return r
}

// url is where a client hears of its messages.
func (r *receivers) url(client, query string) string { return r.base + client + query }

// answers sets the code of a client's receiver, before its first message.
func (r *receivers) answers(client string, code func(hook) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code[client] = code
}

func (r *receivers) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	client := strings.TrimPrefix(req.URL.Path, "/")
	h := hook{uri: req.RequestURI, header: req.Header, body: body, said: http.StatusOK}
	r.mu.Lock()
	defer r.mu.Unlock()
	if code := r.code[client]; code != nil {
		h.said = code(h)
	}
	r.got[client] = append(r.got[client], h)
	w.WriteHeader(h.said)
}

// of lists what a client got of one message, by the id of its 202.
func (r *receivers) of(client, id string) []hook {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []hook
	for _, h := range r.got[client] {
		if strings.Contains(string(h.body), `"internalMessageId":"`+id+`"`) {
			out = append(out, h)
		}
	}
	return out
}

// event gives the first request about one event of a message, which must come.
func (r *receivers) event(t *testing.T, client, id, event string) hook {
	t.Helper()
	var found *hook
	eventually(t, client+" hears "+event, func() bool {
		for _, h := range r.of(client, id) {
			if stringOf(objectOf(t, h.body), "event") == event {
				found = &h
				return true
			}
		}
		return false
	}, func() string { return id })
	return *found
}

// data is the payload of an event.
func (h hook) data(t *testing.T) map[string]any {
	t.Helper()
	data, ok := objectOf(t, h.body)["data"].(map[string]any)
	if !ok {
		t.Fatalf("no data: %s", h.body)
	}
	return data
}
