package dispatcher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/snapshots"
	"pilotstatus.dev/infra/streamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	instanceID = "inst-1"
	simName    = "acme"
	tenant     = "tenant-1"
	number     = "5511988887777"
	partitionN = 1
)

// plainKeys unseals what was never sealed: sealing has its own tests.
type plainKeys struct{}

func (plainKeys) OpenPayload(_ context.Context, _, _ string, s events.Sealed) ([]byte, error) {
	return s.Blob, nil
}

func (plainKeys) OpenSecret(_ context.Context, _ string, s events.Sealed) ([]byte, error) {
	return s.Blob, nil
}

func (plainKeys) HashJID(_ context.Context, tenant, jid string) (string, error) {
	return tenant + " knows " + jid, nil
}

func (plainKeys) HashText(_ context.Context, tenant, text string) (string, error) {
	sum := sha256.Sum256([]byte(tenant + text))
	return hex.EncodeToString(sum[:]), nil
}

// fixedCatalog holds instances only.
type fixedCatalog struct {
	mu      sync.Mutex
	catalog *catalog.Catalog
	changes chan struct{}
	seq     uint64
}

func (f *fixedCatalog) Read(read func(*catalog.Catalog)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	read(f.catalog)
}

func (f *fixedCatalog) Watch() (changed <-chan struct{}, stop func()) { return f.changes, func() {} }

func (f *fixedCatalog) Current() error { return nil }

func (f *fixedCatalog) define(inst events.Instance) {
	f.apply(events.KindInstance, inst.ID, &events.Defined[events.Instance]{Value: inst})
}

// apply takes the state of any entity in.
func (f *fixedCatalog) apply(kind, id string, body any) {
	f.mu.Lock()
	f.seq++
	f.catalog.Apply(events.Recorded{
		Event: events.Event{
			Envelope: events.Envelope{Type: events.DefinedType(kind)}, Address: events.ControlSubject(kind, id), Body: body,
		},
		Position: events.Position{Sequence: f.seq}, Known: true,
	})
	f.mu.Unlock()
	select {
	case f.changes <- struct{}{}:
	default:
	}
}

// rig is a log, a gateway and any number of dispatchers.
type rig struct {
	t       testing.TB
	server  *natsserver.Server
	js      jetstream.JetStream
	log     *eventlog.Log
	leases  *eventlog.Leases
	sim     *evolutionsim.Server
	catalog *fixedCatalog
	p       events.Partition
	name    string // of the instance at the simulator
	keys    Keys
	dial    func(ctx context.Context, network, address string) (net.Conn, error) // of gateway connections
	keep    time.Duration                                                        // idle gateway connections; 0 is the default
	kept    Snapshots
	witness Witness
	view    func(context.Context, events.Partition) (snapshots.Mark, error)
}

func newRig(t testing.TB) *rig { return newRigWith(t, nil) }

// newRigWith lets change say what the gateway is like.
func newRigWith(t testing.TB, change func(*evolutionsim.Options)) *rig {
	t.Helper()
	ctx := t.Context()
	l := streamtest.New(t, partitionN, eventlog.Options{Logger: zerolog.Nop()})
	o := evolutionsim.Options{
		Receipts:  evolutionsim.Receipts{ServerAck: evolutionsim.Never, DeliveryAck: evolutionsim.Never, Read: evolutionsim.Never},
		Instances: []evolutionsim.Instance{{Name: simName, Number: "5511900000000", State: "open"}},
	}
	if change != nil {
		change(&o)
	}
	sim, err := evolutionsim.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	r := &rig{
		t: t, server: l.Server, js: l.JetStream, log: l.Events, leases: l.Leases, sim: sim, name: simName,
		catalog: &fixedCatalog{catalog: catalog.New(), changes: make(chan struct{}, 1)}, keys: plainKeys{},
	}
	r.p = events.PartitionOf(instanceID, partitionN)
	r.catalog.define(r.instance())
	return r
}

func (r *rig) instance() events.Instance {
	return events.Instance{
		ID: instanceID, TenantID: tenant, Name: r.name, GatewayURL: r.sim.URL(),
		GatewayKey: events.Sealed{Blob: []byte(r.sim.APIKey())}, Concurrency: 1, MaxConcurrency: 1,
	}
}

// quick are settings without long waits.
func quick() Settings {
	rules := queue.DefaultRules()
	rules.Backoffs = map[events.Category]queue.Backoff{}
	for _, c := range events.Categories() {
		rules.Backoffs[c] = queue.Backoff{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond}
	}
	rules.Quiet = 50 * time.Millisecond
	rules.PresumedAfter = 300 * time.Millisecond
	return Settings{
		ID: "d1", Rules: rules, CallLimit: 2500 * time.Millisecond, SuccessorWait: 400 * time.Millisecond,
		LookUps: []time.Duration{50 * time.Millisecond, 150 * time.Millisecond}, ProbeEvery: 50 * time.Millisecond, Drain: 5 * time.Second,
	}
}

// run starts a dispatcher; stop ends it and waits.
func (r *rig) run(set Settings) (d *Dispatcher, stop func()) {
	r.t.Helper()
	d = New(Config{
		Settings: set, Logs: []*eventlog.Log{r.log}, Leases: r.leases, Catalog: r.catalog, Keys: r.keys,
		Gateway: func(url, key string) (*evolution.Client, error) {
			return evolution.New(evolution.Config{BaseURL: url, APIKey: key, Version: "2.3.6", Dial: r.dial, IdleTimeout: r.keep})
		},
		Logger: testLogger(), Snapshots: r.kept, Witness: r.witness, Checkpoint: r.view,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					r.t.Errorf("dispatcher: %v", err)
				}
			case <-time.After(30 * time.Second):
				r.t.Error("dispatcher did not stop")
			}
		})
	}
	r.t.Cleanup(stop)
	return d, stop
}

