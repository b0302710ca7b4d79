package api

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// traceParent gives the caller's trace context where it is valid, else a new one (W3C Trace Context, §3.2). A bad header
// is never an error. Of later versions the four fields of version 00 are read, as the specification asks.
func traceParent(given string) string {
	if valid(given) {
		return "00" + given[2:traceLength]
	}
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] |= 1              // an id of all zeros is invalid
	b[16] |= 1
	return "00-" + hex.EncodeToString(b[:16]) + "-" + hex.EncodeToString(b[16:]) + "-01"
}

const traceLength = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

func valid(s string) bool {
	if len(s) < traceLength || s[:2] == "ff" || len(s) > traceLength && (s[:2] == "00" || s[traceLength] != '-') {
		return false
	}
	parts := strings.Split(s[:traceLength], "-")
	if len(parts) != 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || len(parts[2]) != 16 {
		return false
	}
	for _, p := range parts {
		if strings.Trim(p, "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}
