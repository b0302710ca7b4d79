package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"pilotstatus.dev/infra/apicall"
)

// load sends messages and keeps what was promised for each.
type load struct {
	base   string
	keys   []string
	client *http.Client

	mu       sync.Mutex
	accepted map[string]string // id of a 202 → text
	texts    map[string]string // text → id; empty where no answer came
}

func newLoad(base string, keys []string) *load {
	return &load{
		base: base, keys: keys, accepted: map[string]string{}, texts: map[string]string{},
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * instances}},
	}
}

func (l *load) close() { l.client.CloseIdleConnections() }

// post sends one message from an instance, once: without an answer it is not known whether it was accepted.
func (l *load) post(ctx context.Context, instance int, text string) (string, error) {
	l.mu.Lock()
	l.texts[text] = ""
	l.mu.Unlock()
	status, raw, err := apicall.Do(ctx, l.client, http.MethodPost, l.base+"/v1/messages/send", l.keys[instance], map[string]any{
		"text": text, "destinationNumber": fmt.Sprintf("+55119%08d", 70000000+instance),
		"deliverUntil": time.Now().Add(window).UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return "", err
	}
	if status != http.StatusAccepted {
		return "", fmt.Errorf("send answered %d: %s", status, raw)
	}
	var out struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return "", fmt.Errorf("read the 202: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts[text], l.accepted[out.ID] = out.ID, text
	return out.ID, nil
}

// promised gives what was answered with a 202, id → text.
func (l *load) promised() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.accepted)
}

// sent gives every text that was handed in, and the id of its 202 where there was one.
func (l *load) sent() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.texts)
}
