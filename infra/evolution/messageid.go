package evolution

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

var majorMinor = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})(?:\D|$)`)

// TakesMessageID reports whether a gateway of the version uses the key id that a call gives it: for texts, from 2.4 on. Of an unknown
// version it is not assumed. One that ignores the id all the same answers with an id of its own, and both are the message's.
func TakesMessageID(call Call, version string) bool {
	if call != CallSendText { // buttons have no such field
		return false
	}
	m := majorMinor.FindStringSubmatch(version)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1]) // digits only
	minor, _ := strconv.Atoi(m[2])
	return major > 2 || major == 2 && minor >= 4
}

// NewMessageID draws a key id of the form that the gateway gives itself: 3EB0 and 18 hex digits. One is drawn for each attempt, never
// used twice: what WhatsApp does with a repeated id is not known.
func NewMessageID() string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return "3EB0" + strings.ToUpper(hex.EncodeToString(b[:]))
}
