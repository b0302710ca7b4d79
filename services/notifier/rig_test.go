package notifier

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/streamtest"
	"pilotstatus.dev/services/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	partition = events.Partition(0)
	instance  = "inst1"
	tenant    = "acme"
	limit     = time.Minute // of what has to come: a machine that is busy, or stands still for seconds, is no finding
)

// rig is a real server with all streams of one partition, and a catalog that follows it.
type rig struct {
	t    *testing.T
	log  *eventlog.Log
	keys *keyring.Keyring
	feed *control.Feed
}

func newRig(t *testing.T) *rig {
	t.Helper()
	l := streamtest.New(t, 1, eventlog.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := &rig{t: t, log: l.Events, keys: l.Keys}
	r.feed = control.NewFeed(r.log, control.Settings{Probe: 50 * time.Millisecond, MaxAge: limit})
	r.run(r.feed.Run)
	for !errors.Is(r.feed.Current(), nil) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the catalog does not get current")
		}
	}
	return r
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	r.t.Cleanup(cancel)
	return ctx
}

// run runs a component until stop is called or the test ends.
func (r *rig) run(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			r.t.Errorf("a component ended with %v", err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) fanout(s FanoutSettings) (stop func()) {
	f := NewFanout(r.log, r.feed, r.keys, partition, s)
	stop = r.run(f.Run)
	if !await.Closed(r.ctx(), f.Warm()) {
		r.t.Fatal("the fan-out does not get warm")
	}
	return stop
}

func (r *rig) worker(s WorkerSettings) (stop func()) {
	s.Client.AllowLoopback = true
	s.Jitter = -1
	return r.run(NewWorker(r.log, r.feed, r.keys, control.NewSecrets(r.keys), s).Run)
}

func secretOf(id string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte("secret of "+id+" 0123456789abcdef"))
}

// endpoint defines a customer's endpoint; change may alter it before.
func (r *rig) endpoint(id, url string, change func(*events.Endpoint)) {
	r.t.Helper()
	sealed, err := control.NewSecrets(r.keys).Seal(r.ctx(), id, []byte(secretOf(id)))
	if err != nil {
		r.t.Fatal(err)
	}
	e := events.Endpoint{ID: id, TenantID: tenant, URL: url, Environment: events.Live, Active: true, Events: []string{"*"}, Secrets: []events.Sealed{sealed}}
	if change != nil {
		change(&e)
	}
	r.define(events.KindEndpoint, id, e)
}

func (r *rig) define(kind, id string, e events.Endpoint) {
	r.t.Helper()
	seq, err := control.Define(r.ctx(), r.log, kind, id, e, control.Author{By: "test"}, r.version(kind, id))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.feed.Await(r.ctx(), seq); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) version(kind, id string) uint64 {
	rec, err := r.log.LastBySubject(r.ctx(), events.StreamControl, events.ControlSubject(kind, id))
	if err != nil {
		return 0
	}
	return rec.Position.Sequence
}

