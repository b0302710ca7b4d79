package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/infra/streamtest"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/schema"
	"pilotstatus.dev/projections/views"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/receipts"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	part     = events.Partition(0)
	instance = "inst1"
	limit    = 30 * time.Second
)

// rig is a real log, its view in a real Postgres, a correlator and a simulated gateway.
type rig struct {
	t       *testing.T
	streams *streamtest.Log
	log     *eventlog.Log
	views   *views.Views
	sim     *evolutionsim.Server
	cat     *plane
	secrets control.Secrets
}

// plane is a catalog in memory.
type plane struct {
	mu sync.Mutex
	c  *catalog.Catalog
}

func (p *plane) Read(use func(*catalog.Catalog)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	use(p.c)
}

func newRig(t *testing.T, o evolutionsim.Options) *rig {
	t.Helper()
	r := &rig{t: t, streams: streamtest.New(t, 1, eventlog.Options{}), cat: &plane{c: catalog.New()}}
	r.log, r.secrets = r.streams.Events, control.NewSecrets(r.streams.Keys)
	url := pgtest.Database(t)
	if err := schema.Migrate(t.Context(), url, schema.Default); err != nil {
		t.Fatal(err)
	}
	pool, err := schema.Open(t.Context(), url, schema.Default, postgres.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r.views = views.New(pool)
	if r.sim, err = evolutionsim.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.sim.Close)
	r.instance(instance)
	pr := projector.New(pool, projector.Config{Gapless: true, OnCommit: r.views.Committed})
	r.run("projector", func(ctx context.Context) error { return pr.Run(ctx, part, tailed{r.log}) })
	r.run("correlator", receipts.NewCorrelator(r.log, part, receipts.Settings{Grace: 200 * time.Millisecond, Sweep: 20 * time.Millisecond}).Run)
	return r
}

// tailed feeds the projector.
type tailed struct{ log *eventlog.Log }

func (s tailed) Last(ctx context.Context, p events.Partition) (uint64, error) {
	return s.log.LastSequence(ctx, events.EventsStream(p))
}

func (s tailed) Tail(ctx context.Context, p events.Partition, from uint64, handle func(context.Context, []events.Recorded, uint64) error) error {
	return s.log.Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(p), From: from, Gapless: true},
		func(ctx context.Context, b eventlog.Batch) error { return handle(ctx, b.Events, b.Last) })
}

