//go:build linux

package powercut

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pilotstatus.dev/infra/apicall"
)

const (
	callLimit = 10 * time.Second // of one HTTP request
	// deliverWithin bounds the life of a message whose call the cut left in doubt: nobody proves it, so it is presumed to
	// have failed soon after.
	deliverWithin = 45 * time.Second
)

// customer posts messages through the real API. Each text is its own, so that the gateway's ledger shows what left twice.
type customer struct {
	api       string
	own, live string // API keys: of the instance with free text, and of the shared one
	http      *http.Client
	next      atomic.Int64
}

// newCustomer reads the keys that the demonstration's first start left in its directory.
func newCustomer(api, data string, publishers int) (*customer, error) {
	c := &customer{api: "http://" + api, http: &http.Client{Timeout: callLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * publishers}}}
	for name, into := range map[string]*string{"demo-own.key": &c.own, "demo-live.key": &c.live} {
		raw, err := os.ReadFile(filepath.Join(data, name))
		if err != nil {
			return nil, fmt.Errorf("read an API key: %w", err)
		}
		*into = strings.TrimSpace(string(raw))
	}
	return c, nil
}

// answers is what the API said.
type answers struct {
	mu      sync.Mutex
	acked   []string // ids of every 202
	refused int      // other answers
	first   string   // the first of them
}

// publish posts from many clients until power is closed and each got its last answer or none.
func (c *customer) publish(ctx context.Context, clients int, power <-chan struct{}) *answers {
	var a answers
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for {
				select {
				case <-power:
					return
				case <-ctx.Done():
					return
				default:
				}
				id, status, text, err := c.post(ctx)
				a.mu.Lock()
				switch {
				case err == nil && status == http.StatusAccepted:
					a.acked = append(a.acked, id)
				case err == nil:
					a.refused++
					if a.first == "" {
						a.first = fmt.Sprintf("%d %s", status, text)
					}
				}
				a.mu.Unlock()
			}
		})
	}
	all.Wait()
	c.http.CloseIdleConnections()
	return &a
}

func (c *customer) post(ctx context.Context) (id string, status int, text string, err error) {
	n := c.next.Add(1)
	body := map[string]any{
		"destinationNumber": fmt.Sprintf("+55119%08d", 70000000+n%50),
		"deliverUntil":      time.Now().Add(deliverWithin).UTC().Format(time.RFC3339),
	}
	key := c.own
	if n%2 == 0 {
		key = c.live
		body["templateId"], body["variables"] = "login-code", map[string]string{"code": fmt.Sprintf("%06d", n)}
	} else {
		body["text"] = fmt.Sprintf("Parcel %d is on its way. %s", n, strings.Repeat("It left our house. ", int(n%40)))
	}
	var out struct {
		ID string `json:"id"`
	}
	status, raw, err := apicall.Do(ctx, c.http, http.MethodPost, c.api+"/v1/messages/send", key, body)
	if err == nil && status == http.StatusAccepted {
		err = json.Unmarshal(raw, &out)
	}
	return out.ID, status, string(raw), err
}

// stage reads a message, from Postgres.
func (c *customer) stage(ctx context.Context, id string) (string, error) {
	status, raw, err := apicall.Do(ctx, c.http, http.MethodGet, c.api+"/v1/messages/"+id, c.live, nil)
	if err != nil {
		return "", err
	}
	var m struct {
		Stage string `json:"stage"`
	}
	if err := json.Unmarshal(raw, &m); err != nil || status != http.StatusOK {
		return "", fmt.Errorf("read message: %d %s", status, raw)
	}
	return m.Stage, nil
}
