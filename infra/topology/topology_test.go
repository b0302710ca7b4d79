package topology_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newJetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	opts := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	go srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("server does not start")
	}
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		done := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-done
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestEnsureCreatesWhatIsMissingOnce(t *testing.T) {
	t.Parallel()
	js := newJetStream(t)
	d := topology.Deployment{Partitions: 2}
	if changes, err := topology.EnsureControl(within(t), js, d); err != nil || !cmp.Equal(changes, []topology.Change{{Kind: topology.KindStream, Name: events.StreamControl}}) {
		t.Fatalf("control: %v, %v", changes, err)
	}
	changes, err := topology.Ensure(within(t), js, d)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(topology.Table(d)) - 1; len(changes) != want {
		t.Errorf("%d changes, want %d: %v", len(changes), want, changes)
	}
	changes, err = topology.Ensure(within(t), js, d)
	if err != nil || len(changes) != 0 {
		t.Errorf("second run: %v, %v", changes, err)
	}
	if err := js.DeleteStream(within(t), "KV_leases"); err != nil {
		t.Fatal(err)
	}
	changes, err = topology.Ensure(within(t), js, d)
	if err != nil || !cmp.Equal(changes, []topology.Change{{Kind: topology.KindKeyValue, Name: topology.BucketLeases}}) {
		t.Errorf("after a loss: %v, %v", changes, err)
	}
}

