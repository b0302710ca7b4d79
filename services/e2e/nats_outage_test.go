package e2e

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/loopback"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
)

// broker is a NATS server of its own, which Pilot reaches by its URL; it comes back on the same port and store.
type broker struct {
	t     *testing.T
	addr  string
	store string
	max   int64
	srv   *natsserver.Server
}

func newBroker(t *testing.T, store string) *broker {
	t.Helper()
	b := &broker{t: t, addr: fixedAddr(t), store: store}
	t.Cleanup(b.stop)
	return b
}

func (b *broker) url() string { return "nats://" + b.addr }

func (b *broker) start() {
	if err := loopback.Left(context.Background(), b.addr); err != nil {
		b.t.Errorf("start broker: %v", err)
		return
	}
	_, text, _ := net.SplitHostPort(b.addr)
	port, _ := strconv.Atoi(text)
	srv, err := natsserver.Start(context.Background(), natsserver.Config{
		StoreDir: b.store, Port: port, Sync: natsserver.SyncDefault, MaxStore: b.max, Logger: zerolog.Nop(),
	})
	if err != nil {
		b.t.Errorf("start broker: %v", err)
		return
	}
	b.srv = srv
}

func (b *broker) stop() {
	if b.srv == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.srv.Stop(ctx); err != nil {
		b.t.Errorf("stop broker: %v", err)
	}
	b.srv = nil
}

// withBroker makes Pilot use the broker.
func withBroker(url string) func(*app.Config) {
	return func(c *app.Config) { c.NATSURL = url }
}

// quickRefusal makes a send without a log wait for it as long as one try takes.
func quickRefusal(c *app.Config) { c.AcceptLimit = 2 * time.Second }

// Fault catalogue N1: a process that finds no NATS waits for it, at most StartWithin, and needs nobody to start it again.
func TestN1NATSComesUpAfterPilot(t *testing.T) {
	t.Parallel()
	b := newBroker(t, t.TempDir())
	cfg := quick(t)
	cfg.NATSURL, cfg.PostgresURL, cfg.StartWithin = b.url(), pgtest.Database(t), 500*time.Millisecond
	if _, err := app.Start(t.Context(), cfg, app.Roles(), zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "connect to nats") {
		t.Fatalf("without NATS within the limit of a start: %v", err)
	}
	up := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		defer close(up)
		b.start()
	})
	r := newRig(t, withBroker(b.url()))
	<-up
	r.awaitStatus(r.send("first words"), "READ")
	r.awaitReady("ready", wholly)
}

// Fault catalogue N1: NATS is away for some seconds under load. Sends are answered 503 and never a false 202, nothing is sent,
// readiness says what is wrong; then everything goes on without a restart, and every accepted message ends, once.
func TestN1NATSAwayUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBroker(t, t.TempDir())
	b.start()
	r := newRig(t, withBroker(b.url()), quickRefusal, hasty)
	r.awaitReady("ready", wholly)
	l := r.startLoad("away", 4, 50*time.Millisecond)
	l.awaitAccepted(t, 10)
	b.stop()
	away := time.Now()
	r.awaitReady("not ready", func(got readiness) bool {
		return got.status == http.StatusServiceUnavailable && got.word == "not_ready" && slices.Contains(got.failing, "log") &&
			slices.Contains(got.failing, "control")
	})
	// A call that began with the outage may take its whole limit; from then on nothing leaves.
	for time.Since(away) < r.cfg.SendLimit+500*time.Millisecond {
		r.ready()
	}
	accepted, _ := l.counts()
	left := r.ledger("away ")
	eventually(t, "answered 503", func() bool {
		status, out := r.do(http.MethodPost, "/v1/messages/send", r.keys.Own, map[string]any{"text": "while away", "destinationNumber": "+5511988887777"})
		if status == http.StatusAccepted {
			t.Errorf("a false 202: %v", out)
		}
		return status == http.StatusServiceUnavailable
	}, nil)
	if n := r.ledger("away "); n != left {
		t.Errorf("%d left while no intent could be recorded", n-left)
	}
	if n, _ := l.counts(); n != accepted {
		t.Errorf("%d were accepted without a log", n-accepted)
	}
	b.start()
	l.awaitAccepted(t, accepted+10)
	l.check()
	r.awaitReady("ready again", wholly)
	if n := r.ledger("while away"); n > 1 {
		t.Errorf("a message answered 503 left %d times", n)
	}
}

// Fault catalogue N2: every trip to NATS and back takes 300 ms: all is slower and nothing else. Then it takes longer than an intent
// may be old: nothing is called, and what was accepted leaves once when NATS is quick again.
func TestN2SlowNATS(t *testing.T) {
	t.Parallel()
	b := newBroker(t, t.TempDir())
	b.start()
	p := newProxy(t, b.addr)
	r := newRig(t, withBroker("nats://"+p.addr), func(c *app.Config) {
		c.IntentBudget, c.SendLimit = 1200*time.Millisecond, 1500*time.Millisecond
	})
	t.Cleanup(func() { p.slow(0) })
	r.awaitStatus(r.send("at speed"), "READ")
	p.slow(150 * time.Millisecond)
	texts := []string{"slow one.", "slow two."}
	for _, text := range texts {
		r.awaitStatus(r.send(text), "READ")
	}
	r.once(texts)
	p.slow(800 * time.Millisecond)
	began := time.Now()
	id := r.send("too slow.", category("OTP"))
	for time.Since(began) < 3500*time.Millisecond {
		<-time.After(50 * time.Millisecond)
		if r.ledger("too slow.") > 0 {
			t.Fatal("called on an intent beyond its budget")
		}
	}
	p.slow(0)
	r.awaitStatus(id, "READ")
	r.once([]string{"too slow."})
	r.alone()
}