// accept appends an accepted message and gives its sequence.
func (r *rig) accept(id string, retention int) uint64 {
	r.t.Helper()
	text, err := json.Marshal(events.Payload{Destination: "+5511999990000", Digits: "5511999990000", Content: template.Content{Body: "your code"}})
	if err != nil {
		r.t.Fatal(err)
	}
	sealed, err := r.keys.Seal(r.ctx(), tenant, "m-"+id, keyring.AAD(tenant, id, events.FieldPayload), text)
	if err != nil {
		r.t.Fatal(err)
	}
	lane := events.Lane{Instance: instance, Class: events.ClassOTP, Tenant: tenant}
	ack, err := r.log.Append(r.ctx(), events.Event{
		Envelope: events.Envelope{ID: id, Type: events.TypeMessageQueued, Source: "pilot/test", Time: time.Now(), Subject: id, TenantID: tenant},
		Address:  events.QueuedSubject(partition, lane),
		Body: &events.MessageQueued{
			Environment: events.Live, KeyID: "key1", Category: events.OTP, Origin: "ACME", SourceNumber: "5511888880000", CorrelationID: "cor_" + id,
			RetentionDays: retention, Sealed: sealed,
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return ack.Sequence
}

// receipt appends a receipt under an id of its own, so that repeats reach the log.
func (r *rig) receipt(id string, queued uint64, state, more string) {
	r.t.Helper()
	_, err := r.log.Append(r.ctx(), events.Event{
		Envelope: events.Envelope{
			ID: id + "." + state + more, Type: "receipt." + state + ".v1", Source: "pilot/test", Time: time.Now(), Subject: id,
			TenantID: tenant, QueuedSeq: queued, GatewayID: "3EB0AA",
		},
		Address: events.EventSubject(partition, instance, events.GroupReceipt, state),
		Body:    &events.Receipt{GatewayStatus: state, At: time.Now(), ReceivedAt: time.Now()},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// fenced appends an event of the fenced group.
func (r *rig) fenced(name, id string, queued uint64, body any) {
	r.t.Helper()
	last, err := streamtest.GroupEnd(r.ctx(), r.log, partition, instance)
	if err != nil {
		r.t.Fatal(err)
	}
	env := events.Envelope{
		ID: fmt.Sprintf("%s.%s.%d", id, name, last), Type: "dispatch." + name + ".v1", Source: "pilot/test", Time: time.Now(), TenantID: tenant,
	}
	if name != "closed" {
		env.Subject, env.QueuedSeq, env.Attempt, env.GatewayID = id, queued, 1, "3EB0AA"
	}
	if _, err := r.log.AppendFenced(r.ctx(), partition, instance, events.Event{
		Envelope: env, Address: events.EventSubject(partition, instance, events.GroupDispatch, name), Body: body,
	}, last); err != nil {
		r.t.Fatal(err)
	}
}

// heard is one request that an endpoint got.
type heard struct {
	ID        string
	Timestamp string
	Event     string
	Body      string
	Data      map[string]any
}

// receiver is an endpoint of a customer that verifies every signature.
type receiver struct {
	*httptest.Server
	calls chan heard
}

// receive starts an endpoint; answer gives the status of the n-th call, from 1.
func (r *rig) receive(id string, answer func(n int, w http.ResponseWriter)) *receiver {
	r.t.Helper()
	hook, err := standardwebhooks.NewWebhook(secretOf(id))
	if err != nil {
		r.t.Fatal(err)
	}
	rc := &receiver{calls: make(chan heard, 64)}
	var mu sync.Mutex
	n := 0
	rc.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			r.t.Error(err)
		}
		if err := hook.Verify(raw, req.Header); err != nil {
			r.t.Errorf("%s: %v", id, err)
		}
		var body struct {
			Event, Type string
			Data        map[string]any
		}
		if err := json.Unmarshal(raw, &body); err != nil || body.Event != body.Type {
			r.t.Errorf("body %s: %v", raw, err)
		}
		mu.Lock()
		n++
		k := n
		mu.Unlock()
		if answer != nil {
			answer(k, w)
		}
		rc.calls <- heard{
			ID: req.Header.Get("webhook-id"), Timestamp: req.Header.Get("webhook-timestamp"), Event: body.Event, Body: string(raw), Data: body.Data,
		}
	}))
	r.t.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) next(t *testing.T) heard {
	t.Helper()
	select {
	case h := <-rc.calls:
		return h
	case <-time.After(limit):
		t.Fatal("the endpoint hears nothing")
		return heard{}
	}
}

// attempts waits until n tries are recorded for an endpoint and gives them.
func (r *rig) attempts(endpoint string, n int) (subjects []string, tries []events.HookAttempt) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	end := errors.New("end")
	err := r.log.Tail(ctx, eventlog.TailConfig{Stream: events.StreamHookLog, Filters: []string{events.HookLogSubject(endpoint, "*")}}, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			subjects = append(subjects, rec.Address)
			tries = append(tries, *rec.Body.(*events.HookAttempt))
		}
		if len(tries) >= n {
			return end
		}
		return nil
	})
	if !errors.Is(err, end) {
		r.t.Fatalf("%d tries are recorded, want %d: %v", len(tries), n, err)
	}
	return subjects, tries
}
