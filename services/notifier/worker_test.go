package notifier

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/loopback"
	"pilotstatus.dev/services/control"
)

func status(code int) func(int, http.ResponseWriter) {
	return func(_ int, w http.ResponseWriter) { w.WriteHeader(code) }
}

// tell makes one message SENT, with the fan-out running.
func (r *rig) tell(id string, retention int) {
	r.t.Helper()
	r.receipt(id, r.accept(id, retention), "sent", "")
}

func results(subjects []string) (out []string) {
	for _, s := range subjects {
		out = append(out, s[strings.LastIndex(s, ".")+1:])
	}
	return out
}

func TestFailedDeliveryIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", func(n int, w http.ResponseWriter) {
		if n <= 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{Waits: []time.Duration{time.Millisecond, 1200 * time.Millisecond, time.Hour}})
	r.tell("msg_1", 30)
	first, second, third := rc.next(t), rc.next(t), rc.next(t)
	if first.ID != second.ID || first.ID != third.ID || first.Body != second.Body || first.Body != third.Body {
		t.Errorf("id or body of the tries differ: %+v %+v %+v", first, second, third)
	}
	if first.Timestamp == third.Timestamp { // a replayed timestamp would be refused by receivers (C4.82)
		t.Error("the tries have one timestamp")
	}
	subjects, tries := r.attempts("ep1", 3)
	if got := results(subjects); !slices.Equal(got, []string{"failed", "failed", "succeeded"}) {
		t.Errorf("recorded %v", got)
	}
	if a := tries[0]; a.Attempt != 1 || a.HTTPStatus != 500 || a.Reason != "status_500" || a.NextAt.IsZero() || a.MessageID != "msg_1" {
		t.Errorf("first try %+v", a)
	}
	if a := tries[2]; a.Attempt != 3 || a.HTTPStatus != 200 || a.Reason != "" || !a.NextAt.IsZero() {
		t.Errorf("last try %+v", a)
	}
}

func TestDeliveriesEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bad, gone := r.receive("ep1", status(http.StatusForbidden)), r.receive("ep2", status(http.StatusGone))
	r.endpoint("ep1", bad.URL, nil)
	r.endpoint("ep2", gone.URL, nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{Waits: []time.Duration{time.Millisecond}})
	r.tell("msg_1", 30)
	subjects, tries := r.attempts("ep1", 2)
	if got := results(subjects); !slices.Equal(got, []string{"failed", "exhausted"}) || tries[1].Reason != "status_403" {
		t.Errorf("recorded %v: %+v", got, tries)
	}
	subjects, tries = r.attempts("ep2", 2) // and that it was switched off
	if got := results(subjects); !slices.Equal(got, []string{"exhausted", "exhausted"}) || tries[0].Reason != reasonGone || tries[0].HTTPStatus != http.StatusGone ||
		tries[1].Event != events.CustomerWebhookDisabled {
		t.Errorf("recorded %v: %+v", got, tries)
	}
}

// TestSlowEndpointDelaysNoOther holds promise P10.
func TestSlowEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const slowest = 10 * time.Second
	hang := make(chan struct{})
	slow := r.receive("ep1", func(int, http.ResponseWriter) { <-hang })
	t.Cleanup(func() { close(hang) })
	fast := r.receive("ep2", nil)
	r.endpoint("ep1", slow.URL, nil)
	r.endpoint("ep2", fast.URL, nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{Waits: []time.Duration{time.Hour}, Client: ClientSettings{Limit: slowest}})
	begun := time.Now()
	for _, id := range []string{"msg_1", "msg_2", "msg_3", "msg_4", "msg_5", "msg_6"} {
		r.tell(id, 30)
	}
	for range 6 {
		fast.next(t)
	}
	if waited := time.Since(begun); waited >= slowest {
		t.Errorf("the fast endpoint waited %s", waited)
	}
	if _, tries := r.attempts("ep1", 1); tries[0].Reason != "timeout" || tries[0].HTTPStatus != 0 {
		t.Errorf("slow try %+v", tries[0])
	}
}

func TestContentIsLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	stop := r.fanout(FanoutSettings{})
	r.tell("msg_1", 0)
	r.tell("msg_2", 30)
	if err := r.keys.Erase(r.ctx(), tenant, "m-msg_2"); err != nil {
		t.Fatal(err)
	}
	r.worker(WorkerSettings{})
	for range 2 {
		h := rc.next(t)
		if h.Data["content"] != "" || h.Data["destinationNumber"] != "" || h.Data["to"] != "" || h.Data["status"] != "SENT" {
			t.Errorf("told %s", h.Body)
		}
	}
	stop()
}

func TestEndpointsSwitchedOffAndRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{Postpone: 20 * time.Millisecond})
	r.tell("msg_1", 30)
	id := rc.next(t).ID
	r.attempts("ep1", 1)
	// A delivery that was published before the endpoint was switched off waits until it is on again.
	r.endpoint("ep1", rc.URL, func(e *events.Endpoint) { e.Active = false })
	delivery := func(id string) {
		t.Helper()
		if _, err := r.log.Append(r.ctx(), events.Event{
			Envelope: events.Envelope{ID: id, Type: events.TypeHookDelivery, Source: "pilot/test", Time: time.Now(), Subject: "msg_1", TenantID: tenant},
			Address:  events.HookSubject("ep1"), Body: &events.HookDelivery{Endpoint: "ep1", Event: events.CustomerMessageRead, MessageID: "msg_1", Status: events.StatusRead, At: time.Now()},
		}); err != nil {
			t.Fatal(err)
		}
	}
	delivery("aa")
	r.endpoint("ep1", rc.URL, nil)
	if h := rc.next(t); h.ID != "aa" || h.ID == id {
		t.Errorf("after switching on: %+v", h)
	}
	r.attempts("ep1", 2)
	seq, err := control.Remove(r.ctx(), r.log, events.KindEndpoint, "ep1", control.Author{By: "test"}, r.version(events.KindEndpoint, "ep1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.feed.Await(r.ctx(), seq); err != nil {
		t.Fatal(err)
	}
	delivery("bb")
	subjects, tries := r.attempts("ep1", 3)
	if got := results(subjects); got[2] != events.HookExhausted || tries[2].Reason != reasonRemoved {
		t.Errorf("after removal: %v %+v", got, tries[2])
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	w := NewWorker(nil, nil, nil, nil, WorkerSettings{})
	now := time.Now()
	var total time.Duration
	for n := 1; ; n++ {
		result, next := w.judge(n-1, answer{status: 500, reason: "status_500"}, now)
		if result == events.HookExhausted {
			if n != 10 {
				t.Errorf("exhausted after %d tries, want 10", n)
			}
			break
		}
		wait, want := next.Sub(now), DefaultWaits()[n-1]
		if wait < want-time.Millisecond || wait > want+want/10 {
			t.Errorf("wait %d is %s, want %s and at most a tenth more", n, wait, want)
		}
		total += wait
	}
	if total < 75*time.Hour || total > 4*24*time.Hour {
		t.Errorf("the tries span %s", total)
	}
	for header, want := range map[time.Duration]time.Duration{10 * time.Minute: 10 * time.Minute, 48 * time.Hour: time.Hour} {
		if _, next := w.judge(0, answer{status: 429, reason: "status_429", retryAfter: header}, now); next.Sub(now).Round(time.Second) != want {
			t.Errorf("Retry-After %s gives %s, want %s", header, next.Sub(now), want)
		}
	}
	if got := retryAfter("120", now); got != 2*time.Minute {
		t.Errorf("seconds: %s", got)
	}
	if got := retryAfter(now.Add(time.Minute).UTC().Format(http.TimeFormat), now); got <= 58*time.Second || got > time.Minute {
		t.Errorf("date: %s", got)
	}
	for _, none := range []string{"", "soon", "-5", now.Add(-time.Hour).UTC().Format(http.TimeFormat)} {
		if got := retryAfter(none, now); got != 0 {
			t.Errorf("%q: %s", none, got)
		}
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	c := newClient(ClientSettings{Limit: limit})
	defer c.close()
	got := map[string]string{}
	want := map[string]string{}
	for _, target := range []string{
		"http://127.0.0.1/", "http://127.0.0.1:8080/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://10.0.0.1/", "https://192.168.0.1/",
		"http://169.254.169.254/latest/meta-data", "http://0.0.0.0/", "http://[fd00:ec2::254]/", "http://[64:ff9b::7f00:1]/", "http://100.100.100.200/",
	} {
		got[target] = c.post(t.Context(), target, "id", []string{secretOf("ep1")}, nil).reason
		want[target] = "address_not_allowed"
	}
	for _, target := range []string{"ftp://example.com/", "/relative", "http://user:pass@example.com/", "http://[::1", ""} {
		got[target] = c.post(t.Context(), target, "id", []string{secretOf("ep1")}, nil).reason
		want[target] = "url_not_allowed"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if a := c.post(t.Context(), "http://127.0.0.1/", "id", nil, nil); a.reason != "secret_unusable" {
		t.Errorf("without a secret: %+v", a)
	}
}

// TestRedirectsAreNotFollowed holds case C4.80.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var inside atomic.Int32
	target := r.receive("inside", func(int, http.ResponseWriter) { inside.Add(1) })
	for id, to := range map[string]string{"ep1": "http://169.254.169.254/latest/meta-data", "ep2": target.URL} {
		rc := r.receive(id, func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		r.endpoint(id, rc.URL, nil)
	}
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{Waits: []time.Duration{}})
	r.tell("msg_1", 30)
	for _, id := range []string{"ep1", "ep2"} {
		if subjects, tries := r.attempts(id, 1); results(subjects)[0] != events.HookExhausted || tries[0].Reason != "redirect" || tries[0].HTTPStatus != 307 {
			t.Errorf("%s: %v %+v", id, subjects, tries)
		}
	}
	if inside.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestLoopbackNeedsAnAllowance(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var heard atomic.Int32
	rc := r.receive("ep1", func(int, http.ResponseWriter) { heard.Add(1) })
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	r.run(NewWorker(r.log, r.feed, r.keys, control.NewSecrets(r.keys), WorkerSettings{Waits: []time.Duration{}}).Run)
	r.tell("msg_1", 30)
	if _, tries := r.attempts("ep1", 1); tries[0].Reason != "address_not_allowed" || heard.Load() != 0 {
		t.Errorf("recorded %+v, heard %d", tries, heard.Load())
	}
}

func TestBothSecretsSignDuringARotation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil) // verifies with the old secret
	r.endpoint("ep1", rc.URL, func(e *events.Endpoint) {
		sealed, err := control.NewSecrets(r.keys).Seal(r.ctx(), "ep1", []byte(secretOf("newer")))
		if err != nil {
			t.Fatal(err)
		}
		e.Secrets = append([]events.Sealed{sealed}, e.Secrets...)
	})
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{})
	r.tell("msg_1", 30)
	rc.next(t)
}

func TestReasons(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nobody, err := loopback.Addresses(t.Context(), 1) // no other listener is given it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(ClientSettings{Limit: limit, AllowLoopback: true})
	defer c.close()
	if a := c.post(t.Context(), "http://"+nobody[0].String(), "id", []string{secretOf("x")}, nil); a.reason != "connection_refused" {
		t.Errorf("closed port: %+v", a)
	}
	plain := r.receive("y", nil)
	if a := c.post(t.Context(), strings.Replace(plain.URL, "http:", "https:", 1), "id", []string{secretOf("y")}, nil); a.reason != "tls" {
		t.Errorf("no TLS there: %+v", a)
	}
	unknown := newClient(ClientSettings{Limit: 3 * time.Second}) // a name server may say nothing
	defer unknown.close()
	if a := unknown.post(t.Context(), "http://no-such-host.invalid/", "id", []string{secretOf("x")}, nil); a.reason != "name_not_found" && a.reason != "timeout" {
		t.Errorf("unknown host: %+v", a)
	}
}
