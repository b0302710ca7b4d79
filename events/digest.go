package events

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
)

// Digest is the SHA-256 of a stored event, or of a run of them (docs/audit.md). The zero Digest says that none was taken.
type Digest [sha256.Size]byte

// Digest covers subject, headers in the order of their names, and body, each with its length before it, so that no two
// different events give the same bytes to hash.
func (w Wire) Digest() Digest {
	buf := make([]byte, 0, 1024+len(w.Data))
	text := func(s string) {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	text(w.Subject)
	buf = binary.AppendUvarint(buf, uint64(len(w.Header)))
	for _, name := range slices.Sorted(maps.Keys(w.Header)) {
		text(name)
		buf = binary.AppendUvarint(buf, uint64(len(w.Header[name])))
		for _, value := range w.Header[name] {
			text(value)
		}
	}
	buf = binary.AppendUvarint(buf, uint64(len(w.Data)))
	return sha256.Sum256(append(buf, w.Data...))
}

// Then gives the digest of a run of events with one more at its end. A run begins with the zero Digest.
func (d Digest) Then(next Digest) Digest {
	var both [2 * sha256.Size]byte
	copy(both[:], d[:])
	copy(both[sha256.Size:], next[:])
	return sha256.Sum256(both[:])
}
