// Package e2e drives the whole of Pilot as its users do: over HTTP, with a simulated gateway and a customer's receiver, on an
// embedded log and a real Postgres.
//
//   - way_test.go: the way of a message; what customers and operators see of it
//   - receipts_test.go: receipts early, duplicated, reversed, lost
//   - unknown_test.go: outcomes that are unknown
//   - outage_test.go: Postgres away, restarts, a process that is killed
//   - privacy_test.go: no personal data where it does not belong
//   - disposable_test.go: consumers and their state deleted or reset
//   - nats_outage_test.go, disk_full_test.go, postgres_outage_test.go, gateway_outage_test.go: each neighbour away, slow, full or flapping
//   - dispatchers_test.go: dispatchers in processes of their own, restarted and killed
//   - cluster_test.go, quorum_test.go: three servers; a leader lost, a quorum lost, a leader cut off while sending
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/apicall"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/demo"
)

// TestMain lets twice as many tests run at once as usual: these wait more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

// rig is a running deployment with first data.
type rig struct {
	t     *testing.T
	cfg   app.Config
	roles []app.Role // of this process
	app   *app.App
	sim   *evolutionsim.Server
	stage *demo.Stage
	logs  *logs
	keys  demo.Keys
}

// logs keeps what was logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// patience is how long the tests wait for what has to come: a machine that is busy, or stands still for seconds, is no finding.
const patience = time.Minute

// quick are short limits, so that what takes minutes in production is seen in seconds. What a call, an append or a read may take stays
// longer than a machine stands still.
func quick(t *testing.T) app.Config {
	t.Helper()
	cfg, err := app.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(t.TempDir())
	cfg.NATSSync = "default" // durability has its own tests; here speed counts
	cfg.Partitions, cfg.AcceptLimit, cfg.ReadYourWrite = 2, 40*time.Second, 40*time.Second
	cfg.IntentBudget, cfg.SendLimit, cfg.SuccessorWait = 5*time.Second, 10*time.Second, 12*time.Second
	cfg.LookUps = []time.Duration{100 * time.Millisecond, 300 * time.Millisecond}
	cfg.PresumedAfter, cfg.Quiet, cfg.ProbeEvery = 500*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond
	cfg.LogLevel = "debug"
	return cfg
}

// hasty makes the limit of a call short where a test waits for it.
func hasty(c *app.Config) {
	c.IntentBudget, c.SendLimit, c.SuccessorWait = 2*time.Second, 3*time.Second, 4*time.Second
}

// newRig starts everything; options change the configuration first.
func newRig(t *testing.T, options ...func(*app.Config)) *rig {
	t.Helper()
	return newRigBehind(t, nil, options...)
}

// newRigBehind is newRig with something between Pilot and the gateway: front gets the gateway's URL and gives the one to use.
func newRigBehind(t *testing.T, front func(gateway string) string, options ...func(*app.Config)) *rig {
	t.Helper()
	return newRigOf(t, app.Roles(), front, options...)
}

