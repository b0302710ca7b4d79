package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/demo"
)

// intended checks that each message with a text left after its intent was in the log (promise P2). A server that has just
// come back may read an older end of the log for a moment.
func (r *rig) intended(text string) {
	r.t.Helper()
	left := r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries
	messages, began := map[string]string{}, map[string]time.Time{}
	eventually(r.t, "the log tells of all that left", func() bool {
		for _, rec := range r.history() {
			if rec.GatewayID != "" {
				messages[rec.GatewayID] = rec.Subject
			}
			if rec.Type == events.TypeDispatchStarted && began[rec.Subject].IsZero() {
				began[rec.Subject] = rec.Stored
			}
		}
		return !slices.ContainsFunc(left, func(e evolutionsim.Entry) bool { return began[messages[e.KeyID]].IsZero() })
	}, nil)
	for _, e := range left {
		if at := began[messages[e.KeyID]]; !at.Before(e.StartedAt) {
			r.t.Errorf("%q left at %s, its intent was in the log at %s", e.Text, e.StartedAt, at)
		}
	}
}

// refusedAt posts a text until it is answered 503. A 202 meanwhile is false.
func (r *rig) refusedAt(api, text string) {
	r.t.Helper()
	eventually(r.t, "answered 503", func() bool {
		status, raw, err := call(r.t.Context(), http.MethodPost, api+"/v1/messages/send", r.keys.Own, map[string]any{"text": text, "destinationNumber": "+5511988887777"})
		if err != nil || status == http.StatusAccepted {
			r.t.Errorf("a false answer: %d %s %v", status, raw, err)
		}
		return status == http.StatusServiceUnavailable
	}, nil)
}

// Fault catalogue N4: two of three servers stop while messages are sent. Without a quorum nothing is acknowledged, so sends are
// answered 503 and nothing leaves; when the two are back all goes on without a restart of Pilot.
func TestN4QuorumLostWhileSending(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	r := newRig(t, onCluster(c.urls(0, 1, 2)), quickRefusal, hasty)
	r.awaitReady("ready", wholly)
	l := r.startLoad("quorum", 2, 100*time.Millisecond)
	l.awaitAccepted(t, 8)
	stays := c.awaitLeader()
	for i := range c.nodes {
		if i != stays {
			c.stop(i)
		}
	}
	lost := time.Now()
	r.awaitReady("not ready", func(got readiness) bool {
		return got.status == http.StatusServiceUnavailable && slices.Contains(got.failing, "log")
	})
	for time.Since(lost) < r.cfg.SendLimit+500*time.Millisecond { // a call that had begun may take its whole limit
		r.ready()
	}
	accepted, _ := l.counts()
	left := r.ledger("quorum ")
	r.refusedAt(r.app.URLs().API, "without a quorum")
	if n := r.ledger("quorum "); n != left {
		t.Errorf("%d left while no intent could be recorded", n-left)
	}
	if n, _ := l.counts(); n != accepted {
		t.Errorf("%d were accepted without a quorum", n-accepted)
	}
	for i := range c.nodes {
		if i != stays {
			c.start(i)
		}
	}
	l.awaitAccepted(t, accepted+10)
	l.check()
	r.awaitReady("ready again", wholly)
	r.intended("quorum ")
	if n := r.ledger("without a quorum"); n > 1 {
		t.Errorf("a message answered 503 left %d times", n)
	}
}

