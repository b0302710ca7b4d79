// Package keyring seals personal data and secrets under keys that can be destroyed.
//
// It promises that what Seal returned is readable with Open until its data key is erased, and not through it afterwards.
// A data key is random, belongs to one tenant, and lies in the key-value bucket `keys` wrapped by a master key that
// never leaves the processes. Everything is AES-256-GCM with a random nonce and associated data. What must be compared
// without being read is hashed under a key of the tenant's own. Why: docs/adr/0004.
package keyring

import (
	"context"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"pilotstatus.dev/events"
)

// HashKeyID is the reserved id of a tenant's hash key: Erase takes it, Seal and Open refuse it.
const HashKeyID = "hash"

const (
	defaultCacheSize = 4096
	defaultCacheTTL  = time.Minute

	blobVersion = 1
	checkSize   = 8
	blobHeader  = 1 + checkSize
)

var (
	// ErrKeyMissing says that the data key was erased, or never was: the text is gone for good. With a replicated
	// bucket it is certain only when absence is asked of the leader (see Leader).
	ErrKeyMissing = errors.New("data key is missing")
	// ErrCorrupt says that the key is there and the text is not what was sealed with this associated data: damaged,
	// moved from elsewhere, or no sealed text at all.
	ErrCorrupt = errors.New("sealed text is corrupt")
	// ErrMasterMissing says that a data key is wrapped by a master key that this process does not have.
	ErrMasterMissing = errors.New("master key is missing")
	// ErrInvalidID says that a tenant or key id cannot name a data key.
	ErrInvalidID = errors.New("invalid tenant or key id")
)

// Sealed is a sealed text: the id of its data key, and version, key check, nonce, ciphertext and tag in one blob.
type Sealed = events.Sealed

// Options tune a Keyring; zero values mean the defaults.
type Options struct {
	// CacheSize is how many unwrapped data keys stay in memory, 4096 by default.
	CacheSize int
	// CacheTTL is for how long one does, a minute by default: a key erased by another process may be used for so long.
	CacheTTL time.Duration
}

// Keyring seals and opens. It is safe for concurrent use.
type Keyring struct {
	vault vault
	cache *cache
}

// New makes a Keyring over the bucket kv, with data keys wrapped by master. For a replicated bucket kv is Leader.
func New(kv KV, master *Master, o Options) *Keyring {
	if o.CacheSize <= 0 {
		o.CacheSize = defaultCacheSize
	}
	if o.CacheTTL <= 0 {
		o.CacheTTL = defaultCacheTTL
	}
	return &Keyring{vault: vault{kv: kv, master: master}, cache: newCache(o.CacheSize, o.CacheTTL)}
}

// Seal encrypts plaintext under the tenant's data key keyID, which it makes on first use. Open needs the same aad,
// which says where the text belongs (see AAD). Sealing again under an erased id makes a new, independent key.
func (k *Keyring) Seal(ctx context.Context, tenant, keyID string, aad, plaintext []byte) (Sealed, error) {
	name, err := dataKeyName(tenant, keyID)
	if err != nil {
		return Sealed{}, fmt.Errorf("seal: %w", err)
	}
	key, _, err := k.cache.get(ctx, name, k.vault.loadOrCreate)
	if err != nil {
		return Sealed{}, fmt.Errorf("seal: %w", err)
	}
	return Sealed{KeyID: keyID, Blob: key.seal(name, aad, plaintext)}, nil
}

// SealBeside encrypts plaintext under the very data key that sealed beside, never under a new one: ErrKeyMissing when it is gone.
func (k *Keyring) SealBeside(ctx context.Context, tenant string, beside Sealed, aad, plaintext []byte) (Sealed, error) {
	name, key, err := k.keyOf(ctx, tenant, beside)
	if err != nil {
		return Sealed{}, fmt.Errorf("seal: %w", err)
	}
	return Sealed{KeyID: beside.KeyID, Blob: key.seal(name, aad, plaintext)}, nil
}

// Open decrypts what Seal made for the same tenant and aad. ErrKeyMissing, ErrCorrupt and ErrMasterMissing are final
// answers; any other error says that the bucket could not be asked.
func (k *Keyring) Open(ctx context.Context, tenant string, s Sealed, aad []byte) ([]byte, error) {
	name, key, err := k.keyOf(ctx, tenant, s)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	text, err := key.aead.Open(nil, nil, s.Blob[blobHeader:], bind(name, aad))
	if err != nil {
		return nil, fmt.Errorf("open: %w", ErrCorrupt)
	}
	return text, nil
}