// newRigOf is newRigBehind with some of the roles only.
func newRigOf(t *testing.T, roles []app.Role, front func(gateway string) string, options ...func(*app.Config)) *rig {
	t.Helper()
	cfg := quick(t)
	for _, o := range options {
		o(&cfg)
	}
	if cfg.PostgresURL == "" {
		cfg.PostgresURL = pgtest.Database(t)
	}
	sim, err := demo.StartSim(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	r := &rig{t: t, cfg: cfg, roles: roles, logs: &logs{}, sim: sim}
	r.start()
	gateway := sim.URL()
	if front != nil {
		gateway = front(gateway)
	}
	stage, err := demo.SetUp(t.Context(), r.app.Control(), demo.Outside{GatewayURL: gateway, GatewayKey: sim.APIKey(), HookAddr: "127.0.0.1:0"}, r.logger())
	if err != nil {
		t.Fatal(err)
	}
	r.stage, r.keys = stage, *stage.Keys
	t.Cleanup(func() {
		bounded, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := stage.Close(bounded); err != nil {
			t.Errorf("close stage: %v", err)
		}
	})
	t.Cleanup(r.stop) // before the stage goes
	return r
}

func (r *rig) logger() zerolog.Logger {
	var out io.Writer = r.logs
	if os.Getenv("PILOT_TEST_LOG") != "" {
		out = io.MultiWriter(r.logs, zerolog.ConsoleWriter{Out: os.Stderr})
	}
	return zerolog.New(out).With().Timestamp().Logger()
}

func (r *rig) start() {
	r.t.Helper()
	a, err := app.Start(r.t.Context(), r.cfg, r.roles, r.logger())
	if err != nil {
		r.t.Fatal(err)
	}
	r.app = a
}

func (r *rig) stop() {
	if r.app == nil {
		return
	}
	bounded, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.app.Stop(bounded); err != nil {
		r.t.Errorf("stop: %v", err)
	}
	r.app = nil
	client.CloseIdleConnections()
}

var client = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// do makes one call and gives status and body.
func (r *rig) do(method, path, key string, body any) (int, map[string]any) {
	r.t.Helper()
	status, raw, err := call(r.t.Context(), method, r.app.URLs().API+path, key, body)
	if err != nil {
		r.t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		r.t.Fatalf("%s %s: %d %s: %v", method, path, status, raw, err)
	}
	return status, out
}

func call(ctx context.Context, method, url, key string, body any) (int, []byte, error) {
	return apicall.Do(ctx, client, method, url, key, body)
}

// send sends free text from the own instance and gives the message id.
func (r *rig) send(text string, more ...func(map[string]any)) string {
	r.t.Helper()
	body := map[string]any{"text": text, "destinationNumber": "+5511988887777"}
	for _, m := range more {
		m(body)
	}
	status, out := r.do(http.MethodPost, "/v1/messages/send", r.keys.Own, body)
	if status != http.StatusAccepted {
		r.t.Fatalf("send: %d %v", status, out)
	}
	return out["id"].(string)
}

func within(d time.Duration) func(map[string]any) {
	return func(m map[string]any) { m["deliverUntil"] = time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
}

// message reads a message; nil when it cannot be read now.
func (r *rig) message(id string) map[string]any {
	r.t.Helper()
	status, out := r.do(http.MethodGet, "/v1/messages/"+id, r.keys.Own, nil)
	if status != http.StatusOK {
		return nil
	}
	return out
}

// await polls until a message satisfies want.
func (r *rig) await(id, what string, want func(m map[string]any) bool) map[string]any {
	r.t.Helper()
	var m map[string]any
	eventually(r.t, what, func() bool {
		m = r.message(id)
		return m != nil && want(m)
	}, func() string { return fmt.Sprint(m, "\n", r.timeline(id)) })
	return m
}

func (r *rig) awaitStatus(id, status string) map[string]any {
	r.t.Helper()
	return r.await(id, status, func(m map[string]any) bool { return m["status"] == status })
}

// timeline lists the events of a message by name.
func (r *rig) timeline(id string) []string {
	r.t.Helper()
	status, out := r.do(http.MethodGet, "/v1/messages/"+id+"/events", r.keys.Own, nil)
	if status != http.StatusOK {
		return nil
	}
	var names []string
	for _, e := range out["data"].([]any) {
		names = append(names, e.(map[string]any)["event"].(string))
	}
	return names
}

func count(list []string, want string) int {
	n := 0
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

func (r *rig) fault(f evolutionsim.Fault) {
	r.t.Helper()
	if _, err := r.sim.AddFault(f); err != nil {
		r.t.Fatal(err)
	}
}

// ledger counts what left with a text.
func (r *rig) ledger(text string) int {
	return len(r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries)
}

// hooks lists the customer events of a message in order of arrival.
func (r *rig) hooks(id string) []string {
	all, refused := r.stage.Receiver.Hooks()
	if refused > 0 {
		r.t.Fatalf("%d webhooks without a valid signature", refused)
	}
	var out []string
	for _, h := range all {
		if h.MessageID == id {
			out = append(out, h.Event)
		}
	}
	return out
}

func (r *rig) awaitHook(id, event string) {
	r.t.Helper()
	eventually(r.t, "webhook "+event, func() bool { return count(r.hooks(id), event) > 0 }, func() string { return fmt.Sprint(r.hooks(id)) })
}

// eventually polls to a deadline.
func eventually(t *testing.T, what string, ok func() bool, say func() string) {
	t.Helper()
	awaittest.Eventually(t, patience, 20*time.Millisecond, what, ok, say)
}