func testLogger() zerolog.Logger {
	if os.Getenv("PILOT_TEST_LOG") == "" {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).With().Timestamp().Logger()
}

// order is a message to accept.
type order struct {
	class     events.Class
	tenant    string
	number    string
	text      string
	content   *template.Content
	deliverAt time.Time
	window    time.Duration
	recipient string // its hash
	instance  string // instanceID when empty
	slot      uint8
	preview   bool
}

// accept appends a queued event, as the API does, and gives the message id.
func (r *rig) accept(o order) string {
	r.t.Helper()
	if o.class == "" {
		o.class = events.ClassOTP
	}
	if o.tenant == "" {
		o.tenant = tenant
	}
	if o.number == "" {
		o.number = number
	}
	if o.window == 0 {
		o.window = time.Minute
	}
	if o.instance == "" {
		o.instance = instanceID
	}
	c := template.Content{Body: o.text}
	if o.content != nil {
		c = *o.content
	}
	raw, err := json.Marshal(events.Payload{Destination: "+" + o.number, Digits: o.number, Content: c, LinkPreview: o.preview})
	if err != nil {
		r.t.Fatal(err)
	}
	now := time.Now().UTC()
	id := events.MessageID(uuid.Must(uuid.NewV7()), r.p)
	at := now
	if o.deliverAt.After(now) {
		at = o.deliverAt
	}
	ev := events.Event{
		Address: events.QueuedSubject(r.p, events.Lane{Instance: o.instance, Class: o.class, Tenant: o.tenant, Slot: o.slot}),
		Envelope: events.Envelope{
			ID: id, Type: events.TypeMessageQueued, Source: "pilot/test", Time: now, Subject: id, TenantID: o.tenant,
			DeliverAt: o.deliverAt, DeliverUntil: at.Add(o.window),
		},
		Body: &events.MessageQueued{Category: o.class.Category(), RecipientHash: o.recipient, Sealed: events.Sealed{KeyID: "k", Blob: raw}},
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := r.log.Append(ctx, ev); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// instanceEvent appends an event of the instance group.
func (r *rig) instanceEvent(typ, name string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := r.log.Append(ctx, events.Event{
		Address:  events.EventSubject(r.p, instanceID, events.GroupInstance, name),
		Envelope: events.Envelope{ID: uuid.NewString(), Type: typ, Source: "pilot/test", Time: time.Now().UTC()},
		Body:     &events.InstanceChanged{By: "test"},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// history reads the whole log.
func (r *rig) history() []events.Recorded {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	last, err := r.log.LastSequence(ctx, events.EventsStream(r.p))
	if err != nil {
		r.t.Fatal(err)
	}
	var out []events.Recorded
	for seq := uint64(1); seq <= last; seq++ {
		rec, err := r.log.Get(ctx, events.EventsStream(r.p), seq)
		switch {
		case events.CodeOf(err) == events.CodeMalformed: // published by hand
			rec.Address, rec.Position = events.EventSubject(r.p, instanceID, events.GroupDispatch, "malformed"), events.Position{Partition: r.p, Sequence: seq}
		case err != nil:
			r.t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

func (r *rig) state(id string) (message.State, message.View) {
	s := message.State{ID: id}
	for _, rec := range r.history() {
		s = s.Apply(rec)
	}
	return s, s.View()
}

// await polls until the view of a message satisfies want.
func (r *rig) await(id, what string, want func(message.View) bool) message.View {
	r.t.Helper()
	var v message.View
	eventually(r.t, what, func() bool {
		_, v = r.state(id)
		return want(v)
	}, func() string { return fmt.Sprintf("%+v\n%s", v, r.story(id)) })
	return v
}

func (r *rig) awaitStage(id string, stage events.Stage) message.View {
	r.t.Helper()
	return r.await(id, string(stage), func(v message.View) bool { return v.Stage == stage })
}

func (r *rig) story(id string) string {
	out := ""
	for _, rec := range r.history() {
		for _, m := range message.Subjects(rec) {
			if m.ID == id {
				out += fmt.Sprintf("  %s %s attempt %d %+v\n", rec.Position, rec.Type, rec.Attempt, rec.Body)
			}
		}
	}
	return out
}

// eventually polls to a deadline.
func eventually(t testing.TB, what string, ok func() bool, say func() string) {
	t.Helper()
	awaittest.Eventually(t, 20*time.Second, 10*time.Millisecond, what, ok, say)
}

// ledger counts what the gateway took of a text.
func (r *rig) ledger(text string) int {
	return len(r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries)
}

func (r *rig) fault(f evolutionsim.Fault) {
	r.t.Helper()
	if _, err := r.sim.AddFault(f); err != nil {
		r.t.Fatal(err)
	}
}

// count counts the events of a type about a message.
func (r *rig) count(id, typ string) int {
	n := 0
	for _, rec := range r.history() {
		for _, m := range message.Subjects(rec) {
			if m.ID == id && rec.Type == typ {
				n++
			}
		}
	}
	return n
}
