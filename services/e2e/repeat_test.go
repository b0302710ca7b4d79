package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
)

// posted is the answer to a post.
type posted struct {
	status   int
	replayed bool
	retry    string
	body     map[string]any
}

// post sends free text, with an Idempotency-Key unless it is empty.
func post(ctx context.Context, api, key, idem, text string) (posted, error) {
	return postBody(ctx, api, key, idem, map[string]any{"text": text, "destinationNumber": "+5511988887777"})
}

func postBody(ctx context.Context, api, key, idem string, fields map[string]any) (posted, error) {
	body, err := json.Marshal(fields)
	if err != nil {
		return posted{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, api+"/v1/messages/send", strings.NewReader(string(body)))
	if err != nil {
		return posted{}, err
	}
	req.Header.Set("X-Api-Key", key)
	if idem != "" {
		req.Header.Set("Idempotency-Key", idem)
	}
	resp, err := client.Do(req)
	if err != nil {
		return posted{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return posted{}, err
	}
	p := posted{status: resp.StatusCode, replayed: resp.Header.Get("Idempotent-Replayed") == "true", retry: resp.Header.Get("Retry-After")}
	return p, json.Unmarshal(raw, &p.body)
}

// apiBeside starts an API in front of the rig's log, as another process would.
func (r *rig) apiBeside() *app.App {
	r.t.Helper()
	cfg := r.cfg
	cfg.NATSURL, cfg.MasterKeyFile, cfg.HTTPAddr = r.app.URLs().NATS, r.cfg.MasterKeyPath(), "127.0.0.1:0"
	a, err := app.Start(r.t.Context(), cfg, []app.Role{app.RoleAPI}, r.logger())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		bounded, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Stop(bounded); err != nil {
			r.t.Errorf("stop: %v", err)
		}
	})
	return a
}

// Case 66 and fault A3: fifty posts with one key at two API processes, one message.
func TestCase66FiftyPostsWithOneKeyAtTwoProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	urls := []string{r.app.URLs().API, r.apiBeside().URLs().API}
	var mu sync.Mutex
	ids, fresh, conflicts := map[any]bool{}, 0, 0
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			p, err := post(t.Context(), urls[i%2], r.keys.Own, "case-66", "fifty")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case p.status == http.StatusConflict && p.retry == "1":
				conflicts++
			case p.status == http.StatusAccepted:
				ids[p.body["id"]] = true
				if !p.replayed {
					fresh++
				}
			default:
				t.Errorf("%d %v", p.status, p.body)
			}
		})
	}
	all.Wait()
	if len(ids) != 1 || fresh != 1 {
		t.Fatalf("%d messages, %d answers that were no replay, %d conflicts", len(ids), fresh, conflicts)
	}
	for id := range ids {
		r.awaitStatus(id.(string), "READ")
	}
	if n := r.ledger("fifty"); n != 1 {
		t.Errorf("%d left", n)
	}
	p, err := post(t.Context(), urls[1], r.keys.Own, `"case-66"`, "fifty")
	if err != nil || p.status != http.StatusAccepted || !p.replayed || !ids[p.body["id"]] {
		t.Errorf("afterwards: %+v, %v", p, err)
	}
	if p, err := post(t.Context(), urls[0], r.keys.Own, "case-66", "another"); err != nil || p.status != http.StatusUnprocessableEntity {
		t.Errorf("another body: %+v, %v", p, err)
	}
}

