package catalog

import (
	"testing"

	"pilotstatus.dev/events"
)

// A key is found by the digest of its secret id while it has one; no key is found by none.
func TestKeyBySecretID(t *testing.T) {
	t.Parallel()
	c := fold(
		control(1, events.KindKey, "k-1", &events.Key{ID: "k-1", SecretIDHash: "aa"}),
		control(2, events.KindKey, "k-2", &events.Key{ID: "k-2"}),
	)
	if k, ok := c.KeyBySecretID("aa"); !ok || k.ID != "k-1" {
		t.Errorf("%+v %v", k, ok)
	}
	if k, ok := c.KeyBySecretID(""); ok {
		t.Errorf("found by none: %s", k.ID)
	}
	c.Apply(control(3, events.KindKey, "k-1", &events.Key{ID: "k-1"}))
	if _, ok := c.KeyBySecretID("aa"); ok {
		t.Error("found after it was switched off")
	}
}
