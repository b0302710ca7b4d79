package keyring

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	keySize        = 32
	recordVersion  = 1
	createAttempts = 5
)

// KV is the bucket that holds the data keys; every jetstream.KeyValue is one. Its history must be 1.
type KV interface {
	Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error)
	Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error)
	Delete(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error
}

// vault keeps data keys in the bucket, wrapped.
type vault struct {
	kv     KV
	master *Master
}

// record is the value of a bucket key.
type record struct {
	Version int    `json:"v"`
	Master  string `json:"master"`  // id of the master key that wraps
	Wrapped []byte `json:"wrapped"` // nonce, ciphertext and tag of the data key; its name is the associated data
}

func parseRecord(value []byte) (r record, err error) {
	if err := json.Unmarshal(value, &r); err != nil || r.Version != recordVersion {
		return record{}, fmt.Errorf("%w: unknown record", ErrCorrupt)
	}
	return r, nil
}

// load reads a data key; ErrKeyMissing when there is none.
func (v vault) load(ctx context.Context, name string) (*dataKey, error) {
	entry, err := v.kv.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, ErrKeyMissing
	}
	if err != nil {
		return nil, fmt.Errorf("read data key: %w", err)
	}
	return v.unwrap(name, entry.Value())
}

// loadOrCreate reads a data key, and makes it when there is none. Of several that make it one wins; the others use its.
func (v vault) loadOrCreate(ctx context.Context, name string) (*dataKey, error) {
	var err error
	for range createAttempts {
		var key *dataKey
		if key, err = v.load(ctx, name); !errors.Is(err, ErrKeyMissing) {
			return key, err
		}
		secret := make([]byte, keySize)
		_, _ = rand.Read(secret) // never fails
		var value []byte
		if value, err = v.wrap(name, secret); err != nil {
			return nil, err
		}
		if _, err = v.kv.Create(ctx, name, value); err == nil {
			return newDataKey(secret)
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			break
		}
	}
	return nil, fmt.Errorf("create data key: %w", err)
}

func (v vault) wrap(name string, secret []byte) ([]byte, error) {
	id, wrapped, err := v.master.wrap(secret, []byte(name))
	if err != nil {
		return nil, fmt.Errorf("wrap data key: %w", err)
	}
	value, err := json.Marshal(record{Version: recordVersion, Master: id, Wrapped: wrapped})
	if err != nil {
		return nil, fmt.Errorf("wrap data key: %w", err)
	}
	return value, nil
}

func (v vault) unwrap(name string, value []byte) (*dataKey, error) {
	r, err := parseRecord(value)
	if err != nil {
		return nil, fmt.Errorf("unwrap data key: %w", err)
	}
	secret, err := v.master.unwrap(r.Master, r.Wrapped, []byte(name))
	if err != nil {
		return nil, fmt.Errorf("unwrap data key: %w", err)
	}
	return newDataKey(secret)
}

func newDataKey(secret []byte) (*dataKey, error) {
	aead, err := newAEAD(secret)
	if err != nil {
		return nil, fmt.Errorf("use data key: %w", err)
	}
	key := &dataKey{secret: secret, aead: aead}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("pilot data key check")) // a hash never fails
	copy(key.check[:], mac.Sum(nil))
	return key, nil
}
