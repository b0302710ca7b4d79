package keyring

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrMasterInUse says that a master key is the active one or wraps a data key, and must stay.
var ErrMasterInUse = errors.New("master key is in use")

// Master is a set of master keys: the active one wraps new data keys, all of them unwrap. It does not change.
type Master struct {
	active string
	keys   map[string][]byte
}

// masterFile is the JSON of a master key file: {"active": "<id>", "keys": {"<id>": "<base64 of 32 bytes>"}}.
type masterFile struct {
	Active string            `json:"active"`
	Keys   map[string][]byte `json:"keys"`
}

// Active is the id of the key that wraps.
func (m *Master) Active() string { return m.active }

// IDs are the ids of all keys, in order.
func (m *Master) IDs() []string { return slices.Sorted(maps.Keys(m.keys)) }

func parseMaster(body []byte) (*Master, error) {
	var file masterFile
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, errors.New("not a master key file") // the error could repeat a key
	}
	for id, key := range file.Keys {
		if !validKeyID(id) || len(key) != keySize {
			return nil, fmt.Errorf("a master key is not %d bytes under a plain id", keySize)
		}
	}
	if _, ok := file.Keys[file.Active]; !ok {
		return nil, errors.New("the active master key is missing")
	}
	return &Master{active: file.Active, keys: file.Keys}, nil
}

func (m *Master) encode() ([]byte, error) {
	return json.MarshalIndent(masterFile{Active: m.active, Keys: m.keys}, "", "  ")
}

// WithNew is m with one more key, under an id that it draws; the first key is the active one.
func (m *Master) WithNew() (next *Master, id string) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	id = "m-" + strings.ToLower(rand.Text()[:8])
	next = &Master{active: cmp.Or(m.active, id), keys: map[string][]byte{id: key}}
	maps.Copy(next.keys, m.keys)
	return next, id
}

// WithActive is m with another of its keys as the active one; ErrMasterMissing when it has no such key.
func (m *Master) WithActive(id string) (*Master, error) {
	if _, ok := m.keys[id]; !ok {
		return nil, fmt.Errorf("%w: id %q", ErrMasterMissing, id)
	}
	return &Master{active: id, keys: m.keys}, nil
}

// Without is m without a key; ErrMasterMissing when it has no such key, ErrMasterInUse when it is the active one. What it wraps cannot be
// read afterwards: see Wrapped.
func (m *Master) Without(id string) (*Master, error) {
	if _, ok := m.keys[id]; !ok {
		return nil, fmt.Errorf("%w: id %q", ErrMasterMissing, id)
	}
	if id == m.active {
		return nil, fmt.Errorf("%w: %q is the active one", ErrMasterInUse, id)
	}
	next := &Master{active: m.active, keys: maps.Clone(m.keys)}
	delete(next.keys, id)
	return next, nil
}

func (m *Master) equal(other *Master) bool {
	return m.active == other.active && maps.EqualFunc(m.keys, other.keys, bytes.Equal)
}

func (m *Master) wrap(secret, aad []byte) (id string, wrapped []byte, err error) {
	aead, err := newAEAD(m.keys[m.active])
	if err != nil {
		return "", nil, err
	}
	return m.active, aead.Seal(nil, nil, secret, aad), nil //nolint:gosec // the AEAD draws a random nonce itself
}

func (m *Master) unwrap(id string, wrapped, aad []byte) ([]byte, error) {
	key, ok := m.keys[id]
	if !ok {
		return nil, fmt.Errorf("%w: id %q", ErrMasterMissing, id)
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	secret, err := aead.Open(nil, nil, wrapped, aad)
	if err != nil || len(secret) != keySize {
		return nil, fmt.Errorf("%w: master key %q does not fit", ErrCorrupt, id)
	}
	return secret, nil
}

// newAEAD is AES-GCM that draws its own nonce and puts it first: 2^32 texts a key, by NIST SP 800-38D.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
