package e2e

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/cli"
)

// Fault catalogue K1: the master key is replaced, with a restart of the processes after each change of its file, while messages wait and are
// sent. Each leaves once, also those that were sealed under the key that is gone by then, and so does what the gateway's key opens.
func TestK1MasterKeyIsReplacedWithTraffic(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *app.Config) { c.IngestAddr = fixedAddr(t) }) // the gateway goes on posting there
	masterKey := func(args ...string) (string, error) {
		args = append([]string{"admin", "master-key"}, args...)
		args = append(args, "--master-key-file", r.cfg.MasterKeyPath())
		switch args[2] {
		case "show", "rewrap", "remove":
			args = append(args, "--nats-url", r.app.URLs().NATS, "--data-dir", r.cfg.DataDir)
		}
		var out bytes.Buffer
		err := cli.Run(t.Context(), args, "test", &out, io.Discard)
		return strings.TrimSpace(out.String()), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := masterKey(args...)
		if err != nil {
			t.Fatalf("master-key %v: %v", args, err)
		}
		return out
	}
	restart := func() { r.stop(); r.start() }
	var ids, texts []string
	send := func(name string) {
		more, said := r.backlog(name, 10)
		ids, texts = append(ids, more...), append(texts, said...)
		r.awaitLedger(name, 1)
	}

	_, old, _ := strings.Cut(must("show"), `"id":"`)
	old, _, _ = strings.Cut(old, `"`)
	send("under the old one")
	added := must("add")
	if out, err := masterKey("remove", old); err == nil || !strings.Contains(err.Error(), "is the active one") {
		t.Errorf("remove the active one: %q, %v", out, err)
	}
	restart()
	must("use", added)
	send("added")
	restart()
	send("used")
	if out, err := masterKey("remove", old); err == nil || !strings.Contains(err.Error(), "data keys") {
		t.Errorf("remove one that wraps: %q, %v", out, err)
	}
	if out := must("rewrap"); out == `{"rewrapped":0}` {
		t.Errorf("rewrap: %s", out)
	}
	send("rewrapped")
	must("remove", old)
	restart()
	send("removed")
	if shown := must("show"); !strings.HasPrefix(shown, `{"id":"`+added+`","active":true,"dataKeys":`) || strings.Contains(shown, "\n") {
		t.Errorf("at the end: %s", shown)
	}
	for _, id := range ids {
		r.awaitStatus(id, "READ")
	}
	r.told(ids)
	r.once(texts)
	r.oneAttempt(ids)
}