// Fault A1: the API dies between append and answer. The repeat, with the same key, is answered with the one message.
func TestFaultA1KilledBetweenAppendAndAnswer(t *testing.T) {
	t.Parallel()
	bin := buildPilot(t)
	dir, api := t.TempDir(), fixedAddr(t)
	_, line := run(t, "simulated gateway at", nil, bin, "evolutionsim", "--addr", "127.0.0.1:0",
		"--instances", "pilot-shared=5511900000001", "--instances", "acme=5511900000002")
	simURL := strings.Fields(strings.TrimPrefix(line, "simulated gateway at "))[0]
	env := []string{"PILOT_LOG_LEVEL=error", "PILOT_POSTGRES_URL=" + pgtest.Database(t)}
	args := []string{
		"up", "--demo", "--gateway-url", simURL, "--gateway-key", "sim-key", "--data-dir", dir, "--nats-port", "0", "--http-addr", api, "--ingest-addr", fixedAddr(t), "--hook-addr", fixedAddr(t),
		"--partitions", "2", "--claim-wait", "2s",
	}
	pilot, _ := run(t, "Send a message", append(env, "PILOT_FAILPOINT=api.before_answer:kill"), bin, args...)
	key := readFile(t, filepath.Join(dir, "demo-own.key"))
	body := map[string]any{
		"text": "kill a1", "destinationNumber": "+5511988887777",
		"deliverAt": time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339), // so that no call is under way at the kill
	}
	send := func() (posted, error) { return postBody(t.Context(), "http://"+api, key, "a1", body) }
	if p, err := send(); err == nil {
		t.Fatalf("the process that dies answered %+v", p)
	}
	err := <-pilot.done
	pilot.done <- err
	run(t, "Send a message", env, bin, args...)
	var first posted
	awaittest.Eventually(t, patience, 100*time.Millisecond, "the repeat is answered", func() bool {
		p, err := send()
		if err != nil || p.status != http.StatusAccepted && p.status != http.StatusConflict {
			t.Errorf("repeat: %+v, %v", p, err)
			return true
		}
		first = p
		return p.status == http.StatusAccepted
	}, nil)
	again, err := send()
	if err != nil || !first.replayed || !again.replayed || first.body["id"] != again.body["id"] {
		t.Errorf("first %+v, again %+v, %v", first, again, err)
	}
	eventually(t, "the one message has left", func() bool { return len(killLedger(t, simURL)) > 0 }, nil)
	eventually(t, "it is read", func() bool {
		status, raw, err := call(t.Context(), http.MethodGet, "http://"+api+"/v1/messages/"+first.body["id"].(string), key, nil)
		return err == nil && status == http.StatusOK && strings.Contains(string(raw), `"stage":"READ"`)
	}, nil)
	if left := killLedger(t, simURL); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}

// Fault A2: the log does not answer while a post comes without a key. Its repeat is the same message, the post after that
// a new one.
func TestFaultA2RepeatAfterNotKnown(t *testing.T) {
	t.Parallel()
	b := newBroker(t, t.TempDir())
	b.start()
	p := newProxy(t, b.addr)
	r := newRig(t, withBroker("nats://"+p.addr), func(c *app.Config) { c.AcceptLimit = 1500 * time.Millisecond })
	r.awaitStatus(r.send("the keys are at hand"), "READ")
	p.swallow()
	lost, err := post(t.Context(), r.app.URLs().API, r.keys.Own, "", "not known")
	if err != nil || lost.status != http.StatusServiceUnavailable || !strings.Contains(lost.body["error"].(string), "not known") {
		t.Fatalf("while the log does not answer: %+v, %v", lost, err)
	}
	p.pass()
	var found posted
	eventually(t, "the repeat is accepted", func() bool {
		found, err = post(t.Context(), r.app.URLs().API, r.keys.Own, "", "not known")
		return err == nil && found.status == http.StatusAccepted
	}, nil)
	next, err := post(t.Context(), r.app.URLs().API, r.keys.Own, "", "not known")
	if err != nil || next.status != http.StatusAccepted || !found.replayed || next.replayed || found.body["id"] == next.body["id"] {
		t.Errorf("the repeat %+v, the one after it %+v, %v", found, next, err)
	}
	r.awaitStatus(found.body["id"].(string), "READ")
	r.awaitStatus(next.body["id"].(string), "READ")
	if n := r.ledger("not known"); n != 2 {
		t.Errorf("%d left", n)
	}
}
