package dispatcher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/events/template"
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
	f.change(events.DefinedType(kind), kind, id, body)
}

func (f *fixedCatalog) change(typ, kind, id string, body any) {
	f.mu.Lock()
	f.seq++
	f.catalog.Apply(events.Recorded{
		Event: events.Event{
			Envelope: events.Envelope{Type: typ}, Address: events.ControlSubject(kind, id), Body: body,
		},
		Position: events.Position{Sequence: f.seq}, Known: true, Stored: time.Now(),
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
	reads   *eventlog.Log // what the test itself asks: patiently, since a busy machine is no finding
	sim     *evolutionsim.Server
	catalog *fixedCatalog
	p       events.Partition // of instanceID
	parts   int              // partitions
	name    string           // of the instance at the simulator
	keys    Keys
	dial    func(ctx context.Context, network, address string) (net.Conn, error) // of gateway connections
	keep    time.Duration                                                        // idle gateway connections; 0 is the default
	kept    Snapshots
	witness Witness
	view    func(context.Context, events.Partition) (snapshots.Mark, error)
	lost    map[events.Partition]bool // partitions whose stream is gone
	polite  Courtesy                  // may be nil
	says    io.Writer                 // what dispatchers log, when not nil
}

func newRig(t testing.TB) *rig { return newRigWith(t, nil) }

// newRigWith lets change say what the gateway is like.
func newRigWith(t testing.TB, change func(*evolutionsim.Options)) *rig {
	return newRigOf(t, partitionN, change)
}

// newRigOf has a log of so many partitions.
func newRigOf(t testing.TB, partitions int, change func(*evolutionsim.Options)) *rig {
	t.Helper()
	ctx := t.Context()
	l := streamtest.New(t, partitions, eventlog.Options{Logger: zerolog.Nop()})
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
		t: t, server: l.Server, js: l.JetStream, log: l.Events, leases: l.Leases, sim: sim, name: simName, parts: partitions,
		reads:   eventlog.New(l.JetStream, eventlog.Options{Logger: zerolog.Nop(), TryTimeout: patience}),
		catalog: &fixedCatalog{catalog: catalog.New(), changes: make(chan struct{}, 1)}, keys: plainKeys{},
	}
	r.p = events.PartitionOf(instanceID, partitions)
	r.catalog.define(r.instance())
	return r
}

func (r *rig) instance() events.Instance {
	return events.Instance{
		ID: instanceID, TenantID: tenant, Name: r.name, GatewayURL: r.sim.URL(),
		GatewayKey: events.Sealed{Blob: []byte(r.sim.APIKey())}, Concurrency: 1, MaxConcurrency: 1,
	}
}

// patience is how long the test waits for what has to come: a machine that is busy, or stands still for seconds, is no finding.
const patience = time.Minute

// quick are settings without long waits. What a call may take stays longer than a machine stands still, and in the order of rule R9: no
// other dispatcher calls an attempt unknown while it may be under way. A lease outlives all of it: only who is killed loses one.
func quick() Settings {
	rules := queue.DefaultRules()
	rules.Backoffs = map[events.Category]queue.Backoff{}
	for _, c := range events.Categories() {
		rules.Backoffs[c] = queue.Backoff{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond}
	}
	rules.Quiet = 50 * time.Millisecond
	rules.PresumedAfter = 300 * time.Millisecond
	return Settings{
		ID: "d1", Rules: rules, Budget: 3 * time.Second, CallLimit: 8 * time.Second, SuccessorWait: 10 * time.Second, LeaseTTL: 15 * time.Second,
		LookUps: []time.Duration{50 * time.Millisecond, 150 * time.Millisecond}, ProbeEvery: 50 * time.Millisecond, Drain: 5 * time.Second,
	}
}

// unowned are quick settings under which an attempt of a life that is gone is soon unknown.
func unowned() Settings {
	set := quick()
	set.SuccessorWait = 400 * time.Millisecond
	return set
}

// run starts a dispatcher; stop ends it and waits.
func (r *rig) run(set Settings) (d *Dispatcher, stop func()) {
	r.t.Helper()
	d = New(Config{
		Settings: set, Logs: slices.Repeat([]*eventlog.Log{r.log}, r.parts), Leases: r.leases, Catalog: r.catalog, Keys: r.keys,
		Gateway: func(url, key string) (*evolution.Client, error) {
			return evolution.New(evolution.Config{BaseURL: url, APIKey: key, Version: "2.3.6", Dial: r.dial, IdleTimeout: r.keep})
		},
		Logger: r.logger(), Snapshots: r.kept, Witness: r.witness, Checkpoint: r.view, Courtesy: r.polite,
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
			case <-time.After(patience):
				r.t.Error("dispatcher did not stop")
			}
		})
	}
	r.t.Cleanup(stop)
	eventually(r.t, "the version of the gateway is asked", func() bool { return d.asked(r.sim.URL()) }, func() string { return "" })
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
	p := events.PartitionOf(o.instance, r.parts)
	id := events.MessageID(uuid.Must(uuid.NewV7()), p)
	at := now
	if o.deliverAt.After(now) {
		at = o.deliverAt
	}
	ev := events.Event{
		Address: events.QueuedSubject(p, events.Lane{Instance: o.instance, Class: o.class, Tenant: o.tenant, Slot: o.slot}),
		Envelope: events.Envelope{
			ID: id, Type: events.TypeMessageQueued, Source: "pilot/test", Time: now, Subject: id, TenantID: o.tenant,
			DeliverAt: o.deliverAt, DeliverUntil: at.Add(o.window),
		},
		Body: &events.MessageQueued{Category: o.class.Category(), RecipientHash: o.recipient, Sealed: events.Sealed{KeyID: "k", Blob: raw}},
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := r.log.Append(ctx, ev); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// instanceEvent appends an event of the instance group.
func (r *rig) instanceEvent(typ, name string) {
	r.t.Helper()
	r.told(instanceID, typ, name)
}
