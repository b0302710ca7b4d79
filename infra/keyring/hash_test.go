package keyring_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"pilotstatus.dev/infra/keyring"
)

func TestHashIsStableAndApart(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	m := master(t)
	ring := keyring.New(kv, m, keyring.Options{})
	hash := func(k *keyring.Keyring, tenant, purpose, data string) string {
		t.Helper()
		h, err := k.Hash(t.Context(), tenant, purpose, []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hash(ring, "acme", "recipient", "5511999990000")
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(first) {
		t.Errorf("hash = %q", first)
	}
	if again := hash(keyring.New(kv, m, keyring.Options{}), "acme", "recipient", "5511999990000"); again != first {
		t.Error("another process hashes differently")
	}
	sum, err := ring.HMAC(t.Context(), "acme", "recipient", []byte("5511999990000"))
	if err != nil || hex.EncodeToString(sum[:]) != first {
		t.Errorf("HMAC = %x, %v", sum, err)
	}
	for name, other := range map[string]string{
		"tenant":  hash(ring, "other", "recipient", "5511999990000"),
		"purpose": hash(ring, "acme", "jid", "5511999990000"),
		"data":    hash(ring, "acme", "recipient", "5511999990001"),
		"border":  hash(ring, "acme", "recipient5", "511999990000"),
	} {
		if other == first {
			t.Errorf("another %s hashes alike", name)
		}
	}
	if _, err := kv.Get(t.Context(), "acme.hash"); err != nil {
		t.Errorf("hash key: %v", err)
	}
	if err := ring.Erase(t.Context(), "acme", keyring.HashKeyID); err != nil {
		t.Fatal(err)
	}
	if hash(ring, "acme", "recipient", "5511999990000") == first {
		t.Error("the hash survived its key")
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	ring := keyring.New(kv, master(t), keyring.Options{})
	for _, id := range [][2]string{
		{"", "k"},
		{"Acme", "k"},
		{"a.b", "k"},
		{"acme", ""},
		{"acme", "a.b"},
		{"acme", "a b"},
		{"acme", ">"},
		{"acme", "hash"},
		{"acme", strings.Repeat("k", 101)},
	} {
		_, sealErr := ring.Seal(t.Context(), id[0], id[1], nil, nil)
		_, openErr := ring.Open(t.Context(), id[0], keyring.Sealed{KeyID: id[1], Blob: make([]byte, 50)}, nil)
		if !errors.Is(sealErr, keyring.ErrInvalidID) || !errors.Is(openErr, keyring.ErrInvalidID) {
			t.Errorf("%v: %v, %v", id, sealErr, openErr)
		}
	}
	if err := ring.Erase(t.Context(), "acme", "*"); !errors.Is(err, keyring.ErrInvalidID) {
		t.Errorf("erase: %v", err)
	}
	if _, err := ring.Hash(t.Context(), "*", "p", nil); !errors.Is(err, keyring.ErrInvalidID) {
		t.Errorf("hash: %v", err)
	}
	seal(t, ring, "platform", "msg_0199_A-z", nil, nil)
}

func TestAADIsUnambiguous(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) [3]string {
			part := rapid.StringMatching(`[ab\x01\x02]{0,3}`)
			return [3]string{part.Draw(t, name+"0"), part.Draw(t, name+"1"), part.Draw(t, name+"2")}
		}
		a, b := draw("a"), draw("b")
		same := bytes.Equal(keyring.AAD(a[0], a[1], a[2]), keyring.AAD(b[0], b[1], b[2]))
		if same != (a == b) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func TestForeignRecordIsCorruptNotMissing(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	ring := keyring.New(kv, master(t), keyring.Options{})
	for _, value := range []string{"", "{}", `{"v":2}`, "garbage"} {
		if _, err := kv.Put(t.Context(), "acme.k", []byte(value)); err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Seal(t.Context(), "acme", "k", nil, nil); !errors.Is(err, keyring.ErrCorrupt) {
			t.Errorf("%q: %v, want ErrCorrupt", value, err)
		}
	}
}

// single is a bucket with one key, in memory.
type single struct {
	jetstream.KeyValueEntry
	value []byte
}

func (s *single) Value() []byte { return s.value }
func (s *single) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	if s.value == nil {
		return nil, jetstream.ErrKeyNotFound
	}
	return s, nil
}

func (s *single) Create(_ context.Context, _ string, value []byte, _ ...jetstream.KVCreateOpt) (uint64, error) {
	s.value = value
	return 1, nil
}
func (s *single) Delete(context.Context, string, ...jetstream.KVDeleteOpt) error { return nil }

func FuzzOpen(f *testing.F) {
	ring := keyring.New(&single{}, master(f), keyring.Options{})
	good := seal(f, ring, "acme", "k", nil, []byte("text"))
	f.Add([]byte{}, []byte{})
	f.Add(good.Blob, []byte{})
	f.Add(good.Blob[:9], []byte{})
	f.Add(good.Blob[:20], []byte{1})
	f.Fuzz(func(t *testing.T, blob, aad []byte) {
		text, err := ring.Open(t.Context(), "acme", keyring.Sealed{KeyID: "k", Blob: blob}, aad)
		if bytes.Equal(blob, good.Blob) && len(aad) == 0 {
			if err != nil || string(text) != "text" {
				t.Fatalf("Open = %q, %v", text, err)
			}
			return
		}
		if !errors.Is(err, keyring.ErrCorrupt) && !errors.Is(err, keyring.ErrKeyMissing) {
			t.Fatalf("Open = %q, %v", text, err)
		}
	})
}
