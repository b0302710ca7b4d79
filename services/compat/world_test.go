// Package compat plays the clients that customers have today against Pilot: what they send, how they read answers and events, how they
// repeat (docs/compatibility.md). One deployment serves all of them at once.
//
//   - client_c1_test.go … client_c6_test.go: each client as it was seen in public code, and what must hold for it
//   - accept_test.go, return_test.go, behave_test.go, hooks_test.go: the checklist of a drop-in for sending
//   - decided_test.go: where the documents contradict each other
package compat

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/demo"
)

var table = flag.String("compat.table", "", "File for the table of clients, checks and results.")

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a running deployment with the customers of old on it.
type world struct {
	t     *testing.T
	app   *app.App
	sim   *evolutionsim.Server
	hooks *receivers
	keys  keys
	cfg   app.Config
	log   zerolog.Logger

	mu      sync.Mutex
	results []result
}

// result is what came of one check.
type result struct {
	group, name string
	ok          bool
}

// play is a group of checks: a client, or a part of the checklist.
type play struct {
	name, about string
	run         func(t *testing.T, c *checks)
}

// checks runs and counts the checks of one group.
type checks struct {
	*world
	group string
}

func (c *checks) check(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	ok := t.Run(name, run)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, result{c.group, name, ok})
}

func TestCompat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plays := []play{
		{"C1", "barber shop, TypeScript", c1Checks},
		{"C2", "CRM, PHP", c2Checks},
		{"C3", "provider of many tenants, TypeScript", c3Checks},
		{"C4", "edge functions, Deno", c4Checks},
		{"C5", "monitor over the SDK", c5Checks},
		{"C6", "sender of codes", c6Checks},
		{"accept", "checklist: what is accepted", acceptChecks},
		{"return", "checklist: what is answered", returnChecks},
		{"behave", "checklist: what is done", behaveChecks},
		{"hooks", "checklist: what endpoints hear", hooksChecks},
		{"decided", "contradictions of the documents", decidedChecks},
	}
	t.Run("play", func(t *testing.T) {
		for _, p := range plays {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				p.run(t, &checks{w, p.name})
			})
		}
	})
	w.report(t, plays)
	if run := flag.Lookup("test.run").Value.String(); run == "" || run == "^TestCompat$" {
		w.documented(t)
	}
}

// report writes the table.
func (w *world) report(t *testing.T, plays []play) {
	t.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, "%-8s %-38s %6s  %s\n", "client", "", "checks", "result")
	for _, p := range plays {
		all := 0
		var broken []string
		for _, r := range w.results {
			if r.group == p.name {
				all++
				if !r.ok {
					broken = append(broken, r.name)
				}
			}
		}
		verdict := "holds"
		if all == 0 {
			verdict = "not played"
		}
		if len(broken) > 0 {
			verdict = "BROKEN: " + strings.Join(broken, ", ")
		}
		fmt.Fprintf(&out, "%-8s %-38s %6d  %s\n", p.name, p.about, all, verdict)
	}
	t.Log("\n" + out.String())
	if *table != "" {
		if err := os.WriteFile(*table, out.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	}
}

var mentioned = regexp.MustCompile("`((?:C[1-6]|accept|return|behave|hooks|decided)/[a-z0-9_]+)`")

// documented compares the checks with those that docs/compatibility.md names.
func (w *world) documented(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range mentioned.FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = true
	}
	for _, r := range w.results {
		name := r.group + "/" + r.name
		if !named[name] {
			t.Errorf("docs/compatibility.md does not name the check %s", name)
		}
		delete(named, name)
	}
	for name := range named {
		t.Errorf("docs/compatibility.md names %s, which is no check", name)
	}
}

// newWorld starts everything.
func newWorld(t *testing.T) *world {
	t.Helper()
	cfg, err := app.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(t.TempDir())
	cfg.NATSSync, cfg.Partitions, cfg.LogLevel = "default", 2, "warn"
	cfg.LookUps, cfg.PresumedAfter = []time.Duration{100 * time.Millisecond, 300 * time.Millisecond}, 500*time.Millisecond
	cfg.Quiet, cfg.ProbeEvery = 50*time.Millisecond, 200*time.Millisecond
	cfg.ReadYourWrite = 10 * time.Second // a machine may stand still for a while
	cfg.HookWaits = slices.Repeat([]time.Duration{100 * time.Millisecond}, 9)
	cfg.PostgresURL = pgtest.Database(t)
	w := &world{t: t, hooks: newReceivers(t)}
	if w.sim, err = demo.StartSim(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.sim.Close)
	log := zerolog.Nop()
	if os.Getenv("PILOT_TEST_LOG") != "" {
		log = zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).With().Timestamp().Logger()
	}
	w.cfg, w.log = cfg, log
	w.app = w.start(cfg, app.Roles())
	w.settle()
	return w
}

// start starts roles for the time of the test.
func (w *world) start(cfg app.Config, roles []app.Role) *app.App {
	w.t.Helper()
	a, err := app.Start(w.t.Context(), cfg, roles, w.log)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		bounded, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := a.Stop(bounded); err != nil {
			w.t.Errorf("stop: %v", err)
		}
		transport.CloseIdleConnections()
	})
	return a
}

// beside starts another API of the deployment, set otherwise, and gives its URL.
func (w *world) beside(change func(*app.Config)) string {
	w.t.Helper()
	cfg := w.cfg
	cfg.NATSURL, cfg.MasterKeyFile = w.app.URLs().NATS, w.cfg.MasterKeyPath()
	change(&cfg)
	return w.start(cfg, []app.Role{app.RoleAPI}).URLs().API
}

// eventually polls to a deadline.
func eventually(t *testing.T, what string, ok func() bool, say func() string) {
	t.Helper()
	awaittest.Eventually(t, time.Minute, 20*time.Millisecond, what, ok, say)
}

// random gives n random bytes in hex.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}

// stringOf gives a JSON string member; empty for null, absence and every other type, as `typeof x === "string" ? x : ""` does.
func stringOf(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// listOf gives a JSON list member; empty for everything else.
func listOf(m map[string]any, name string) []any {
	list, _ := m[name].([]any)
	return list
}

func objectOf(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("no JSON object: %v: %s", err, raw)
	}
	return m
}
