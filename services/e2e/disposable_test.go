package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
)

// operator is a connection like that of the nats CLI.
func (r *rig) operator() (*nats.Conn, jetstream.JetStream) {
	r.t.Helper()
	nc, err := natsserver.Connect(r.t.Context(), r.app.URLs().NATS, natsserver.Client{Name: "operator"})
	if err != nil {
		r.t.Fatal(err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience)) // the server is busy with all other tests, too
	if err != nil {
		r.t.Fatal(err)
	}
	return nc, js
}

func (r *rig) hangUp(nc *nats.Conn) {
	r.t.Helper()
	if err := natsserver.Drain(context.Background(), nc); err != nil {
		r.t.Error(err)
	}
}

// consumers lists every consumer of every stream.
func consumers(t *testing.T, js jetstream.JetStream) []*jetstream.ConsumerInfo {
	t.Helper()
	var all []*jetstream.ConsumerInfo
	names := js.StreamNames(t.Context())
	var streams []string // first all, since the listing has a deadline of its own
	for name := range names.Name() {
		streams = append(streams, name)
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range streams {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		list := s.ListConsumers(t.Context())
		for c := range list.Info() {
			all = append(all, c)
		}
		if err := list.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// backlog sends n messages of which each takes a while at the gateway, and gives ids and texts.
func (r *rig) backlog(name string, n int) (ids, texts []string) {
	r.t.Helper()
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 120, TextContains: name})
	for i := range n {
		texts = append(texts, fmt.Sprintf("%s %d.", name, i))
		ids = append(ids, r.send(texts[i]))
	}
	return ids, texts
}

func (r *rig) awaitLedger(text string, n int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d left", n), func() bool { return r.ledger(text) >= n }, func() string { return fmt.Sprint(r.ledger(text)) })
}

// oneAttempt checks in the log that each message was tried once and gets each receipt once.
func (r *rig) oneAttempt(ids []string) {
	r.t.Helper()
	var all map[string]*story
	eventually(r.t, "every receipt", func() bool {
		all = r.stories()
		for _, id := range ids {
			if all[id] != nil && len(all[id].receipts) < len(states) {
				return false
			}
		}
		return true
	}, nil)
	for _, id := range ids {
		if s := all[id]; s == nil || s.started != 1 || s.ends != 0 || len(s.receipts) != len(states) {
			r.t.Errorf("in the log of %s: %+v", id, s)
		}
	}
}

// Queues are disposable: every consumer of every stream is deleted while messages are on their way, the lanes several times.
// Nothing is sent twice, everything pending is sent, customers hear of each state once.
func TestDeletedConsumersLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nc, js := r.operator()
	defer r.hangUp(nc)
	ids, texts := r.backlog("deleted", 20)
	lanes, others := 0, 0
	for round := range 3 {
		r.awaitLedger("deleted ", 3+4*round)
		for _, c := range consumers(t, js) {
			lane := strings.HasPrefix(c.Name, "lane_")
			if !lane && round > 0 {
				continue
			}
			if err := js.DeleteConsumer(t.Context(), c.Stream, c.Name); err != nil {
				continue // it went by itself
			}
			if lane {
				lanes++
			} else {
				others++
			}
		}
	}
	for n := range 5 { // where the backlog was gone before its lane was found
		if lanes > 0 {
			break
		}
		more, said := r.backlog(fmt.Sprintf("deleted again %d", n), 10)
		ids, texts = append(ids, more...), append(texts, said...)
		for _, c := range consumers(t, js) {
			if strings.HasPrefix(c.Name, "lane_") && js.DeleteConsumer(t.Context(), c.Stream, c.Name) == nil {
				lanes++
			}
		}
	}
	if lanes == 0 || others < 6 {
		t.Fatalf("%d lanes and %d other consumers were deleted", lanes, others)
	}
	for _, id := range ids {
		r.awaitStatus(id, "READ")
	}
	r.once(texts)
	r.oneAttempt(ids)
	r.told(ids)
}

