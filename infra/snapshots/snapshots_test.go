package snapshots

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/topology"
)

func newStore(t *testing.T) (*Store, jetstream.JetStream) {
	t.Helper()
	s, js, _ := newServedStore(t)
	return s, js
}

// newServedStore gives the URL of the server too, for other processes.
func newServedStore(t *testing.T) (*Store, jetstream.JetStream, string) {
	t.Helper()
	srv, err := natsserver.Start(t.Context(), natsserver.Config{StoreDir: t.TempDir(), Port: -1, Sync: natsserver.SyncDefault})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := srv.Connect(natsserver.Client{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := srv.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Ensure(t.Context(), js, topology.Deployment{Partitions: 1, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	return s, js, srv.ClientURL()
}

func TestStoreGivesTheLastWholeOne(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx := t.Context()
	if _, err := s.Get(ctx, "a"); !errors.Is(err, ErrNone) {
		t.Errorf("nothing kept: %v", err)
	}
	if err := s.Delete(ctx, "a"); err != nil {
		t.Errorf("delete nothing: %v", err)
	}
	big := bytes.Repeat([]byte("0123456789"), 50_000)
	for _, data := range [][]byte{[]byte("first"), big} {
		if err := s.Put(ctx, "a", data); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get(ctx, "a"); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes come back as %d: %v", len(data), len(got), err)
		}
	}
	cut, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Put(cut, "a", []byte("never")); err == nil {
		t.Error("a put that was cut succeeds")
	}
	if got, err := s.Get(ctx, "a"); err != nil || !bytes.Equal(got, big) {
		t.Errorf("after a put that was cut: %d bytes, %v", len(got), err)
	}
	if err := s.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "a"); !errors.Is(err, ErrNone) {
		t.Errorf("deleted: %v", err)
	}
}

func TestMissingOrChangedChunkIsDamage(t *testing.T) {
	t.Parallel()
	s, js := newStore(t)
	ctx := t.Context()
	if err := s.Put(ctx, "a", bytes.Repeat([]byte("x"), 300_000)); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, bucketStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "a"); !errors.Is(err, ErrDamaged) {
		t.Errorf("a chunk is gone: %v", err)
	}
	info, err := s.objects.GetInfo(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, chunks+info.NUID, []byte("another")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "a"); !errors.Is(err, ErrDamaged) {
		t.Errorf("another chunk is in its place: %v", err)
	}
}

// Chunks of a put that was cut go with a later put, once nobody can be writing them any more.
func TestSweepLetsGoOfWhatNobodyNames(t *testing.T) {
	t.Parallel()
	s, js := newStore(t)
	ctx := t.Context()
	if _, err := js.Publish(ctx, chunks+"orphan", []byte("x")); err != nil {
		t.Fatal(err)
	}
	orphans := func() uint64 {
		stream, err := js.Stream(ctx, bucketStream)
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(chunks+"orphan"))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Subjects[chunks+"orphan"]
	}
	if err := s.Put(ctx, "a", []byte("one")); err != nil || orphans() != 1 {
		t.Errorf("a young chunk is gone: %v", err)
	}
	s.stale = 0
	if err := s.Put(ctx, "b", []byte("two")); err != nil || orphans() != 0 {
		t.Errorf("an old chunk stays: %v", err)
	}
	for name, want := range map[string]string{"a": "one", "b": "two"} {
		if got, err := s.Get(ctx, name); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v", name, got, err)
		}
	}
}

func TestWitness(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "witness")
	w := NewWitness(dir)
	if _, err := w.Read("0"); !errors.Is(err, ErrNone) {
		t.Errorf("no witness: %v", err)
	}
	want := Mark{Sequence: 7, EventID: "e-7", Chain: "ab", Fold: 1, Restored: 5, RestoredAt: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	for _, m := range []Mark{{Sequence: 6, EventID: "e-6"}, want} {
		if err := w.Write("0", m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := w.Read("0")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files beside the witness: %v, %v", left, err)
	}
	for name, text := range map[string]string{"cut": `{"sequence": 7`, "empty": "", "of nothing": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, "1.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Read("1"); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 {
		if err := w.Remove("0"); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.Read("0"); !errors.Is(err, ErrNone) {
		t.Errorf("removed: %v", err)
	}
	if err := NewWitness(filepath.Join(dir, "1.json", "below")).Write("0", want); err == nil {
		t.Error("a directory that cannot be made is no error")
	}
}

// The library's put lost a goroutine now and then; goleak in TestMain counts them.
func TestPutsLeaveNothingRunning(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 40 {
				if err := s.Put(t.Context(), strconv.Itoa(i), []byte("state")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