// run runs a part until the test, or stop, ends it.
func (r *rig) run(name string, part func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			r.t.Errorf("%s ended with %v", name, err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// instance makes an instance known, here and at the gateway, which posts no webhooks.
func (r *rig) instance(id string) {
	r.t.Helper()
	if err := r.sim.AddInstance(evolutionsim.Instance{Name: id, Number: "5511900000000"}); err != nil {
		r.t.Fatal(err)
	}
	key, err := r.secrets.Seal(r.t.Context(), id, []byte(r.sim.APIKey()))
	if err != nil {
		r.t.Fatal(err)
	}
	in := events.Instance{ID: id, TenantID: "acme", Name: id, GatewayURL: r.sim.URL(), GatewayKey: key}
	r.cat.mu.Lock()
	defer r.cat.mu.Unlock()
	r.cat.c.Apply(events.Recorded{
		Event: events.Event{Address: events.ControlSubject(events.KindInstance, id), Body: &events.Defined[events.Instance]{Value: in}},
		Known: true, Position: events.Position{Sequence: uint64(len(id)) + uint64(time.Now().UnixNano())},
	})
}

// reconciler makes one over the given log; every call of round is one round.
func (r *rig) reconciler(log Log, s Settings) *Reconciler {
	s.AskEvery, s.CallLimit = time.Millisecond, limit
	return New(log, r.views, r.cat, r.gateways(), r.streams.Leases, []events.Partition{part}, s)
}

// msg is one in the log. Its times lie in the past, so that nobody has to wait.
type msg struct {
	id  string
	seq uint64
}

// queued accepts a message whose deliverUntil was, or is, so long after now.
func (r *rig) queued(instance string, until time.Duration) msg {
	r.t.Helper()
	now := time.Now().UTC()
	m := msg{id: "msg_" + strings.ReplaceAll(uuid.NewString(), "-", "")}
	ack, err := r.log.Append(r.t.Context(), events.Event{
		Envelope: events.Envelope{
			ID: m.id, Type: events.TypeMessageQueued, Source: "pilot/test", Time: now.Add(min(until, 0) - time.Hour), Subject: m.id, TenantID: "acme",
			DeliverUntil: now.Add(until),
		},
		Address: events.QueuedSubject(part, events.Lane{Instance: instance, Class: events.ClassUtility, Tenant: "acme"}),
		Body:    &events.MessageQueued{Project: "p", Environment: events.Live, Category: events.Utility},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	m.seq = ack.Sequence
	return m
}

// fenced appends an event of the fenced group that happened so long ago.
func (r *rig) fenced(instance, name string, m msg, gatewayID string, ago time.Duration, body any) {
	r.t.Helper()
	if err := r.tryFenced(instance, name, m, gatewayID, ago, body); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tryFenced(instance, name string, m msg, gatewayID string, ago time.Duration, body any) error {
	last, err := streamtest.GroupEnd(r.t.Context(), r.log, part, instance)
	if err != nil {
		return err
	}
	ev := events.Event{
		Envelope: events.Envelope{
			ID: uuid.NewString(), Type: "dispatch." + name + ".v1", Source: "pilot/test", Time: time.Now().Add(-ago).UTC(), Subject: m.id,
			TenantID: "acme", Attempt: 1, QueuedSeq: m.seq, GatewayID: gatewayID, Nonce: "n-" + m.id,
		},
		Address: events.EventSubject(part, instance, events.GroupDispatch, name), Body: body,
	}
	if d, ok := body.(*events.DispatchDeferred); ok {
		ev.Called, ev.DueAt = d.Called, d.DueAt
	}
	_, err = r.log.AppendFenced(r.t.Context(), part, instance, ev, last)
	return err
}

// left is a message that the gateway took so long ago, under a key id.
func (r *rig) left(instance, gatewayID string, ago time.Duration) msg {
	r.t.Helper()
	m := r.queued(instance, time.Hour)
	r.fenced(instance, "started", m, "", ago, &events.DispatchStarted{Call: "sendText"})
	r.fenced(instance, "accepted", m, gatewayID, ago, &events.DispatchAccepted{HTTPStatus: 201})
	return m
}

// receipt records a receipt as the correlator does.
func (r *rig) receipt(instance string, m msg, name, word string) {
	r.t.Helper()
	_, err := r.log.Append(r.t.Context(), events.Event{
		Envelope: events.Envelope{
			ID: m.id + "." + name, Type: "receipt." + name + ".v1", Source: "pilot/test", Time: time.Now().UTC(), Subject: m.id, TenantID: "acme",
			QueuedSeq: m.seq,
		},
		Address: events.EventSubject(part, instance, events.GroupReceipt, name),
		Body:    &events.Receipt{GatewayStatus: word, At: time.Now().UTC(), ReceivedAt: time.Now().UTC()},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// sent lets the gateway send a text, and gives the key id that it made; it keeps the receipts that its options say.
func (r *rig) sent(instance, text string) string {
	r.t.Helper()
	body := fmt.Sprintf(`{"number":"5511988887777","text":%q}`, text)
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.sim.URL()+"/message/sendText/"+instance, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("apikey", r.sim.APIKey())
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	entries := r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries
	if res.StatusCode != http.StatusCreated || len(entries) != 1 {
		r.t.Fatalf("sent: %d, %d in the ledger", res.StatusCode, len(entries))
	}
	return entries[0].KeyID
}

// events lists the events of the log about a message, by name; of ends of several too.
func (r *rig) events(m msg) (names []string) {
	r.t.Helper()
	for _, rec := range r.recs() {
		closed, ends := rec.Body.(*events.DispatchClosed)
		if rec.Subject == m.id || (ends && slices.ContainsFunc(closed.Messages, func(c events.ClosedMessage) bool { return c.ID == m.id })) {
			names = append(names, events.NameOf(rec.Type))
		}
	}
	return names
}

func (r *rig) recs() (out []events.Recorded) {
	r.t.Helper()
	end := errors.New("end")
	err := r.log.Tail(r.t.Context(), eventlog.TailConfig{Stream: events.EventsStream(part)}, func(_ context.Context, b eventlog.Batch) error {
		out = append(out, b.Events...)
		if b.CaughtUp {
			return end
		}
		return nil
	})
	if !errors.Is(err, end) {
		r.t.Fatal(err)
	}
	return out
}

// stage reads a message in the view, as of now.
func (r *rig) stage(m msg) views.Message {
	r.t.Helper()
	last, err := r.log.LastSequence(r.t.Context(), events.EventsStream(part))
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	if err := r.views.WaitFor(ctx, part, last); err != nil {
		r.t.Fatal(err)
	}
	v, err := r.views.Message(ctx, views.Scope{Tenant: "acme", Project: "p", Environment: events.Live}, m.id)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *rig) awaitStage(m msg, want events.Stage) {
	r.t.Helper()
	var got views.Message
	awaittest.Eventually(r.t, limit, 20*time.Millisecond, string(want), func() bool {
		got = r.stage(m)
		return got.Stage == want
	}, func() string { return fmt.Sprintf("%s, %v", got.Stage, r.events(m)) })
}

// acts counts what a reconciler did.
func (r *rig) acts(rec *Reconciler, act string) int {
	r.t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(rec.set.Metrics.acts)
	families, err := reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == act {
			return int(m.GetCounter().GetValue())
		}
	}
	return 0
}

func count(names []string, want string) (n int) {
	for _, s := range names {
		if s == want {
			n++
		}
	}
	return n
}

func (r *rig) gateways() receipts.Gateways { return receipts.Gateways{Secrets: r.secrets} }

func (r *rig) known(id string) (in events.Instance, ok bool) {
	r.cat.Read(func(c *catalog.Catalog) { in, ok = c.Instance(id) })
	return in, ok
}
