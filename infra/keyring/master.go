package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

const maxMasterFile = 1 << 20

// ErrMasterExists says that a master key file is there already; it is never overwritten.
var ErrMasterExists = errors.New("master key file exists")

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

// CreateMaster makes a file with one new master key, readable by its owner only. ErrMasterExists when there is one:
// with the old file every text ever sealed would be lost.
func CreateMaster(path string) (*Master, error) {
	m := (&Master{}).withNew()
	body, err := m.encode()
	if err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	if err := createWhole(path, body); err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	return m, nil
}

// RotateMaster adds a new master key to the file and makes it the active one. Older ones go on to unwrap. Processes
// that run have to load the file before others use the new key.
func RotateMaster(path string) (*Master, error) {
	old, err := LoadMaster(path)
	if err != nil {
		return nil, fmt.Errorf("rotate master key: %w", err)
	}
	m := old.withNew()
	body, err := m.encode()
	if err != nil {
		return nil, fmt.Errorf("rotate master key: %w", err)
	}
	tmp, err := writeTemp(path, body)
	if err != nil {
		return nil, fmt.Errorf("rotate master key: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return nil, fmt.Errorf("rotate master key: %w", errors.Join(err, os.Remove(tmp)))
	}
	return m, syncDir(path)
}

// LoadMaster reads a master key file. One that others than owner and group may access is refused.
func LoadMaster(path string) (*Master, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load master key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("load master key: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("load master key: everybody may access %s: run `chmod 600` on it", path)
	}
	body, err := io.ReadAll(io.LimitReader(f, maxMasterFile))
	if err != nil {
		return nil, fmt.Errorf("load master key: %w", err)
	}
	m, err := parseMaster(body)
	if err != nil {
		return nil, fmt.Errorf("load master key: %w", err)
	}
	return m, nil
}

// Active is the id of the key that wraps.
func (m *Master) Active() string { return m.active }

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

// withNew is m with one more key, which is active.
func (m *Master) withNew() *Master {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	next := &Master{active: "m-" + strings.ToLower(rand.Text()[:8]), keys: map[string][]byte{}}
	maps.Copy(next.keys, m.keys)
	next.keys[next.active] = key
	return next
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

// createWhole makes a file that must not exist; it appears with all its content, flushed.
func createWhole(path string, body []byte) error {
	tmp, err := writeTemp(path, body)
	if err != nil {
		return err
	}
	err = os.Link(tmp, path) // unlike a rename it replaces nothing
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: %s", ErrMasterExists, path)
	}
	return errors.Join(err, os.Remove(tmp), syncDir(path))
}

func writeTemp(path string, body []byte) (string, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(append(body, '\n'))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return tmp.Name(), nil
}

// syncDir flushes the directory, so that the name of a new file survives a power cut.
func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
