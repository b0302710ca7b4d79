package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"pilotstatus.dev/events"
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
	posted   int
	operator string          // key of an operator
	canceled map[string]bool // id of a message that was to be canceled → whether the answer says that it is
}

func newLoad(base string, keys []string, operator string) *load {
	return &load{
		base: base, keys: keys, operator: operator, accepted: map[string]string{}, texts: map[string]string{}, canceled: map[string]bool{},
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * instances}},
	}
}

// recipients are of an instance that makes several calls at once: more than calls, so that some share a slot.
const recipients = 5

// next draws the recipient of an instance's next message.
func (l *load) next(instance int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if calls(instance) == 1 {
		return 0
	}
	l.posted++
	return l.posted % recipients
}

func (l *load) close() { l.client.CloseIdleConnections() }

// post sends one message of a class from an instance, once: without an answer it is not known whether it was accepted. It is to leave after
// a while, at once when that is 0.
func (l *load) post(ctx context.Context, instance int, text string, class events.Class, after time.Duration) (string, error) {
	l.mu.Lock()
	l.texts[text] = ""
	l.mu.Unlock()
	body := map[string]any{
		"text": text, "destinationNumber": fmt.Sprintf("+55119%08d", 70000000+100*instance+l.next(instance)),
		"deliverUntil": time.Now().Add(window).UTC().Format(time.RFC3339Nano),
		"category":     class.Category(), "urgent": class == events.ClassOf(class.Category(), true),
	}
	if after > 0 {
		body["deliverAt"] = time.Now().Add(after).UTC().Format(time.RFC3339Nano)
	}
	status, raw, err := apicall.Do(ctx, l.client, http.MethodPost, l.base+"/v1/messages/send", l.keys[instance], body)
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

// cancel cancels messages of an instance, once: without an answer it is not known which are canceled.
func (l *load) cancel(ctx context.Context, instance int, ids ...string) error {
	l.mu.Lock()
	for _, id := range ids {
		l.canceled[id] = false
	}
	l.mu.Unlock()
	status, raw, err := apicall.Do(ctx, l.client, http.MethodDelete, l.base+"/v1/messages/cancel", l.keys[instance], map[string]any{"messageIds": ids})
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("cancel answered %d: %s", status, raw)
	}
	var out struct {
		Cancelled []string `json:"cancelled"`
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return fmt.Errorf("read what is canceled: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range out.Cancelled {
		l.canceled[id] = true
	}
	return nil
}

// cancels gives which messages were to be canceled, and whether the answer says that they are.
func (l *load) cancels() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.canceled)
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
