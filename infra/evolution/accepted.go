package evolution

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode"
)

// maxGatewayID bounds a key id, in bytes. Known ones have 22 or 40 characters.
const maxGatewayID = 100

// accepted reads the body of a 2xx to a send. Whatever the body is, the message was taken.
func accepted(body []byte) Verdict {
	v := Verdict{Outcome: Accepted, Scope: ScopeMessage, Code: CauseNoGatewayID}
	fields, _ := object(body)
	key, ok := object(fields["key"])
	if !ok {
		return v
	}
	v.RemoteJID = identifier(key["remoteJid"])
	v.MessageTimestamp = timestamp(fields["messageTimestamp"])
	if v.GatewayID = identifier(key["id"]); v.GatewayID != "" {
		v.Code = ""
	}
	return v
}

// identifier reads a short printable string; anything else is "".
func identifier(raw json.RawMessage) string {
	s, ok := text(raw)
	if !ok || len(s) > maxGatewayID {
		return ""
	}
	for _, r := range s {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar {
			return ""
		}
	}
	return s
}

// timestamp reads Unix seconds, given as a number by v2 and as a string by v1.
func timestamp(raw json.RawMessage) time.Time {
	digits := string(raw)
	if s, ok := text(raw); ok {
		digits = s
	}
	seconds, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || seconds <= 0 || seconds > 1<<36 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
