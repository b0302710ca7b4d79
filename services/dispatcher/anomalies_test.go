package dispatcher

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/evolutionsim"
)

// anomalies gives what the log has of them about a message.
func (r *rig) anomalies(id, kind string) (out []events.Recorded) {
	for _, rec := range r.history() {
		if b, ok := rec.Body.(*events.EvidenceAnomaly); ok && rec.Subject == id && b.Kind == kind {
			out = append(out, rec)
		}
	}
	return out
}

// C1 3: an abandoned request leaves when its message has ended as one that may not have left. It stays FAILED, since that was told, and
// a person is told once that the gateway shows it.
func TestC1WhatLeavesAfterItsEndIsAnAnomaly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.run(doubting())
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 6000, TextContains: "after all", Times: 1})
	id := r.accept(order{text: "after all", window: 2 * time.Second})
	if v := r.awaitStage(id, events.StageFailed); !v.Presumed || r.ledger("after all") != 0 {
		t.Fatalf("view %+v, left %d times", v, r.ledger("after all"))
	}
	eventually(t, "anomaly", func() bool { return len(r.anomalies(id, events.AnomalyProvedAfterEnd)) > 0 }, func() string { return r.story(id) })
	if a := r.anomalies(id, events.AnomalyProvedAfterEnd)[0]; a.GatewayID != r.keyOf("after all") || a.Attempt != 1 || a.QueuedSeq == 0 {
		t.Errorf("%+v", a)
	}
	// Another one that ends so is looked up beside it, and nothing is said again.
	r.fault(evolutionsim.Fault{Kind: "hang", When: "before", TextContains: "never", Times: 1})
	gone := r.accept(order{text: "never", window: 2 * time.Second})
	r.awaitStage(gone, events.StageFailed)
	if v := r.awaitStage(id, events.StageFailed); !v.Presumed || r.called(id) != 1 || r.count(id, events.TypeDispatchProved) != 0 {
		t.Errorf("view %+v\n%s", v, r.story(id))
	}
	if n, m := len(r.anomalies(id, events.AnomalyProvedAfterEnd)), len(r.anomalies(gone, events.AnomalyProvedAfterEnd)); n != 1 || m != 0 {
		t.Errorf("told %d and %d times", n, m)
	}
	if n := testutil.ToFloat64(d.metrics.anomalies.WithLabelValues(events.AnomalyProvedAfterEnd)); n != 1 {
		t.Errorf("counted %v times", n)
	}
}

// stallingConn stands still between the last check and the system call when it is to write what is marked.
type stallingConn struct {
	net.Conn
	mark  string
	stall time.Duration
}

func (c *stallingConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.mark)) {
		await.Elapsed(context.Background(), c.stall)
	}
	return c.Conn.Write(p)
}

// R4 ends at the last check: what is written later, since the process stood still behind it, is told.
func TestR4AWriteBehindItsCheckIsAnAnomaly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &stallingConn{conn, "stood still", 1600 * time.Millisecond}, err
	}
	set := quick()
	set.Budget = 1500 * time.Millisecond
	d, _ := r.run(set)
	for _, text := range []string{"it goes on", "it stood still"} {
		id := r.accept(order{text: text})
		r.awaitStage(id, events.StageDispatched)
		want := 0
		if strings.Contains(text, "still") {
			want = 1
			eventually(t, "anomaly", func() bool { return len(r.anomalies(id, events.AnomalyLateWrite)) > 0 }, func() string { return r.story(id) })
		}
		if got := r.anomalies(id, events.AnomalyLateWrite); len(got) != want || r.ledger(text) != 1 {
			t.Errorf("%s: %d anomalies, left %d times\n%s", text, len(got), r.ledger(text), r.story(id))
		}
	}
	if n := testutil.ToFloat64(d.metrics.anomalies.WithLabelValues(events.AnomalyLateWrite)); n != 1 {
		t.Errorf("counted %v times", n)
	}
}

func TestLateWrite(t *testing.T) {
	t.Parallel()
	const budget = 2 * time.Second
	for name, c := range map[string]struct {
		age, left, pause time.Duration
		late             bool
	}{
		"at once":                       {time.Millisecond, time.Hour, 50 * time.Microsecond, false},
		"a pause inside the budget":     {100 * time.Millisecond, time.Hour, 1800 * time.Millisecond, false},
		"over the budget":               {100 * time.Millisecond, time.Hour, 1900 * time.Millisecond, true},
		"over the window":               {100 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond, true},
		"the last moment, without one":  {1999 * time.Millisecond, time.Hour, 2 * time.Millisecond, false},
		"the window ends at that point": {time.Millisecond, time.Millisecond, 2 * time.Millisecond, false},
	} {
		if got := lateWrite(c.age, c.left, c.pause, budget); (got != "") != c.late {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := lateWrite(100*time.Millisecond, time.Hour, 5*time.Second, budget); got != "written up to 5000 ms after its last check, 5100 ms after its intent" {
		t.Error(got)
	}
}
