package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/cli"
	"pilotstatus.dev/services/demo"
)

// pulls runs commands of an operator against a rig.
type pulls struct {
	*rig
	key string
}

// newPulls makes the first operator's key.
func newPulls(t *testing.T, options ...func(*app.Config)) pulls {
	t.Helper()
	r := newRig(t, options...)
	var printed bytes.Buffer
	if err := cli.Run(t.Context(), []string{"admin", "bootstrap", "--name", "ana", "--nats-url", r.app.URLs().NATS}, "test", &printed, io.Discard); err != nil {
		t.Fatal(err)
	}
	p := pulls{r, strings.TrimSpace(printed.String())}
	eventually(t, "the operator's key is known", func() bool {
		status, _, err := call(t.Context(), http.MethodGet, r.app.URLs().Admin+"/v1/admin/tenants", p.key, nil)
		return err == nil && status == http.StatusOK
	}, nil)
	return p
}

// run runs a command, and gives what it prints, or says in its error.
func (p pulls) run(args ...string) (string, error) {
	p.t.Helper()
	var out bytes.Buffer
	err := cli.Run(p.t.Context(), append(args, "--admin-url", p.app.URLs().Admin, "--operator-key", p.key), "test", &out, io.Discard)
	return out.String(), err
}

// answered runs a command, as its operator does: again while the answer is that the log cannot say now.
func (p pulls) answered(args ...string) (out string, err error) {
	p.t.Helper()
	eventually(p.t, "an answer", func() bool {
		out, err = p.run(args...)
		return err == nil || !strings.Contains(err.Error(), string(events.CodeUnavailable))
	}, func() string { return err.Error() })
	return out, err
}

// must runs a command that must do, and holds what it prints.
func (p pulls) must(want string, args ...string) string {
	p.t.Helper()
	out, err := p.answered(args...)
	if err != nil || !strings.Contains(out, want) {
		p.t.Fatalf("%v: %q not in %s, %v", args, want, out, err)
	}
	return out
}

// refused runs a command that must be refused with a code.
func (p pulls) refused(code events.Code, args ...string) {
	p.t.Helper()
	if out, err := p.answered(args...); err == nil || !strings.Contains(err.Error(), string(code)) {
		p.t.Fatalf("%v: %s, %v, want %s", args, out, err, code)
	}
}

// C3 case 50: an operator pauses, drains and resumes an instance by commands; who and why are shown, windows end all the same, and the
// order holds.
func TestLeversOfAnInstance(t *testing.T) {
	t.Parallel()
	p := newPulls(t)
	id := demo.OwnInstanceID
	p.must(`"reason": "number under review"`, "instance", "pause", id, "--reason", "number under review")
	p.must(`"by": "operator:ana"`, "instance", "show", id)
	over := p.send("levers: over", within(time.Second))
	first, second := p.send("levers: first"), p.send("levers: second")
	p.awaitStatus(over, "FAILED")
	if p.ledger("levers") != 0 {
		t.Fatal("something left while paused")
	}
	p.refused("INSTANCE_PAUSED", "instance", "drain", id, "--reason", "upgrade")
	p.must(`"paused": false`, "instance", "resume", id, "--reason", "reviewed")
	p.awaitStatus(first, "READ")
	p.awaitStatus(second, "READ")
	p.must(`"draining": true`, "instance", "drain", id, "--reason", "upgrade")
	waits := p.send("levers: after the drain")
	eventually(t, "it is drained", func() bool {
		out, err := p.run("instance", "show", id)
		return err == nil && strings.Contains(out, `"drained": true`) && strings.Contains(out, `"left": 0`)
	}, nil)
	if got := p.timeline(waits); len(got) != 1 {
		t.Fatalf("what came after a drain: %v", got)
	}
	p.must(`"draining": false`, "instance", "resume", id, "--reason", "upgraded")
	p.awaitStatus(waits, "READ")
	if _, err := p.answered("instance", "pause", "none", "--reason", "x"); err == nil || !strings.Contains(err.Error(), "NOT_FOUND") {
		t.Errorf("an instance that is not: %v", err)
	}
}

// An operator cancels and retries messages by commands: the next attempt of one that waits, a new message for one that ended, refused
// for one that left, and forced, on record, for one that may have.
func TestLeversOfAMessage(t *testing.T) {
	t.Parallel()
	p := newPulls(t, hasty)
	id := demo.OwnInstanceID
	p.must("", "instance", "pause", id, "--reason", "hold")
	first := p.send("levers: canceled, then sent")
	p.must(`"status": "CANCELED"`, "message", "cancel", first, "--reason", "wrong price")
	p.awaitStatus(first, "CANCELED")
	p.must("", "instance", "resume", id, "--reason", "go on")
	out := p.must(`"outcome": "new_message"`, "message", "retry", first, "--reason", "the price was right", "--idempotency-key", "once")
	var made struct {
		MessageID string `json:"messageId"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	p.awaitStatus(made.MessageID, "READ")
	if again := p.must("", "message", "retry", first, "--reason", "the price was right", "--idempotency-key", "once"); again != out {
		t.Errorf("a repeat: %s, first %s", again, out)
	}
	if p.ledger("levers: canceled") != 1 {
		t.Errorf("left %d times", p.ledger("levers: canceled"))
	}
	p.must(`"retryOf": "`+first, "message", "show", made.MessageID)
	shown := p.must(`"retriedAs": "`+made.MessageID, "message", "show", first)
	for _, want := range []string{"wrong price", "the price was right", "operator:ana"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not shown: %s", want, shown)
		}
	}
	p.refused("RETRY_ALREADY_SENT", "message", "retry", made.MessageID, "--reason", "again", "--force")
	p.refused("CANCEL_REFUSED", "message", "cancel", made.MessageID, "--reason", "late")

	p.fault(evolutionsim.Fault{Kind: "hang", When: "before", TextContains: "levers: lost", Times: 1})
	lost := p.send("levers: lost")
	p.await(lost, "UNCONFIRMED", func(m map[string]any) bool { return m["stage"] == "UNCONFIRMED" })
	p.refused("RETRY_UNCONFIRMED", "message", "retry", lost, "--reason", "the customer waits")
	p.must(`"mayArriveTwice": true`, "message", "retry", lost, "--reason", "not on the phone", "--force")
	p.awaitStatus(lost, "READ")
	story := p.must("not on the phone", "message", "show", lost)
	if p.ledger("levers: lost") != 1 || !strings.Contains(story, `"forced": true`) {
		t.Errorf("left %d times: %s", p.ledger("levers: lost"), story)
	}
}
