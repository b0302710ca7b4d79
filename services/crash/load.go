package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
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
	status, raw, err := l.call(ctx, http.MethodPost, "/v1/messages/send", l.keys[instance], map[string]any{
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

func (l *load) call(ctx context.Context, method, path, key string, body any) (int, []byte, error) {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, nil, fmt.Errorf("encode request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, l.base+path, payload)
	if err != nil {
		return 0, nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("content-type", "application/json")
	req.Header.Set("x-api-key", key)
	res, err := l.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("call the api: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<22))
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer of the api: %w", err)
	}
	return res.StatusCode, raw, nil
}
