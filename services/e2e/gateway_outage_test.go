package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"pilotstatus.dev/services/app"
)

func category(name string) func(map[string]any) {
	return func(m map[string]any) { m["category"] = name }
}

func (r *rig) accepts(what string) {
	r.t.Helper()
	// One gateway of many must not take the process out of service: messages are accepted and wait.
	if got := r.ready(); got.status != http.StatusOK {
		r.t.Errorf("%s: %+v", what, got)
	}
}

// The gateway is down: connections are refused. Nothing leaves, no attempt is used up, what is over its time fails as never
// called; the rest leaves once when the gateway is back.
func TestGatewayDown(t *testing.T) {
	t.Parallel()
	var p *proxy
	r := newRigBehind(t, gatewayBehind(t, &p))
	r.awaitStatus(r.send("up"), "READ")
	p.refuse()
	var ids, texts []string
	for i := range 4 {
		texts = append(texts, fmt.Sprintf("down %d.", i))
		ids = append(ids, r.send(texts[i], category("OTP")))
	}
	expired := r.send("down and over", within(time.Second))
	m := r.awaitStatus(expired, "FAILED")
	if m["errorCode"] != "MESSAGE_EXPIRED" {
		t.Errorf("message %v", m)
	}
	r.inTime(m)
	r.accepts("with the gateway down")
	if n := r.ledger("down"); n != 0 {
		t.Fatalf("%d left through a closed port", n)
	}
	p.pass()
	for _, id := range ids {
		r.awaitStatus(id, "READ")
	}
	r.once(texts)
	if n := r.ledger("down and over"); n != 0 {
		t.Errorf("left %d times after its end", n)
	}
	r.awaitHook(expired, "message.failed")
}

// inTime checks promise P3: a message without effect is FAILED within 5 s after its deadline.
func (r *rig) inTime(m map[string]any) {
	r.t.Helper()
	until, err1 := time.Parse(time.RFC3339Nano, fmt.Sprint(m["deliverUntil"]))
	failed, err2 := time.Parse(time.RFC3339Nano, fmt.Sprint(m["failedAt"]))
	if err1 != nil || err2 != nil {
		r.t.Fatalf("times of %v: %v, %v", m, err1, err2)
	}
	if late := failed.Sub(until); late < 0 || late > 5*time.Second {
		r.t.Errorf("ended %s after its deadline", late)
	}
}

// Fault catalogue G1: the gateway takes connections and answers nothing. A call that got no answer is unknown: it is never made
// again, is looked up, and ends as presumed; a message whose number cannot even be checked ends in time. Later ones leave.
func TestG1GatewayHangs(t *testing.T) {
	t.Parallel()
	var p *proxy
	r := newRigBehind(t, gatewayBehind(t, &p), hasty, func(c *app.Config) { c.NumberLimit = 10 * time.Second })
	r.awaitStatus(r.send("awake"), "READ")
	p.swallow()
	hung := r.send("hung.", within(6*time.Second))
	unchecked := r.send("unchecked.", within(2*time.Second), func(m map[string]any) { m["destinationNumber"] = "+5521977776666" })
	r.accepts("with a gateway that hangs")
	m := r.awaitStatus(unchecked, "FAILED")
	if m["errorCode"] != "MESSAGE_EXPIRED" {
		t.Errorf("message %v", m)
	}
	r.inTime(m)
	m = r.awaitStatus(hung, "FAILED")
	if m["errorCode"] != "DELIVERY_TIMEOUT" {
		t.Errorf("message %v", m)
	}
	p.pass()
	r.awaitStatus(r.send("after the hang."), "READ")
	r.once([]string{"after the hang."})
	if n := r.ledger("hung.") + r.ledger("unchecked."); n != 0 {
		t.Errorf("%d left", n)
	}
	if s := r.stories()[hung]; s.started != 1 {
		t.Errorf("tried %d times without knowing what the first came to", s.started)
	}
}

// The gateway flaps between down, hanging and up. Every message ends; none leaves twice, none is said to be sent that is not.
func TestGatewayFlaps(t *testing.T) {
	t.Parallel()
	var p *proxy
	r := newRigBehind(t, gatewayBehind(t, &p), hasty, func(c *app.Config) { c.NumberLimit = time.Second })
	r.awaitStatus(r.send("steady"), "READ")
	texts := map[string]string{}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	for i := range 14 {
		text := fmt.Sprintf("flap %d.", i)
		texts[r.send(text, category("OTP"), within(6*time.Second))] = text
		if i%2 == 0 {
			[]func(){p.refuse, p.pass, p.swallow, p.pass}[i/2%4]()
		}
		<-time.After(time.Duration(draw.IntN(150)) * time.Millisecond)
	}
	p.pass()
	for id, text := range texts {
		m := r.await(id, "an end or a receipt", func(m map[string]any) bool { return m["status"] == "READ" || m["status"] == "FAILED" })
		n := r.ledger(text)
		if n > 1 || (m["status"] == "READ") != (n == 1) {
			t.Errorf("%q is %v and left %d times\n%v", text, m["status"], n, r.timeline(id))
		}
	}
	r.accepts("after the flapping")
}
