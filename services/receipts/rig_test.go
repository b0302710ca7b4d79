package receipts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/streamtest"
	"pilotstatus.dev/services/control"
)

const (
	partition = events.Partition(0)
	instance  = "inst1"
	limit     = 60 * time.Second
)

// rig is a real server with all streams of one partition.
type rig struct {
	t      *testing.T
	server *natsserver.Server
	log    *eventlog.Log
	keys   *keyring.Keyring
}

func newRig(t *testing.T) *rig {
	t.Helper()
	l := streamtest.New(t, 1, eventlog.Options{})
	return &rig{t: t, server: l.Server, log: l.Events, keys: l.Keys}
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	r.t.Cleanup(cancel)
	return ctx
}

// fenced appends an event of the fenced group as a dispatcher does.
func (r *rig) fenced(name, messageID string, attempt int, gatewayID string, body any) uint64 {
	r.t.Helper()
	last, err := streamtest.GroupEnd(r.ctx(), r.log, partition, instance)
	if err != nil {
		r.t.Fatal(err)
	}
	seq, err := r.log.AppendFenced(r.ctx(), partition, instance, events.Event{
		Envelope: events.Envelope{
			ID: messageID + "." + name, Type: "dispatch." + name + ".v1", Source: "pilot/test", Time: time.Now(), Subject: messageID,
			TenantID: "acme", Attempt: attempt, QueuedSeq: 1, GatewayID: gatewayID,
		},
		Address: events.EventSubject(partition, instance, events.GroupDispatch, name), Body: body,
	}, last)
	if err != nil {
		r.t.Fatal(err)
	}
	return seq
}

func (r *rig) started(id, gatewayID string) uint64 {
	return r.fenced("started", id, 1, gatewayID, &events.DispatchStarted{Call: "sendText"})
}

func (r *rig) accepted(id, gatewayID string) {
	r.fenced("accepted", id, 1, gatewayID, &events.DispatchAccepted{HTTPStatus: 201})
}

// said stores what a gateway said, as the ingest does.
func (r *rig) said(o events.GatewayObserved) {
	r.t.Helper()
	o.ReceivedAt = time.Now()
	raw := o.Event + o.KeyID + o.Status + o.State + o.ReceivedAt.String()
	_, err := r.log.Append(r.ctx(), events.Event{
		Envelope: events.Envelope{ID: observationID(instance, o, []byte(raw), 0), Type: events.TypeGatewayObserved, Source: "pilot/test", Time: o.ReceivedAt},
		Address:  events.ReceiptSubject(partition, instance, o.Event), Body: &o,
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) receipt(keyID, status string) {
	r.said(events.GatewayObserved{Event: EventMessagesUpdate, KeyID: keyID, Status: status, FromMe: true})
}

// correlate runs a correlator until stop is called or the test ends, and waits until it is warm.
func (r *rig) correlate(log Log, s Settings) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	c := NewCorrelator(log, partition, s)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			r.t.Errorf("correlator ended with %v", err)
		}
	})
	r.t.Cleanup(stop)
	if !await.Closed(r.ctx(), c.Warm()) {
		r.t.Fatal("the correlator does not get warm")
	}
	return stop
}

// ids reads the ids of what stands in the log under a filter, oldest first.
func (r *rig) events(filter string) (out []events.Recorded) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	end := errors.New("end")
	err := r.log.Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(partition), Filters: []string{filter}}, func(_ context.Context, b eventlog.Batch) error {
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

func (r *rig) ids(filter string) []string {
	var out []string
	for _, rec := range r.events(filter) {
		out = append(out, rec.ID)
	}
	return out
}

// wait polls until the ids under a filter are the wanted ones.
func (r *rig) wait(filter string, want ...string) {
	r.t.Helper()
	var got []string
	eventually(r.t, func() bool {
		got = r.ids(filter)
		return slices.Equal(got, want)
	}, func() any { return got })
}

// waitAny waits for the same in any order.
func (r *rig) waitAny(filter string, want ...string) {
	r.t.Helper()
	slices.Sort(want)
	var got []string
	eventually(r.t, func() bool {
		got = r.ids(filter)
		return slices.Equal(slices.Sorted(slices.Values(got)), want)
	}, func() any { return got })
}

func eventually(t *testing.T, ok func() bool, have func() any) {
	t.Helper()
	awaittest.Eventually(t, limit, 10*time.Millisecond, "what the test waits for", ok, func() string { return fmt.Sprintf("have %v", have()) })
}

var receiptFilter = events.GroupFilter(partition, events.GroupReceipt)

// plane is a catalog in memory.
type plane struct {
	mu      sync.Mutex
	c       *catalog.Catalog
	stale   bool
	changed chan struct{}
	seq     uint64
}

func newPlane() *plane {
	p := &plane{c: catalog.New(), changed: make(chan struct{}, 1)}
	p.define(events.KindDeployment, "deployment", &events.Defined[events.Deployment]{Value: events.Deployment{Partitions: 1}})
	return p
}

func (p *plane) define(kind, id string, body any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	p.take(p.seq, kind, id, body)
}

// defineAt takes an event in that CONTROL really holds.
func (p *plane) defineAt(seq uint64, kind, id string, body any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(seq, kind, id, body)
}

func (p *plane) take(seq uint64, kind, id string, body any) {
	p.c.Apply(events.Recorded{
		Event: events.Event{Address: events.ControlSubject(kind, id), Body: body}, Known: true, Position: events.Position{Sequence: seq},
	})
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *plane) instance(in events.Instance) {
	p.define(events.KindInstance, in.ID, &events.Defined[events.Instance]{Value: in})
}

func (p *plane) Read(use func(*catalog.Catalog)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	use(p.c)
}

func (p *plane) Current() error {
	if p.stale {
		return errors.New("stale")
	}
	return nil
}

func (p *plane) Watch() (<-chan struct{}, func()) { return p.changed, func() {} }

func (p *plane) Ready() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func sealed(t *testing.T, r *rig, id, token, secret string) events.Instance {
	t.Helper()
	in, err := control.NewSecrets(r.keys).SealIngress(t.Context(), events.Instance{ID: id, TenantID: "acme", Name: id},
		control.Ingress{IngressSecret: events.IngressSecret{Token: token, Secret: secret}})
	if err != nil {
		t.Fatal(err)
	}
	return in
}
