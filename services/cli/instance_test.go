package cli

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/services/app"
)

// An operator skips what somebody has published by hand, beside a running dispatcher, and nothing else.
func TestInstanceSkip(t *testing.T) {
	dir, err := scratch("pilot-skip-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg, err := app.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(dir)
	a, err := app.Start(t.Context(), cfg, []app.Role{app.RoleDispatcher}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	nc, err := nats.Connect(a.URLs().NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	p := events.PartitionOf("inst-1", cfg.Partitions)
	ack, err := js.Publish(t.Context(), events.EventSubject(p, "inst-1", events.GroupDispatch, "accepted"), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(a.URLs().NATS)
	if err != nil {
		t.Fatal(err)
	}
	skip := func(seq uint64, more ...string) (string, error) {
		return run(t, append([]string{"instance", "skip", "inst-1", fmt.Sprint(seq), "--data-dir", dir, "--nats-port", server.Port()}, more...)...)
	}
	if _, err := skip(ack.Sequence); err == nil || !strings.Contains(err.Error(), "--reason") {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := skip(ack.Sequence+1, "--reason", "test"); events.CodeOf(err) != events.CodeNotPermitted || !strings.Contains(err.Error(), fmt.Sprintf("those are [%d]", ack.Sequence)) {
		t.Errorf("another: %v", err)
	}
	out, err := skip(ack.Sequence, "--reason", "published by hand", "--by", "operator:test")
	if err != nil || out != fmt.Sprintf("skipped %s:%d of inst-1, on record at %s:%d\n", p, ack.Sequence, p, ack.Sequence+1) {
		t.Errorf("skip: %v\n%s", err, out)
	}
	rec, err := a.Events().Get(t.Context(), events.EventsStream(p), ack.Sequence+1)
	if b, ok := rec.Body.(*events.DispatchSkipped); err != nil || !ok || *b != (events.DispatchSkipped{Sequence: ack.Sequence, By: "operator:test", Reason: "published by hand"}) {
		t.Errorf("on record: %+v, %v", rec, err)
	}
	if _, err := skip(ack.Sequence, "--reason", "again"); events.CodeOf(err) != events.CodeNotPermitted {
		t.Errorf("again: %v", err)
	}
}