func TestEnsureReportsDriftAndChangesNothing(t *testing.T) {
	t.Parallel()
	js := newJetStream(t)
	d := topology.Deployment{Partitions: 1}
	if _, err := js.CreateStream(within(t), jetstream.StreamConfig{
		Name: events.EventsStream(0), Subjects: []string{events.EventsFilter(0)}, MaxAge: time.Hour, AllowDirect: true,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(within(t), jetstream.KeyValueConfig{Bucket: topology.BucketKeys, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	_, err := topology.Ensure(within(t), js, d)
	drift, ok := errors.AsType[*topology.DriftError](err)
	if !ok {
		t.Fatalf("error = %v, want a drift", err)
	}
	want := []topology.Drift{
		{Stream: "EVENTS_0", Field: "compression", Want: "S2", Have: "None"},
		{Stream: "EVENTS_0", Field: "max age", Want: "0s", Have: "1h0m0s"},
		{Stream: "EVENTS_0", Field: "max message size", Want: "262144", Have: "0"},
		{Stream: "EVENTS_0", Field: "max consumers", Want: "450", Have: "0"},
		{Stream: "EVENTS_0", Field: "deny delete", Want: "true", Have: "false"},
		{Stream: "EVENTS_0", Field: "deny purge", Want: "true", Have: "false"},
		{Stream: "EVENTS_0", Field: "duplicate window", Want: "10m0s", Have: "2m0s"},
		{Stream: "KV_keys", Field: "max age", Want: "0s", Have: "1h0m0s"},
	}
	if diff := cmp.Diff(want, drift.Drifts); diff != "" {
		t.Errorf("drift (-want +have):\n%s", diff)
	}
	if !strings.Contains(err.Error(), "\n  EVENTS_0: max age: want 0s, have 1h0m0s") {
		t.Errorf("text = %s", err)
	}
	s, err := js.Stream(within(t), events.EventsStream(0))
	if err != nil || s.CachedInfo().Config.MaxAge != time.Hour {
		t.Errorf("config = %+v, %v: it was changed", s.CachedInfo().Config, err)
	}
	if _, err := js.Stream(within(t), "KV_idem"); err != nil {
		t.Errorf("what was missing was not created: %v", err)
	}
	if _, err := topology.Ensure(within(t), js, topology.Deployment{Partitions: 300}); err == nil {
		t.Error("300 partitions were taken")
	}
}

func TestTheTableStatesWhatTheDesignPromises(t *testing.T) {
	t.Parallel()
	js := newJetStream(t)
	if _, err := topology.Ensure(within(t), js, topology.Deployment{Partitions: 1, LaneCap: 7}); err != nil {
		t.Fatal(err)
	}
	config := func(name string) jetstream.StreamConfig {
		s, err := js.Stream(within(t), name)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config
	}
	log := config("EVENTS_0")
	if log.MaxConsumers != 207 || log.AllowMsgTTL || log.AllowRollup || log.AllowMsgSchedules || log.MaxAge != 0 || log.Discard != jetstream.DiscardOld {
		t.Errorf("EVENTS = %+v", log)
	}
	if s, err := js.Stream(within(t), "EVENTS_0"); err != nil || s.Purge(within(t)) == nil {
		t.Error("the log can be purged")
	}
	hooks := config("HOOKS_7")
	if hooks.Retention != jetstream.WorkQueuePolicy || !hooks.AllowMsgSchedules || hooks.MaxAge != 0 || hooks.MaxBytes > 0 || hooks.Discard != jetstream.DiscardOld {
		t.Errorf("HOOKS = %+v", hooks)
	}
	if quota := config("QUOTA"); !quota.AllowMsgCounter || quota.MaxMsgsPerSubject > 0 || quota.MaxAge != 100*24*time.Hour {
		t.Errorf("QUOTA = %+v", quota)
	}
	if keys := config("KV_keys"); keys.MaxAge != 0 || keys.AllowMsgTTL || keys.MaxMsgsPerSubject != 1 || keys.Storage != jetstream.FileStorage {
		t.Errorf("keys = %+v", keys)
	}
	for _, name := range []string{"KV_idem", "KV_leases"} {
		if c := config(name); !c.AllowMsgTTL || c.MaxMsgsPerSubject != 1 {
			t.Errorf("%s = %+v", name, c)
		}
	}
	if config("KV_leases").Storage != jetstream.MemoryStorage {
		t.Error("leases are not in memory")
	}
}

func TestDeploymentIsRecordedOnce(t *testing.T) {
	t.Parallel()
	js := newJetStream(t)
	if _, err := topology.EnsureControl(within(t), js, topology.Deployment{}); err != nil {
		t.Fatal(err)
	}
	log := eventlog.New(js, eventlog.Options{})
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var boots sync.WaitGroup
	for range 5 {
		boots.Go(func() {
			dep, err := topology.EnsureDeployment(within(t), log, 3, now)
			if err != nil || dep.Partitions != 3 || !dep.CreatedAt.Equal(now) {
				t.Errorf("deployment = %+v, %v", dep, err)
			}
		})
	}
	boots.Wait()
	if last, err := log.LastSequence(within(t), events.StreamControl); err != nil || last != 1 {
		t.Errorf("recorded %d times, %v", last, err)
	}
	_, err := topology.EnsureDeployment(within(t), log, 4, now)
	if wrong, ok := errors.AsType[*topology.PartitionsError](err); !ok || wrong.Recorded != 3 || wrong.Want != 4 {
		t.Errorf("error = %v, want the other number", err)
	}
	if dep, err := topology.EnsureDeployment(within(t), log, 0, now); err != nil || dep.Partitions != 3 {
		t.Errorf("deployment = %+v, %v", dep, err)
	}
	if _, err := topology.EnsureDeployment(within(t), log, 257, now); err == nil {
		t.Error("257 partitions were taken")
	}
}

// silent is a log that gives no answer so many times: of an append nobody knows whether it is stored then.
type silent struct {
	*eventlog.Log
	reads, appends atomic.Int64
}

func (s *silent) AppendExpecting(ctx context.Context, ev events.Event, expected uint64) (uint64, error) {
	seq, err := s.Log.AppendExpecting(ctx, ev, expected)
	if s.appends.Add(-1) >= 0 {
		return 0, events.Errorf(events.CodeUnavailable, "the log did not answer in time")
	}
	return seq, err
}

func (s *silent) LastBySubject(ctx context.Context, stream, filter string) (events.Recorded, error) {
	if s.reads.Add(-1) >= 0 {
		return events.Recorded{}, events.Errorf(events.CodeUnavailable, "the log did not answer")
	}
	return s.Log.LastBySubject(ctx, stream, filter)
}

func TestDeploymentIsRecordedOnceInALogThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	js := newJetStream(t)
	if _, err := topology.EnsureControl(within(t), js, topology.Deployment{}); err != nil {
		t.Fatal(err)
	}
	log := &silent{Log: eventlog.New(js, eventlog.Options{})}
	log.reads.Store(2)
	log.appends.Store(1)
	dep, err := topology.EnsureDeployment(within(t), log, 3, time.Now())
	if err != nil || dep.Partitions != 3 {
		t.Errorf("deployment = %+v, %v", dep, err)
	}
	if last, err := log.LastSequence(within(t), events.StreamControl); err != nil || last != 1 {
		t.Errorf("recorded %d times, %v", last, err)
	}
}

func TestDeploymentDefaults(t *testing.T) {
	t.Parallel()
	js := newJetStream(t)
	if _, err := topology.EnsureControl(within(t), js, topology.Deployment{}); err != nil {
		t.Fatal(err)
	}
	dep, err := topology.EnsureDeployment(within(t), eventlog.New(js, eventlog.Options{}), 0, time.Now())
	if err != nil || dep.Partitions != topology.DefaultPartitions {
		t.Errorf("deployment = %+v, %v", dep, err)
	}
}

// TestReferencePage: a reader of docs/reference/streams.md sees every stream and bucket with its subjects.
func TestReferencePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/streams.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\|")
	have := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		have[m[1]] = m[2]
	}
	number := regexp.MustCompile(`_[0-9]+$`)
	want := map[string]string{}
	for _, r := range topology.Table(topology.Deployment{Partitions: 2}) {
		name, subjects := r.Name, r.Stream.Subjects
		if m := number.FindString(name); m != "" {
			mark := map[bool]string{true: "<h>", false: "<p>"}[strings.HasPrefix(name, "HOOKS")]
			name = strings.TrimSuffix(name, m) + "_" + mark
			for i := range subjects {
				subjects[i] = strings.Replace(subjects[i], "."+m[1:]+".", "."+mark+".", 1)
			}
		}
		want[name] = "`" + strings.Join(subjects, "`, `") + "`"
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("docs/reference/streams.md and the table (-table +page):\n%s", diff)
	}
}
