package policy_test

import (
	"strings"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// The digest of a secret id has the form of one and belongs to one key.
func TestSecretIDOfAKey(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	taken := strings.Repeat("ab", 32)
	c.Apply(events.Recorded{
		Event: events.Event{
			Envelope: events.Envelope{Type: events.DefinedType(events.KindKey)}, Address: events.ControlSubject(events.KindKey, "other"),
			Body: &events.Defined[events.Key]{Value: events.Key{ID: "other", SecretIDHash: taken}},
		},
		Position: events.Position{Sequence: 1}, Known: true,
	})
	for value, bad := range map[string]bool{"": false, strings.Repeat("cd", 32): false, "cd": true, strings.Repeat("x", 64): true, taken: true} {
		k := key()
		k.SecretIDHash = value
		found := false
		for _, f := range policy.Key(c, k, nil) {
			found = found || f.Field == "secretIdHash"
		}
		if found != bad {
			t.Errorf("%.6q: complained of: %v", value, found)
		}
	}
}
