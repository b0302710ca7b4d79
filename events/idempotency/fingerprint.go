package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Fingerprint is the hex SHA-256 of who asks and the parsed members of a body: bodies that differ in white space, in the
// order of members or in the spelling of a string only have the same one. The strings of scope must hold no newline.
// Members must be valid JSON.
func Fingerprint(scope []string, members map[string]json.RawMessage) (string, error) {
	parsed := make(map[string]any, len(members))
	for name, raw := range members {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // a float would make large numbers the same
		var v any
		if err := d.Decode(&v); err != nil {
			return "", fmt.Errorf("fingerprint a request: %w", err)
		}
		parsed[name] = v
	}
	body, err := json.Marshal(parsed) // members in order of their names
	if err != nil {
		return "", fmt.Errorf("fingerprint a request: %w", err)
	}
	h := sha256.New()
	h.Write([]byte(strings.Join(scope, "\n") + "\n")) // a hash never fails
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil)), nil
}
