package keyring_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/keyring"
)

func TestRewrapLeavesNothingToTheOldMaster(t *testing.T) {
	t.Parallel()
	nc, kv := bucket(t)
	old := master(t)
	both, id := old.WithNew()
	both, err := both.WithActive(id)
	if err != nil {
		t.Fatal(err)
	}
	before := keyring.New(keyring.Leader(nc, kv, 0), old, keyring.Options{})
	var texts []keyring.Sealed
	for i := range 20 {
		texts = append(texts, seal(t, before, "acme", fmt.Sprintf("k%d", i), nil, []byte("text")))
	}
	hash, err := before.Hash(t.Context(), "acme", "recipient", []byte("5511999990000"))
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Erase(t.Context(), "acme", "k0"); err != nil {
		t.Fatal(err)
	}
	after := keyring.New(keyring.Leader(nc, kv, 0), both, keyring.Options{})
	seal(t, after, "acme", "later", nil, []byte("text"))

	for round, want := range []int{20, 0} {
		if n, err := keyring.Rewrap(t.Context(), kv, both); err != nil || n != want {
			t.Errorf("round %d: %d rewrapped, %v", round, n, err)
		}
	}
	if counts, err := keyring.Wrapped(t.Context(), kv); err != nil || !maps.Equal(counts, map[string]int{id: 21}) {
		t.Errorf("wrapped: %v, %v", counts, err)
	}
	alone, err := both.Without(old.Active())
	if err != nil {
		t.Fatal(err)
	}
	ring := keyring.New(keyring.Leader(nc, kv, 0), alone, keyring.Options{})
	for i, s := range texts {
		got, err := ring.Open(t.Context(), "acme", s, nil)
		switch {
		case i == 0 && !errors.Is(err, keyring.ErrKeyMissing):
			t.Errorf("erased: %q, %v", got, err)
		case i > 0 && (err != nil || string(got) != "text"):
			t.Errorf("text %d: %q, %v", i, got, err)
		}
	}
	if again, err := ring.Hash(t.Context(), "acme", "recipient", []byte("5511999990000")); err != nil || again != hash {
		t.Errorf("hash %q, before %q, %v", again, hash, err)
	}
}

// erasing erases each key that is about to be written.
type erasing struct {
	jetstream.KeyValue
	erase func(key string)
}

func (e erasing) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	e.erase(key)
	return e.KeyValue.Update(ctx, key, value, revision)
}

func TestRewrapBringsNoErasedKeyBack(t *testing.T) {
	t.Parallel()
	nc, kv := bucket(t)
	old := master(t)
	ring := keyring.New(keyring.Leader(nc, kv, 0), old, keyring.Options{})
	s := seal(t, ring, "acme", "k", nil, []byte("text"))
	both, id := old.WithNew()
	both, err := both.WithActive(id)
	if err != nil {
		t.Fatal(err)
	}
	n, err := keyring.Rewrap(t.Context(), erasing{kv, func(string) {
		if err := ring.Erase(t.Context(), "acme", "k"); err != nil {
			t.Error(err)
		}
	}}, both)
	if err != nil || n != 0 {
		t.Errorf("%d rewrapped, %v", n, err)
	}
	if got, err := keyring.New(keyring.Leader(nc, kv, 0), both, keyring.Options{}).Open(t.Context(), "acme", s, nil); !errors.Is(err, keyring.ErrKeyMissing) {
		t.Errorf("an erased text: %q, %v", got, err)
	}
}

func TestRewrapNeedsTheKeyThatWraps(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	seal(t, keyring.New(kv, master(t), keyring.Options{}), "acme", "k", nil, []byte("text"))
	if n, err := keyring.Rewrap(t.Context(), kv, master(t)); !errors.Is(err, keyring.ErrMasterMissing) || n != 0 {
		t.Errorf("%d rewrapped, %v", n, err)
	}
}
