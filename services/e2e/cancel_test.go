package e2e

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
)

// canceled is the answer to a cancel.
type canceled struct {
	Cancelled []string `json:"cancelled"`
	Failed    []struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
	} `json:"failed"`
}

// cancelAt asks one API to cancel, and gives for each id "cancelled" or the reason.
func cancelAt(t *testing.T, api, key string, ids ...string) map[string]string {
	t.Helper()
	status, raw, err := call(t.Context(), http.MethodDelete, api+"/v1/messages/cancel", key, map[string]any{"messageIds": ids})
	if err != nil || status != http.StatusOK {
		t.Errorf("cancel: %d %s %v", status, raw, err)
		return nil
	}
	var out canceled
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Error(err)
	}
	said := map[string]string{}
	for _, id := range out.Cancelled {
		said[id] = "cancelled"
	}
	for _, f := range out.Failed {
		said[f.ID] = f.Reason
	}
	if len(said) != len(ids) || len(out.Cancelled)+len(out.Failed) != len(ids) {
		t.Errorf("%d answers for %d messages: %s", len(said), len(ids), raw)
	}
	return said
}

func at(when time.Time) func(map[string]any) {
	return func(m map[string]any) { m["deliverAt"] = when.UTC().Format(time.RFC3339Nano) }
}

// secondAPI starts another process' worth of API on the same log and views.
func (r *rig) secondAPI(options ...func(*app.Config)) *app.App {
	r.t.Helper()
	cfg := r.cfg
	cfg.Local(r.t.TempDir())
	cfg.NATSURL, cfg.PostgresURL, cfg.MasterKeyFile = r.app.URLs().NATS, r.cfg.PostgresURL, r.cfg.MasterKeyPath()
	for _, o := range options {
		o(&cfg)
	}
	a, err := app.Start(r.t.Context(), cfg, []app.Role{app.RoleAPI}, r.logger())
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// What is canceled reads so at once, is never sent, and nobody is told; what left cannot be canceled.
func TestCancelScheduled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	later := r.send("later.", at(time.Now().Add(time.Hour)))
	sent := r.send("sent.")
	r.awaitStatus(sent, "READ")
	due := time.Now().Add(4 * time.Second)
	soon := r.send("soon.", at(due))
	said := cancelAt(t, r.app.URLs().API, r.keys.Own, soon, later, sent, "msg_nobody")
	if said[soon] != "cancelled" || said[later] != "cancelled" || said[sent] != "ALREADY_SENT" || said["msg_nobody"] != "NOT_FOUND" {
		t.Errorf("%v", said)
	}
	for _, id := range []string{soon, later} {
		m := r.message(id)
		if m["status"] != "CANCELED" || m["stage"] != "CANCELED" || m["canceledAt"] == nil || m["errorCode"] != nil || m["failedAt"] != nil {
			t.Errorf("read right after its cancel: %v", m)
		}
	}
	// P12: a key of another environment does not find them; the same key finds them canceled again.
	if said := cancelAt(t, r.app.URLs().API, r.keys.Test, soon); said[soon] != "NOT_FOUND" {
		t.Errorf("outside of its scope: %v", said)
	}
	if said := cancelAt(t, r.app.URLs().API, r.keys.Own, soon); said[soon] != "cancelled" {
		t.Errorf("again: %v", said)
	}
	marker := r.send("marker.", at(due.Add(500*time.Millisecond))) // due after what was canceled
	r.awaitStatus(marker, "READ")
	if n := r.ledger("soon."); n != 0 {
		t.Errorf("a canceled message left %d times", n)
	}
	if n := count(r.timeline(soon), "dispatch.closed"); n != 1 {
		t.Errorf("%d ends: %v", n, r.timeline(soon))
	}
	if hooks := r.hooks(soon); len(hooks) > 0 {
		t.Errorf("the customer was told %v", hooks)
	}
}

// P7: with Postgres away a message is found in the log, and what is not found there may exist.
func TestCancelWithoutPostgres(t *testing.T) {
	t.Parallel()
	var pg *postgres.Managed
	r := newRig(t, func(c *app.Config) {
		pg = pgtest.Server(t, nil)
		c.PostgresURL = pg.URL()
	})
	scheduled, sent := r.send("scheduled.", at(time.Now().Add(time.Hour))), r.send("sent.")
	r.awaitStatus(sent, "READ")
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	young := r.send("young.", at(time.Now().Add(time.Hour)))
	nobody := events.MessageID(uuid.Must(uuid.NewV7()), 0)
	said := cancelAt(t, r.app.URLs().API, r.keys.Own, scheduled, sent, young, nobody)
	if said[scheduled] != "cancelled" || said[young] != "cancelled" || said[sent] != "ALREADY_SENT" || said[nobody] != "TRY_AGAIN" {
		t.Errorf("%v", said)
	}
	if said := cancelAt(t, r.app.URLs().API, r.keys.Test, scheduled); said[scheduled] != "TRY_AGAIN" {
		t.Errorf("outside of its scope: %v", said)
	}
	if err := pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(scheduled, "CANCELED")
	r.awaitStatus(young, "CANCELED")
}

// The acknowledgement of the end is lost with its connection: the same end is found, and one answer is given.
func TestCancelWhoseAcknowledgementIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	breaker := newBreaker(t, strings.TrimPrefix(r.app.URLs().NATS, "nats://"), "dispatch.closed")
	other := r.secondAPI(func(c *app.Config) { c.NATSURL = "nats://" + breaker.addr })
	defer stopApp(t, other)
	id := r.send("lost.", at(time.Now().Add(time.Hour)))
	r.await(id, "in the view", func(map[string]any) bool { return true })
	breaker.armed.Store(true)
	if said := cancelAt(t, other.URLs().API, r.keys.Own, id); said[id] != "cancelled" {
		t.Errorf("%v", said)
	}
	if breaker.cut.Load() != 1 {
		t.Errorf("the connection broke %d times", breaker.cut.Load())
	}
	r.awaitStatus(id, "CANCELED")
	if n := count(r.timeline(id), "dispatch.closed"); n != 1 {
		t.Errorf("%d ends", n)
	}
}

// breaker passes a connection on and breaks it once, after bytes that contain a word went to the target and before any answer.
type breaker struct {
	addr  string
	armed atomic.Bool
	cut   atomic.Int32
}

func newBreaker(t *testing.T, target, word string) *breaker {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{addr: l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			var broken atomic.Bool
			all.Go(func() { b.pass(client, server, &broken, []byte(word)) })
			all.Go(func() { b.pass(server, client, &broken, nil) })
		}
	})
	return b
}

func (b *breaker) pass(from, to net.Conn, broken *atomic.Bool, word []byte) {
	defer func() { _ = from.Close(); _ = to.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || broken.Load() {
			return
		}
		hit := word != nil && bytes.Contains(buf[:n], word) && b.armed.CompareAndSwap(true, false)
		if hit { // the answer will find nobody
			broken.Store(true)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		if hit {
			b.cut.Add(1)
			return
		}
	}
}
