package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

const (
	messagePrefix     = "msg_"
	correlationPrefix = "cor_"
)

// MessageID builds the id of a message: "msg_" and the 32 hex digits of a UUIDv7 whose last byte is replaced by the partition,
// so that any reader of an id knows where its events are. The caller supplies the UUID: this package has no clock.
func MessageID(u uuid.UUID, p Partition) string {
	u[15] = byte(p)
	return messagePrefix + hex.EncodeToString(u[:])
}

// CorrelationID builds the correlation id of a message from a UUIDv7.
func CorrelationID(u uuid.UUID) string { return correlationPrefix + hex.EncodeToString(u[:]) }

// ParseMessageID gives the partition in a message id and the Unix milliseconds of its creation.
func ParseMessageID(id string) (p Partition, unixMilli int64, ok bool) {
	raw, found := strings.CutPrefix(id, messagePrefix)
	if !found || len(raw) != 32 || strings.ToLower(raw) != raw {
		return 0, 0, false
	}
	b, err := hex.DecodeString(raw)
	if err != nil || b[6]>>4 != 7 {
		return 0, 0, false
	}
	for _, x := range b[:6] {
		unixMilli = unixMilli<<8 | int64(x)
	}
	return Partition(b[15]), unixMilli, true
}

// hashedID is a token that stands for its parts: what is recorded of them twice has one subject.
func hashedID(prefix string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return prefix + "-" + hex.EncodeToString(sum[:16])
}

// ValidToken reports whether s may stand as one token of a subject: our own immutable ids, [a-z0-9-]{1,40}.
func ValidToken(s string) bool {
	if s == "" || len(s) > 40 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
