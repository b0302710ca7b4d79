package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// IngressSecret is what a gateway must present to hand in a receipt: the path token and the value of the secret header.
type IngressSecret struct {
	Token    string `json:"token"`
	Secret   string `json:"secret"`
	Previous string `json:"previous,omitempty"` // the secret before the last rotation; admitted until it is left out
}

// IngressTold says that the gateway was told what it presents from then on.
type IngressTold struct {
	Digest string    `json:"digest"` // Instance.IngressDigest of what it was told
	At     time.Time `json:"at"`
}

// IngressRepeats is how long a gateway goes on handing in an event with the headers that it had first: nine waits that come to 20 minutes,
// a fifth more by chance, and 30 s for each of ten tries.
const IngressRepeats = 30 * time.Minute

// IngressDigest names which gateway presents what: hex SHA-256 of its URL, its name of the instance, and the sealed IngressSecret.
func (i Instance) IngressDigest() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{i.GatewayURL, i.Name, string(i.Ingress.Blob)}, "\x00")))
	return hex.EncodeToString(sum[:])
}

// PreviousUnused says from when on the gateway presents the secret before the last rotation no more; false while it is not known to have
// been told of the new one. A gateway that is refused gives the event up for good: before that time the one before must be admitted.
func (i Instance) PreviousUnused() (time.Time, bool) {
	if i.IngressTold == nil || i.IngressTold.Digest != i.IngressDigest() {
		return time.Time{}, false
	}
	return i.IngressTold.At.Add(IngressRepeats), true
}
