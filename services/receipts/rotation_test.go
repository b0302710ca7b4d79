package receipts

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/services/control"
)

// That a gateway was told of a new secret is recorded once, when it was told, and only after a rotation: until then the secret before is
// not retired.
func TestThatTheGatewayWasToldIsRecorded(t *testing.T) {
	t.Parallel()
	r, p := newRig(t), newPlane()
	secrets := control.NewSecrets(r.keys)
	answers := make(chan int) // one for each call
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // else nobody notices that the caller has gone
		select {
		case status := <-answers:
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"id":"1"}`))
		case <-req.Context().Done():
		}
	}))
	t.Cleanup(gateway.Close)
	define := func(in events.Instance, version uint64) {
		t.Helper()
		seq, err := control.Define(r.ctx(), r.log, events.KindInstance, in.ID, in, control.Author{By: "test"}, version)
		if err != nil {
			t.Fatal(err)
		}
		p.defineAt(seq, events.KindInstance, in.ID, &events.Defined[events.Instance]{Value: in})
	}
	recorded := func(id string) (events.Instance, string, uint64) {
		t.Helper()
		rec, err := r.log.LastBySubject(r.ctx(), events.StreamControl, events.ControlSubject(events.KindInstance, id))
		if err != nil {
			t.Fatal(err)
		}
		d := rec.Body.(*events.Defined[events.Instance])
		return d.Value, d.By, rec.Position.Sequence
	}
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		reg := NewRegistrar(p, secrets, Gateways{Secrets: secrets}, RegistrarSettings{
			BaseURL: "http://in.example", Again: 5 * time.Millisecond, BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, Control: r.log,
		})
		go func() { defer close(over); _ = reg.Run(ctx) }()
		stop = func() { cancel(); <-over }
		t.Cleanup(stop)
		return stop
	}
	next := func(status int) {
		t.Helper()
		select {
		case answers <- status:
		case <-time.After(limit):
			t.Fatal("the gateway is not asked")
		}
	}
	in := events.Instance{ID: instance, TenantID: "acme", Name: instance, GatewayURL: gateway.URL}
	var err error
	if in.GatewayKey, err = secrets.Seal(t.Context(), in.ID, []byte("api-key")); err != nil {
		t.Fatal(err)
	}
	ingress := control.Ingress{IngressSecret: events.IngressSecret{Token: "token", Secret: "old"}}
	if in, err = secrets.SealIngress(t.Context(), in, ingress); err != nil {
		t.Fatal(err)
	}
	define(in, 0)
	stop := run()
	for range 3 {
		next(http.StatusCreated)
	}
	_, _, version := recorded(instance)
	if _, by, _ := recorded(instance); by != "test" {
		t.Fatalf("recorded by %s without a rotation", by)
	}
	if in, err = secrets.SealIngress(t.Context(), in, ingress.Rotated("new")); err != nil {
		t.Fatal(err)
	}
	stop()
	define(in, version)
	stop = run()
	for range 3 {
		next(http.StatusServiceUnavailable)
	}
	if now, _, _ := recorded(instance); now.IngressTold != nil {
		t.Fatalf("recorded, and the gateway was not told: %+v", now.IngressTold)
	}
	before := time.Now()
	next(http.StatusCreated)
	awaittest.Eventually(t, limit, 5*time.Millisecond, "the record", func() bool { _, by, _ := recorded(instance); return by == "registrar" }, nil)
	stop()
	now, _, version := recorded(instance)
	if from, told := now.PreviousUnused(); !told || from.Before(before.Add(events.IngressRepeats-time.Second)) {
		t.Errorf("may be retired from %v, %v", from, told)
	}
	moved := now
	moved.GatewayURL = "http://another"
	if _, told := moved.PreviousUnused(); told {
		t.Error("another gateway was not told")
	}
	p.defineAt(version, events.KindInstance, instance, &events.Defined[events.Instance]{Value: now})
	stop = run()
	for range 3 {
		next(http.StatusCreated)
	}
	stop()
	if _, _, last := recorded(instance); last != version {
		t.Error("recorded again")
	}
}

// Who hears 401 gives the event up: a secret that this process does not know yet is looked for first.
func TestASecretThatIsNewerThanTheCatalogIsAdmitted(t *testing.T) {
	t.Parallel()
	r, p := newRig(t), newPlane()
	p.instance(sealed(t, r, instance, "token-one", "secret-one"))
	var behind atomic.Bool
	s := serve(t, NewIngest(p, control.NewSecrets(r.keys), r.keys, r.log, IngestSettings{CatchUp: func(context.Context) error {
		if behind.Load() {
			return events.Errorf(events.CodeUnavailable, "it cannot be read")
		}
		p.instance(sealed(t, r, instance, "token-one", "secret-new"))
		return nil
	}}))
	for _, c := range []struct {
		secret string
		behind bool
		want   int
	}{
		{"secret-one", true, http.StatusOK},
		{"secret-new", true, http.StatusServiceUnavailable},
		{"secret-forged", false, http.StatusUnauthorized},
		{"secret-new", false, http.StatusOK},
	} {
		behind.Store(c.behind)
		if res := post(t, s.URL+"/receipts/token-one", c.secret, update); res.StatusCode != c.want {
			t.Errorf("%s, behind %v: %d, want %d", c.secret, c.behind, res.StatusCode, c.want)
		}
	}
}
