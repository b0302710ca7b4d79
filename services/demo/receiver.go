package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Hook is a customer event that arrived with a valid signature.
type Hook struct {
	ID        string // webhook-id
	Event     string
	MessageID string // internalMessageId
	Status    string
}

// Receiver plays the customer: it verifies and keeps what arrives.
type Receiver struct {
	log    zerolog.Logger
	server *http.Server
	url    string
	done   chan struct{}

	mu      sync.Mutex
	secret  string
	hooks   []Hook
	refused int
	told    map[string]int // by webhook-id
}

// maxHooks bounds what a receiver keeps.
const maxHooks = 10_000

// StartReceiver listens on a loopback address; it verifies nothing until it is told the secret.
func StartReceiver(ctx context.Context, addr string, log zerolog.Logger) (*Receiver, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start receiver: %w", err)
	}
	r := &Receiver{log: log, url: "http://" + l.Addr().String() + "/hooks", done: make(chan struct{}), told: map[string]int{}}
	r.server = &http.Server{
		Handler: http.HandlerFunc(r.receive), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	go func() {
		defer close(r.done)
		if err := r.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Msg("receiver")
		}
	}()
	return r, nil
}

// URL is where customer events go.
func (r *Receiver) URL() string { return r.url }

// Trust sets the secret that signatures are verified with.
func (r *Receiver) Trust(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = secret
}

// Close stops listening.
func (r *Receiver) Close(ctx context.Context) error {
	err := r.server.Shutdown(ctx)
	<-r.done
	return err
}

// Hooks lists the verified events in order of arrival, each webhook-id once, and counts the requests that were refused.
func (r *Receiver) Hooks() (hooks []Hook, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Hook(nil), r.hooks...), r.refused
}

// Told counts the verified requests under a webhook-id: more than one when an answer was lost, or a delivery was replayed.
func (r *Receiver) Told(webhookID string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[webhookID]
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	if err := r.take(body, req.Header); err != nil {
		r.log.Warn().Err(err).Msg("webhook refused")
		http.Error(w, "refused", http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *Receiver) take(body []byte, h http.Header) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	verifier, err := standardwebhooks.NewWebhook(r.secret)
	if err == nil {
		err = verifier.Verify(body, h)
	}
	if err != nil {
		r.refused++
		return fmt.Errorf("verify: %w", err)
	}
	var p struct {
		Event string `json:"event"`
		Data  struct {
			InternalMessageID string `json:"internalMessageId"`
			Status            string `json:"status"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		r.refused++
		return fmt.Errorf("decode: %w", err)
	}
	hook := Hook{ID: h.Get("webhook-id"), Event: p.Event, MessageID: p.Data.InternalMessageID, Status: p.Data.Status}
	if r.told[hook.ID] > 0 || len(r.hooks) < maxHooks {
		if r.told[hook.ID]++; r.told[hook.ID] == 1 {
			r.hooks = append(r.hooks, hook)
		}
	}
	r.log.Info().Str("event", hook.Event).Str("message", hook.MessageID).Str("webhook_id", hook.ID).Msg("webhook verified")
	return nil
}