// Fault catalogue O2: `nats consumer reset` brings everything from the beginning again, to every consumer there is, in the
// middle of a backlog and after it. What was done is skipped.
func TestO2ResetConsumersSendNothingTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nc, js := r.operator()
	defer r.hangUp(nc)
	ids, texts := r.backlog("reset", 16)
	reset := func() (lanes, durables int) {
		for _, c := range consumers(t, js) {
			// The server goes back no further than the configured start.
			from, _ := json.Marshal(map[string]uint64{"seq": max(1, c.Config.OptStartSeq)})
			res, err := nc.RequestWithContext(t.Context(), "$JS.API.CONSUMER.RESET."+c.Stream+"."+c.Name, from)
			if err != nil {
				t.Fatal(err)
			}
			var answer struct {
				Error *jetstream.APIError `json:"error"`
			}
			if err := json.Unmarshal(res.Data, &answer); err != nil {
				t.Fatal(err)
			}
			switch {
			case answer.Error != nil: // gone meanwhile, or of a kind that cannot go back
			case strings.HasPrefix(c.Name, "lane_"):
				lanes++
			case c.Config.Durable != "":
				durables++
			}
		}
		return lanes, durables
	}
	r.awaitLedger("reset ", 5)
	lanes, durables := reset()
	for n := range 5 { // where the backlog was gone before its lane was found
		if lanes > 0 {
			break
		}
		more, said := r.backlog(fmt.Sprintf("reset again %d", n), 10)
		ids, texts = append(ids, more...), append(texts, said...)
		lanes, _ = reset()
	}
	if lanes == 0 || durables < 4 {
		t.Fatalf("%d lanes and %d durables were reset", lanes, durables)
	}
	for _, id := range ids {
		r.awaitStatus(id, "READ")
	}
	reset()
	after := r.send("reset after all.")
	r.awaitStatus(after, "READ")
	r.once(append(texts, "reset after all."))
	r.oneAttempt(append(ids, after))
	r.told(append(ids, after))
}

// All consumer state of JetStream is gone from the disk, and Postgres is down as well: Pilot starts, sends what was pending,
// repeats nothing, tells customers; with Postgres back the view is complete.
func TestConsumerStateGoneAndPostgresDown(t *testing.T) {
	t.Parallel()
	var pg *postgres.Managed
	r := newRig(t, func(c *app.Config) {
		pg = pgtest.Server(t, nil)
		c.PostgresURL = pg.URL()
		c.IngestAddr = fixedAddr(t) // the gateway goes on posting there
	})
	ids, texts := r.backlog("stateless", 16)
	r.awaitLedger("stateless ", 4)
	r.stop()
	if err := pg.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.ledger("stateless "); n >= len(ids) {
		t.Fatalf("nothing was pending: %d left", n)
	}
	if n := removeConsumers(t, filepath.Join(r.cfg.DataDir, "nats")); n < 4 {
		t.Fatalf("state of %d consumers was removed", n)
	}
	r.start()
	r.awaitLedger("stateless ", len(ids))
	eventually(t, "all told that they were read", func() bool {
		for _, id := range ids {
			if count(r.hooks(id), "message.read") == 0 {
				return false
			}
		}
		return true
	}, nil)
	if got := r.ready(); got.status != 200 || got.word != "degraded" {
		t.Errorf("ready without Postgres: %+v", got)
	}
	if err := pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		r.awaitStatus(id, "READ")
	}
	r.once(texts)
	r.oneAttempt(ids)
	r.told(ids)
	r.awaitReady("ready with Postgres", wholly)
}

// removeConsumers deletes what the server keeps of consumers below a store, and counts them.
func removeConsumers(t *testing.T, store string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != "obs" {
			return err
		}
		list, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		n += len(list)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return fs.SkipDir
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