// Fault catalogue N4, O4: the network inside the cluster breaks, and nobody is told. One Pilot reaches only the server that led the log
// and does not know that it is alone, another reaches the other two. What the first appends is acknowledged by nobody: it
// answers 503 and calls nothing, while the second goes on with the same instances. Once healed all is one log, and nothing was
// lost, doubled or sent by both.
func TestN4LeaderCutOffFromTheOthers(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	r := newRig(t, onCluster(c.urls(0)), quickRefusal, hasty)
	other := r.beside(c.urls(1, 2))
	r.awaitReady("ready", wholly)
	// Slower than three copies on one small machine: what is measured is order, not how long a backlog takes.
	here, there := r.startLoad("lonely", 1, 200*time.Millisecond), r.startLoadAt(other, "majority", 1, 200*time.Millisecond)
	here.awaitAccepted(t, 6)
	there.awaitAccepted(t, 6)
	c.lead(0)
	c.isolate(0)
	cut := time.Now()
	eventually(t, "another leader", func() bool { return c.leader(0) > 0 }, nil)
	for time.Since(cut) < r.cfg.AcceptLimit+r.cfg.SendLimit { // an append, and a call, may have been under way
		r.ready()
	}
	r.awaitReady("not ready", func(got readiness) bool {
		return got.status == http.StatusServiceUnavailable && slices.Contains(got.failing, "log")
	})
	accepted, _ := here.counts()
	r.refusedAt(r.app.URLs().API, "cut off")
	before, _ := there.counts()
	there.awaitAccepted(t, before+10)
	left := r.ledger("majority ")
	eventually(t, "the other Pilot sends", func() bool { return r.ledger("majority ") >= left+5 }, nil)
	if n, _ := here.counts(); n != accepted {
		t.Errorf("%d were accepted by a leader without followers", n-accepted)
	}
	there.end()
	c.heal(0)
	here.awaitAccepted(t, accepted+5)
	here.check()
	there.check()
	r.awaitReady("ready again", wholly)
	r.intended("lonely ")
	r.intended("majority ")
	if n := r.ledger("cut off"); n > 1 {
		t.Errorf("a message answered 503 left %d times", n)
	}
}

// beside starts a second Pilot of the same deployment, all but its ingest, and gives the URL of its API.
func (r *rig) beside(urls string) string {
	r.t.Helper()
	cfg := r.cfg
	cfg.NATSURL, cfg.MasterKeyFile, cfg.DataDir = urls, r.cfg.MasterKeyPath(), r.t.TempDir()
	roles := slices.DeleteFunc(app.Roles(), func(role app.Role) bool { return role == app.RoleIngest })
	a, err := app.Start(r.t.Context(), cfg, roles, r.logger())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			r.t.Errorf("stop the second: %v", err)
		}
	})
	return a.URLs().API
}

// Fault catalogue N4, of one partition: no server has it when Pilot starts. The other partitions wait for it no longer than for the parks
// in its log; when it is back all is ready without a restart.
func TestN4OnePartitionIsAwayAtAStart(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	r := newRig(t, onCluster(c.urls(0, 1, 2)), quickRefusal, func(c *app.Config) { c.Partitions = 2 })
	r.awaitReady("ready", wholly)
	r.stop()
	away := c.alone(1 - events.PartitionOf(demo.OwnInstanceID, r.cfg.Partitions))
	if away < 0 {
		t.Fatal("nobody has the partition")
	}
	c.stop(away)
	still := awaittest.Watch(t)
	began := time.Now()
	r.start()
	eventually(t, "a send is accepted", func() bool { // again after a 503, as clients do: the servers that are left choose leaders
		status, _ := r.do(http.MethodPost, "/v1/messages/send", r.keys.Own, map[string]any{"text": "one is away", "destinationNumber": "+5511988887777"})
		return status == http.StatusAccepted
	}, nil)
	eventually(t, "the message left", func() bool { return r.ledger("one is away") == 1 }, nil)
	took, lost := time.Since(began), still.Lost()
	t.Logf("it left %s after the start, of which the machine stood still for %s", took, lost)
	if took-lost > 30*time.Second {
		t.Error("that is too long")
	}
	degraded := func(got readiness) bool {
		return got.status == http.StatusOK && got.word == "degraded" && slices.Contains(got.failing, "partitions") && !slices.Contains(got.failing, "log")
	}
	r.awaitReady("degraded by the partition", degraded)
	// A send to it is refused, and takes no process out of service; a prober has a second.
	for range 2 {
		status, out := r.do(http.MethodPost, "/v1/messages/send", r.keys.Live, map[string]any{
			"templateId": demo.TemplateOTP, "destinationNumber": "+5511988887777", "variables": map[string]string{"code": "482913"},
		})
		if status != http.StatusServiceUnavailable {
			t.Errorf("a send to the partition that is away: %d %v", status, out)
		}
		for refused := time.Now(); time.Since(refused) < 3*time.Second; {
			<-time.After(100 * time.Millisecond)
			asked, before := time.Now(), still.Lost()
			got := r.ready()
			if took := time.Since(asked) - (still.Lost() - before); !degraded(got) || took > time.Second {
				t.Fatalf("%s after a send was refused: %+v, in %s", time.Since(refused), got, took)
			}
		}
	}
	c.start(away)
	r.awaitReady("ready again", wholly)
}
