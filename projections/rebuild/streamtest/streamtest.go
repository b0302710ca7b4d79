// Package streamtest writes logs into real streams, for tests that read them back: an embedded server of the test's own,
// and messages whose events form whole chains.
package streamtest

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/projections/logtest"
)

const limit = time.Minute

// World is a server with the logs of some partitions.
type World struct {
	Log        *eventlog.Log
	JS         jetstream.JetStream
	Partitions []events.Partition
	Dir        string // store of the server

	server *natsserver.Server
	nc     *nats.Conn
}

// Start runs a server with n partitions; it is stopped when the test ends.
func Start(t testing.TB, n int) *World {
	t.Helper()
	w := &World{Dir: t.TempDir()}
	w.Up(t)
	t.Cleanup(func() { w.Down(t) })
	for _, r := range topology.Table(topology.Deployment{Partitions: n}) {
		for i := range n {
			if r.Name != events.EventsStream(events.Partition(i)) {
				continue
			}
			if _, err := topology.Create(context.Background(), w.JS, r); err != nil {
				t.Fatal(err)
			}
			w.Partitions = append(w.Partitions, events.Partition(i))
		}
	}
	return w
}

// Up starts the server, again after Down with what is then in its store.
func (w *World) Up(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var err error
	w.server, err = natsserver.Start(ctx, natsserver.Config{
		StoreDir: w.Dir, Port: natsserver.RandomPort, Sync: natsserver.SyncDefault, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.nc, err = natsserver.Connect(ctx, w.server.ClientURL(), natsserver.Client{}); err != nil {
		t.Fatal(err)
	}
	if w.JS, err = jetstream.New(w.nc, jetstream.WithPublishAsyncMaxPending(1000)); err != nil {
		t.Fatal(err)
	}
	// A machine that stands still for some seconds is none that gives no answer.
	w.Log = eventlog.New(w.JS, eventlog.Options{Heartbeat: 500 * time.Millisecond, TryTimeout: 10 * time.Second})
}

// Down stops the server; a stopped one is left alone.
func (w *World) Down(t testing.TB) {
	t.Helper()
	if w.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := natsserver.Drain(ctx, w.nc); err != nil {
		t.Error(err)
	}
	if err := w.server.Stop(ctx); err != nil {
		t.Error(err)
	}
	w.server = nil
}

// URL is where the server is.
func (w *World) URL() string { return w.server.ClientURL() }

// Blocks lists the block files of a partition's log.
func (w *World) Blocks(t testing.TB, p events.Partition) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.Dir, "jetstream", "$G", "streams", events.EventsStream(p), "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no block files: %v", err)
	}
	return files
}

// Writer appends the events of one instance, which is the only one of its partition.
type Writer struct {
	w    *World
	part events.Partition
	seq  uint64 // of the newest event
	prev uint64 // of the newest fenced one
	made uint32
}

// Instance is the one that writers write for.
const Instance = "inst-a"

// Writer makes the writer of an empty partition.
func (w *World) Writer(p events.Partition) *Writer { return &Writer{w: w, part: p} }

// ID gives the id of the n-th message of the partition, from 1.
func (wr *Writer) ID(n uint32) string {
	u := uuid.UUID{0: 0x01, 1: 0x9a, 6: 0x70, 8: 0x80}
	binary.BigEndian.PutUint32(u[10:], n)
	return events.MessageID(u, wr.part)
}

// Seq is the sequence of the newest event.
func (wr *Writer) Seq() uint64 { return wr.seq }

// Queued accepts the next message and gives its id.
func (wr *Writer) Queued(t testing.TB) string {
	t.Helper()
	wr.made++
	id := wr.ID(wr.made)
	wr.Append(t, logtest.Queued(wr.part, id, "acme", Instance))
	return id
}

// Append appends an event; what is empty is filled in. It returns before the event is stored: Flush waits for that.
func (wr *Writer) Append(t testing.TB, e events.Event) {
	t.Helper()
	wr.seq++
	e.Time = logtest.Start.Add(time.Duration(wr.seq) * 10 * time.Millisecond)
	e.Source = "pilot/test"
	if e.ID == "" {
		e.ID = uuid.NewSHA1(uuid.Nil, binary.BigEndian.AppendUint64([]byte{byte(wr.part)}, wr.seq)).String()
	}
	spec, _, _ := events.Standard.Lookup(e.Type)
	if e.Address == "" {
		group, name, _ := strings.Cut(spec.Name, ".")
		e.Address = events.EventSubject(wr.part, Instance, group, name)
	}
	if spec.Fenced {
		e.Prev, wr.prev = wr.prev, wr.seq
	}
	wire, err := events.Standard.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	delete(wire.Header, events.HeaderMsgID) // the server would keep a million of them
	if _, err := wr.w.JS.PublishMsgAsync(&nats.Msg{Subject: wire.Subject, Header: wire.Header, Data: wire.Data}, jetstream.WithStallWait(limit)); err != nil {
		t.Fatal(err)
	}
}

// Story appends n messages, accepted to delivered: four events each, a call without effect first for each tenth: two more.
func (wr *Writer) Story(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		id := wr.Queued(t)
		attempt := 1
		if i%10 == 9 {
			wr.started(t, id, 1)
			deferred := logtest.About(events.TypeDispatchDeferred, id, 1, &events.DispatchDeferred{Cause: "not_ready", HTTPStatus: 500, ElapsedMS: 3})
			deferred.Called, deferred.DueAt = true, logtest.Start
			wr.Append(t, deferred)
			attempt = 2
		}
		wr.started(t, id, attempt)
		done := logtest.About(events.TypeDispatchAccepted, id, attempt, &events.DispatchAccepted{HTTPStatus: 201, ElapsedMS: 40})
		done.GatewayID = "3EB0" + id[20:]
		wr.Append(t, done)
		wr.Append(t, logtest.About(events.TypeReceiptDelivered, id, 0, &events.Receipt{GatewayStatus: "DELIVERY_ACK", At: logtest.Start, ReceivedAt: logtest.Start}))
	}
}

func (wr *Writer) started(t testing.TB, id string, attempt int) {
	t.Helper()
	e := logtest.About(events.TypeDispatchStarted, id, attempt, &events.DispatchStarted{Call: "sendText", BudgetMS: 2000, LimitMS: 15000})
	e.Nonce = "n" + id[20:]
	wr.Append(t, e)
}

// Flush waits until everything appended is stored.
func (wr *Writer) Flush(t testing.TB) {
	t.Helper()
	select {
	case <-wr.w.JS.PublishAsyncComplete():
	case <-time.After(limit):
		t.Fatal("the server does not acknowledge")
	}
	last, err := wr.w.Log.LastSequence(context.Background(), events.EventsStream(wr.part))
	if err != nil || last != wr.seq {
		t.Fatalf("the log ends at %d (%v), want %d", last, err, wr.seq)
	}
}
