package keyring_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket is an empty bucket `keys` on a server of the test's own.
func bucket(t testing.TB) (*nats.Conn, jetstream.KeyValue) {
	t.Helper()
	server, err := natsserver.Start(t.Context(), natsserver.Config{
		StoreDir: t.TempDir(), Port: natsserver.RandomPort, Sync: natsserver.SyncDefault,
	})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := server.Connect(natsserver.Client{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(natsserver.Drain(ctx, nc), server.Stop(ctx)); err != nil {
			t.Error(err)
		}
	})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "keys", History: 1, LimitMarkerTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return nc, kv
}

func master(t testing.TB) *keyring.Master {
	t.Helper()
	m, err := keyring.CreateMaster(filepath.Join(t.TempDir(), "master.json"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func seal(t testing.TB, k *keyring.Keyring, tenant, keyID string, aad, text []byte) keyring.Sealed {
	t.Helper()
	s, err := k.Seal(t.Context(), tenant, keyID, aad, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSealedTextOpensOnlyWhereItBelongs(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	m := master(t)
	ring, reader := keyring.New(kv, m, keyring.Options{}), keyring.New(kv, m, keyring.Options{CacheSize: 1})
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		message := rapid.StringMatching(`msg_[0-9a-f]{4}`).Draw(t, "message")
		keyID := rapid.SampledFrom([]string{"day-1", "day-2", "msg_1"}).Draw(t, "keyID")
		aad := keyring.AAD("acme", message, "content")
		sealed, err := ring.Seal(ctx, "acme", keyID, aad, text)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(sealed)
		if err != nil {
			t.Fatal(err)
		}
		var stored keyring.Sealed
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		got, err := reader.Open(ctx, "acme", stored, aad)
		if err != nil || !bytes.Equal(got, text) {
			t.Fatalf("Open = %q, %v", got, err)
		}
		for name, elsewhere := range map[string][]byte{
			"other message": keyring.AAD("acme", message+"0", "content"),
			"other field":   keyring.AAD("acme", message, "destination"),
			"other tenant":  keyring.AAD("acm", "e"+message, "content"),
			"none":          nil,
		} {
			if _, err := reader.Open(ctx, "acme", stored, elsewhere); !errors.Is(err, keyring.ErrCorrupt) {
				t.Fatalf("%s: %v, want ErrCorrupt", name, err)
			}
		}
		at := rapid.IntRange(0, len(stored.Blob)-1).Draw(t, "at")
		stored.Blob[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := reader.Open(ctx, "acme", stored, aad); !errors.Is(err, keyring.ErrCorrupt) && !errors.Is(err, keyring.ErrKeyMissing) {
			t.Fatalf("flipped bit at %d: %v", at, err)
		}
	})
}

func TestTextMovedToAnotherKeyDoesNotOpen(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	ring := keyring.New(kv, master(t), keyring.Options{})
	aad := keyring.AAD("acme", "m", "f")
	mine := seal(t, ring, "acme", "a", aad, []byte("text"))
	seal(t, ring, "acme", "b", aad, nil)
	seal(t, ring, "other", "a", aad, nil)
	if _, err := ring.Open(t.Context(), "acme", keyring.Sealed{KeyID: "b", Blob: mine.Blob}, aad); err == nil {
		t.Error("opened under another key id")
	}
	if _, err := ring.Open(t.Context(), "other", mine, aad); err == nil {
		t.Error("opened for another tenant")
	}
	// Not even when somebody copies the wrapped key in the bucket.
	entry, err := kv.Get(t.Context(), "acme.a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Create(t.Context(), "acme.c", entry.Value()); err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Open(t.Context(), "acme", keyring.Sealed{KeyID: "c", Blob: mine.Blob}, aad); !errors.Is(err, keyring.ErrCorrupt) {
		t.Errorf("copied key: %v, want ErrCorrupt", err)
	}
}

func TestErasedKey(t *testing.T) {
	t.Parallel()
	nc, kv := bucket(t)
	m := master(t)
	for name, store := range map[string]keyring.KV{
		"plain":              kv,
		"leader":             keyring.Leader(nc, kv, 0),
		"leader, marker ttl": keyring.Leader(nc, kv, 2*time.Second),
	} {
		ring, stale := keyring.New(store, m, keyring.Options{}), keyring.New(store, m, keyring.Options{})
		old := seal(t, ring, "acme", "k", nil, []byte("old"))
		if _, err := stale.Open(t.Context(), "acme", old, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 { // erasing again is no error
			if err := ring.Erase(t.Context(), "acme", "k"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if _, err := ring.Open(t.Context(), "acme", old, nil); !errors.Is(err, keyring.ErrKeyMissing) || errors.Is(err, keyring.ErrCorrupt) {
			t.Fatalf("%s: erased: %v, want ErrKeyMissing", name, err)
		}
		if _, err := ring.SealBeside(t.Context(), "acme", old, nil, []byte("late")); !errors.Is(err, keyring.ErrKeyMissing) {
			t.Errorf("%s: sealed beside what is erased: %v, want ErrKeyMissing", name, err)
		}
		fresh := seal(t, ring, "acme", "k", nil, []byte("new"))
		if _, err := ring.SealBeside(t.Context(), "acme", old, nil, []byte("late")); !errors.Is(err, keyring.ErrKeyMissing) {
			t.Errorf("%s: sealed beside it under another key: %v, want ErrKeyMissing", name, err)
		}
		beside, err := ring.SealBeside(t.Context(), "acme", fresh, []byte("aad"), []byte("more"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ring.Open(t.Context(), "acme", beside, []byte("aad")); err != nil || string(got) != "more" {
			t.Errorf("%s: beside = %q, %v", name, got, err)
		}
		if _, err := ring.Open(t.Context(), "acme", old, nil); !errors.Is(err, keyring.ErrKeyMissing) {
			t.Errorf("%s: erased and made again: %v, want ErrKeyMissing", name, err)
		}
		// A process that still has the erased key in memory finds the new one.
		if got, err := stale.Open(t.Context(), "acme", fresh, nil); err != nil || string(got) != "new" {
			t.Errorf("%s: Open = %q, %v", name, got, err)
		}
		if err := ring.Erase(t.Context(), "acme", "k"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCachedKeyLivesForItsTTL(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	m := master(t)
	eraser, reader := keyring.New(kv, m, keyring.Options{}), keyring.New(kv, m, keyring.Options{CacheTTL: time.Millisecond})
	s := seal(t, reader, "acme", "k", nil, []byte("x"))
	if err := eraser.Erase(t.Context(), "acme", "k"); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := reader.Open(t.Context(), "acme", s, nil)
		if errors.Is(err, keyring.ErrKeyMissing) {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("Open = %v", err)
		}
	}
}

func TestTransportErrorIsNoAbsence(t *testing.T) {
	t.Parallel()
	nc, kv := bucket(t)
	m := master(t)
	s := seal(t, keyring.New(kv, m, keyring.Options{}), "acme", "k", nil, []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, store := range map[string]keyring.KV{"plain": kv, "leader": keyring.Leader(nc, kv, 0)} {
		_, err := keyring.New(store, m, keyring.Options{}).Open(ctx, "acme", s, nil)
		if !errors.Is(err, context.Canceled) || errors.Is(err, keyring.ErrKeyMissing) || errors.Is(err, keyring.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// laggard is a replica that does not know a key yet, or still knows it.
type laggard struct{ jetstream.KeyValue }

func (laggard) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	return nil, jetstream.ErrKeyNotFound
}

func TestAbsenceIsBelievedOfTheLeaderOnly(t *testing.T) {
	t.Parallel()
	nc, kv := bucket(t)
	m := master(t)
	s := seal(t, keyring.New(kv, m, keyring.Options{}), "acme", "k", nil, []byte("x"))
	ring := keyring.New(keyring.Leader(nc, laggard{kv}, 0), m, keyring.Options{})
	if got, err := ring.Open(t.Context(), "acme", s, nil); err != nil || string(got) != "x" {
		t.Fatalf("Open = %q, %v", got, err)
	}
	entry, err := keyring.Leader(nc, laggard{kv}, 0).Get(t.Context(), "acme.k")
	if err != nil {
		t.Fatal(err)
	}
	direct, err := kv.Get(t.Context(), "acme.k")
	if err != nil {
		t.Fatal(err)
	}
	if entry.Bucket() != direct.Bucket() || entry.Key() != direct.Key() || entry.Revision() != direct.Revision() ||
		!entry.Created().Equal(direct.Created()) || entry.Operation() != direct.Operation() || entry.Delta() != direct.Delta() {
		t.Errorf("entry = %+v, want %+v", entry, direct)
	}
	if err := ring.Erase(t.Context(), "acme", "k"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"k", "never"} {
		if _, err := ring.Open(t.Context(), "acme", keyring.Sealed{KeyID: id, Blob: s.Blob}, nil); !errors.Is(err, keyring.ErrKeyMissing) {
			t.Errorf("%s: %v, want ErrKeyMissing", id, err)
		}
	}
}

// counter counts reads.
type counter struct {
	jetstream.KeyValue
	reads atomic.Int32
}

func (c *counter) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	c.reads.Add(1)
	return c.KeyValue.Get(ctx, key)
}

func TestOneKeyForAllWhoSealAtOnce(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	m := master(t)
	rings := []*keyring.Keyring{keyring.New(kv, m, keyring.Options{}), keyring.New(kv, m, keyring.Options{}), keyring.New(kv, m, keyring.Options{})}
	sealed := make([]keyring.Sealed, 30)
	errs := make([]error, len(sealed))
	var group sync.WaitGroup
	for i := range sealed {
		group.Go(func() {
			sealed[i], errs[i] = rings[i%len(rings)].Seal(t.Context(), "acme", "k", nil, []byte{byte(i)})
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	reader := &counter{KeyValue: kv}
	ring := keyring.New(reader, m, keyring.Options{})
	for i, s := range sealed {
		if got, err := ring.Open(t.Context(), "acme", s, nil); err != nil || !bytes.Equal(got, []byte{byte(i)}) {
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}
	if n := reader.reads.Load(); n != 1 {
		t.Errorf("%d reads, want 1", n)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	store := &counter{KeyValue: kv}
	ring := keyring.New(store, master(t), keyring.Options{CacheSize: 2})
	var all []keyring.Sealed
	for i := range 3 {
		all = append(all, seal(t, ring, "acme", fmt.Sprint("k", i), nil, nil))
	}
	before := store.reads.Load()
	for _, i := range []int{2, 1, 2, 0} { // 0 was pushed out, and now pushes 1 out
		if _, err := ring.Open(t.Context(), "acme", all[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := store.reads.Load() - before; n != 1 {
		t.Errorf("%d reads, want 1", n)
	}
	if _, err := ring.Open(t.Context(), "acme", all[1], nil); err != nil {
		t.Fatal(err)
	}
	if n := store.reads.Load() - before; n != 2 {
		t.Errorf("%d reads, want 2", n)
	}
}

func TestEraseDuringALoadKeepsItsResultOut(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	m := master(t)
	s := seal(t, keyring.New(kv, m, keyring.Options{}), "acme", "k", nil, []byte("x"))
	slow := &late{KeyValue: kv, read: make(chan struct{}), release: make(chan struct{})}
	ring := keyring.New(slow, m, keyring.Options{})
	opened := make(chan error, 1)
	go func() {
		_, err := ring.Open(t.Context(), "acme", s, nil)
		opened <- err
	}()
	<-slow.read
	if err := ring.Erase(t.Context(), "acme", "k"); err != nil {
		t.Fatal(err)
	}
	close(slow.release)
	if err := <-opened; err != nil {
		t.Fatalf("the open that began before: %v", err)
	}
	if _, err := ring.Open(t.Context(), "acme", s, nil); !errors.Is(err, keyring.ErrKeyMissing) {
		t.Errorf("after the erasure: %v, want ErrKeyMissing", err)
	}
}

// late returns its first answer after release, as it was before.
type late struct {
	jetstream.KeyValue
	once          sync.Once
	read, release chan struct{}
}

func (l *late) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	entry, err := l.KeyValue.Get(ctx, key)
	l.once.Do(func() {
		close(l.read)
		<-l.release
	})
	return entry, err
}
