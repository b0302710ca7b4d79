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
	whole, err := json.Marshal(members)
	if err != nil {
		return "", fmt.Errorf("fingerprint a request: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(whole))
	d.UseNumber() // a float would make large numbers the same
	var parsed map[string]any
	if err := d.Decode(&parsed); err != nil {
		return "", fmt.Errorf("fingerprint a request: %w", err)
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