// keyOf gives the data key that sealed a text, and its name.
func (k *Keyring) keyOf(ctx context.Context, tenant string, s Sealed) (string, *dataKey, error) {
	name, err := dataKeyName(tenant, s.KeyID)
	if err != nil {
		return "", nil, err
	}
	if len(s.Blob) < blobHeader || s.Blob[0] != blobVersion {
		return "", nil, fmt.Errorf("%w: not a sealed text", ErrCorrupt)
	}
	key, cached, err := k.cache.get(ctx, name, k.vault.load)
	if err == nil && cached && !key.made(s.Blob) {
		// Erased and made again since it was cached.
		k.cache.drop(name)
		key, _, err = k.cache.get(ctx, name, k.vault.load)
	}
	if err != nil {
		return "", nil, err
	}
	if !key.made(s.Blob) {
		return "", nil, fmt.Errorf("%w: another one has its id", ErrKeyMissing)
	}
	return name, key, nil
}

// Erase destroys a data key, HashKeyID included; one that is not there is no error. Other processes forget it within
// their cache's TTL. The wrapped key can stay in the bucket's block files until the server rewrites them, and in
// backups of the bucket: there it is worth nothing without the master key.
func (k *Keyring) Erase(ctx context.Context, tenant, keyID string) error {
	name, err := keyName(tenant, keyID)
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	k.cache.drop(name)
	err = k.vault.kv.Delete(ctx, name)
	k.cache.drop(name) // whoever read it meanwhile
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return nil
}

// HMAC is the HMAC-SHA-256 of data under the tenant's hash key, which is made on first use. Different purposes give
// unrelated values, and so do different tenants.
func (k *Keyring) HMAC(ctx context.Context, tenant, purpose string, data []byte) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	name, err := keyName(tenant, HashKeyID)
	if err != nil {
		return sum, fmt.Errorf("hash: %w", err)
	}
	key, _, err := k.cache.get(ctx, name, k.vault.loadOrCreate)
	if err != nil {
		return sum, fmt.Errorf("hash: %w", err)
	}
	mac := hmac.New(sha256.New, key.secret)
	mac.Write(fields([]byte(purpose), data)) // a hash never fails
	mac.Sum(sum[:0])
	return sum, nil
}

// Hash is HMAC in lower-case hex: a stable name for something that must not be read, as a recipient or a jid.
func (k *Keyring) Hash(ctx context.Context, tenant, purpose string, data []byte) (string, error) {
	sum, err := k.HMAC(ctx, tenant, purpose, data)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum[:]), nil
}

// AAD says where a sealed text belongs. Two different places never give the same bytes.
func AAD(tenant, messageID, field string) []byte {
	return fields([]byte(tenant), []byte(messageID), []byte(field))
}

// bind adds the data key's name to the caller's associated data.
func bind(name string, aad []byte) []byte { return fields([]byte(name), aad) }

// fields puts each part behind its length, so that no other parts read the same.
func fields(parts ...[]byte) []byte {
	var out []byte
	for _, part := range parts {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}

// dataKey is an unwrapped key.
type dataKey struct {
	secret []byte
	aead   cipher.AEAD
	check  [checkSize]byte // tells this key from another of the same id, and nothing about it
}

// seal makes the blob of a sealed text.
func (d *dataKey) seal(name string, aad, plaintext []byte) []byte {
	blob := make([]byte, blobHeader, blobHeader+len(plaintext)+d.aead.Overhead())
	blob[0] = blobVersion
	copy(blob[1:], d.check[:])
	return d.aead.Seal(blob, nil, plaintext, bind(name, aad)) //nolint:gosec // the AEAD draws a random nonce itself
}

// made reports whether a blob, at least a header long, names this key.
func (d *dataKey) made(blob []byte) bool {
	return subtle.ConstantTimeCompare(blob[1:blobHeader], d.check[:]) == 1
}

// dataKeyName names the bucket key of a data key that seals.
func dataKeyName(tenant, keyID string) (string, error) {
	if keyID == HashKeyID {
		return "", fmt.Errorf("%w: %q is reserved", ErrInvalidID, HashKeyID)
	}
	return keyName(tenant, keyID)
}

// keyName is `<tenant>.<key id>`; neither part may hold a dot.
func keyName(tenant, keyID string) (string, error) {
	if !events.ValidToken(tenant) || !validKeyID(keyID) {
		return "", ErrInvalidID
	}
	return tenant + "." + keyID, nil
}

// validKeyID: [A-Za-z0-9_-]{1,100}.
func validKeyID(s string) bool {
	if s == "" || len(s) > 100 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
