// Package apikey makes and reads the API keys of Pilot, and the secrets that sign customer webhooks.
//
// It promises that a key which Parse accepts was written by Generate or guessed with its checksum, and that no key
// prints itself.
//
// A key is `ps_live_<8 id>_<43 base62><6 base62 crc32>`, `ps_test_…` for the test environment, `ps_oper_…` for an operator. The id is public and
// finds the record; the 43 digits are 256 random bits; the checksum (IEEE CRC-32 of everything before it) lets scanners
// and the edge drop mistyped keys without a look-up. Only the SHA-256 of a key is stored: a random secret of 256 bits
// needs no slow hash.
package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"strings"

	"pilotstatus.dev/events"
)

const (
	livePrefix = "ps_live_"
	testPrefix = "ps_test_"
	operPrefix = "ps_oper_"

	idLength     = 8
	secretLength = 43
	crcLength    = 6
	length       = len(livePrefix) + idLength + 1 + secretLength + crcLength

	idDigits = "0123456789abcdefghijklmnopqrstuvwxyz"
	base62   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// ErrMalformed says that a text is no key of ours: wrong shape, or a checksum that does not fit. It never repeats it.
var ErrMalformed = errors.New("malformed API key")

// Key is a raw key. Printing it shows the public part only; Reveal gives the whole.
type Key struct {
	environment events.Environment // empty for an operator's
	raw         string
}

// Generate makes a key from 40 or more bytes of random, which is crypto/rand.Reader outside tests.
func Generate(environment events.Environment, random io.Reader) (Key, error) {
	prefix, err := prefixOf(environment)
	if err != nil {
		return Key{}, fmt.Errorf("generate API key: %w", err)
	}
	return generate(prefix, environment, random)
}

// GenerateOperator makes an operator's key, as Generate does.
func GenerateOperator(random io.Reader) (Key, error) { return generate(operPrefix, "", random) }

func generate(prefix string, environment events.Environment, random io.Reader) (Key, error) {
	id, err := publicID(random)
	if err != nil {
		return Key{}, fmt.Errorf("generate API key: %w", err)
	}
	var secret [32]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return Key{}, fmt.Errorf("generate API key: %w", err)
	}
	body := prefix + id + "_" + encode(new(big.Int).SetBytes(secret[:]), secretLength)
	return Key{environment: environment, raw: body + checksum(body)}, nil
}

// Parse reads a key and checks its checksum. Keys imported from elsewhere have other shapes: look those up by Digest.
func Parse(raw string) (Key, error) {
	if len(raw) != length {
		return Key{}, ErrMalformed
	}
	k := Key{raw: raw}
	switch raw[:len(livePrefix)] {
	case livePrefix:
		k.environment = events.Live
	case testPrefix:
		k.environment = events.Test
	case operPrefix:
	default:
		return Key{}, ErrMalformed
	}
	body := raw[:length-crcLength]
	id, secret, found := strings.Cut(body[len(livePrefix):], "_")
	if !found || len(id) != idLength || !only(id, idDigits) || !only(secret, base62) || checksum(body) != raw[len(body):] {
		return Key{}, ErrMalformed
	}
	return k, nil
}

// Operator tells whether the key is an operator's.
func (k Key) Operator() bool { return strings.HasPrefix(k.raw, operPrefix) }

// Environment is what the key may do: events.Live or events.Test; empty for an operator's.
func (k Key) Environment() events.Environment { return k.environment }

// PublicID is the key's id, `[a-z0-9]{8}`: no secret, and a valid token of a subject.
func (k Key) PublicID() string {
	if k.raw == "" {
		return ""
	}
	return k.raw[len(livePrefix) : len(livePrefix)+idLength]
}

// Reveal is the whole key. It is shown once, to whom it is for.
func (k Key) Reveal() string { return k.raw }

// SHA256 is what is stored of a key.
func (k Key) SHA256() [sha256.Size]byte { return Digest(k.raw) }

// Keep puts into the record of a key what is kept of it: its public id and its digest.
func (k Key) Keep(in *events.Key) {
	sum := k.SHA256()
	in.PublicID, in.SHA256 = k.PublicID(), hex.EncodeToString(sum[:])
}

// String shows the public part.
func (k Key) String() string {
	if k.raw == "" {
		return ""
	}
	return k.raw[:len(livePrefix)+idLength] + "_…"
}

// GoString shows the public part.
func (k Key) GoString() string { return k.String() }

// MarshalText shows the public part.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Digest is the SHA-256 of a raw key of any shape.
func Digest(raw string) [sha256.Size]byte { return sha256.Sum256([]byte(raw)) }

// Equal compares two digests in constant time. Where no record is found, compare with a zero one all the same.
func Equal(a, b [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

func prefixOf(environment events.Environment) (string, error) {
	switch environment {
	case events.Live:
		return livePrefix, nil
	case events.Test:
		return testPrefix, nil
	default:
		return "", fmt.Errorf("unknown environment %q", environment)
	}
}

// publicID maps 8 random bytes to 8 digits; 36^8 divides 2^64 unevenly by far less than a millionth.
func publicID(random io.Reader) (string, error) {
	var seed [8]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return "", err
	}
	n := new(big.Int).SetBytes(seed[:])
	id, base, digit := make([]byte, idLength), big.NewInt(int64(len(idDigits))), new(big.Int)
	for i := range id {
		n.DivMod(n, base, digit)
		id[i] = idDigits[digit.Int64()]
	}
	return string(id), nil
}

func checksum(body string) string {
	return encode(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), crcLength)
}

// encode writes n in base 62 with width digits, the highest first.
func encode(n *big.Int, width int) string {
	digits, base, digit := make([]byte, width), big.NewInt(int64(len(base62))), new(big.Int)
	rest := new(big.Int).Set(n)
	for i := width - 1; i >= 0; i-- {
		rest.DivMod(rest, base, digit)
		digits[i] = base62[digit.Int64()]
	}
	return string(digits)
}

func only(text, alphabet string) bool {
	return strings.Trim(text, alphabet) == ""
}
