package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
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
	r := newRig(t, onCluster(c.urls(0, 1, 2)), quickRefusal)
	r.awaitReady("ready", wholly)
	l := r.startLoad("quorum", 2, 100*time.Millisecond)
	l.awaitAccepted(t, 8)
	stays := c.leader(-1)
	if stays < 0 {
		t.Fatal("nobody leads EVENTS_0")
	}
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
	r := newRig(t, onCluster(c.urls(0)), quickRefusal)
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
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			r.t.Errorf("stop the second: %v", err)
		}
	})
	return a.URLs().API
}
