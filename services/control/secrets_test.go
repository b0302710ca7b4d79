package control_test

import (
	"bytes"
	"errors"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/services/control"
)

func TestSecretsBelongToTheirEntity(t *testing.T) {
	t.Parallel()
	s := control.NewSecrets(newRig(t).keys)
	sealed, err := s.Seal(t.Context(), "ep1", []byte("whsec_x"))
	if err != nil {
		t.Fatal(err)
	}
	if sealed.KeyID != events.SecretsKeyID || bytes.Contains(sealed.Blob, []byte("whsec_x")) {
		t.Errorf("sealed as %+v", sealed)
	}
	if got, err := s.Open(t.Context(), "ep1", sealed); err != nil || string(got) != "whsec_x" {
		t.Errorf("opened %q, %v", got, err)
	}
	if _, err := s.Open(t.Context(), "ep2", sealed); !errors.Is(err, keyring.ErrCorrupt) {
		t.Errorf("opened for another entity: %v", err)
	}
}

func TestIngressRotation(t *testing.T) {
	t.Parallel()
	s := control.NewSecrets(newRig(t).keys)
	ingress := control.Ingress{IngressSecret: events.IngressSecret{Token: "token", Secret: "old"}}
	in, err := s.SealIngress(t.Context(), events.Instance{ID: "inst1"}, ingress.Rotated("new"))
	if err != nil {
		t.Fatal(err)
	}
	if in.IngressHash != control.HashToken("token") {
		t.Errorf("hash of the token: %s", in.IngressHash)
	}
	got, err := s.Ingress(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]bool{"new": true, "old": true, "": false, "other": false, "new ": false} {
		if got.Admits(secret) != want {
			t.Errorf("%q is admitted: %t", secret, !want)
		}
	}
	if (control.Ingress{}).Admits("") {
		t.Error("an ingress without a secret admits nobody")
	}
	if _, err := s.Ingress(t.Context(), events.Instance{ID: "inst2", Ingress: in.Ingress}); err == nil {
		t.Error("the ingress of one instance opens for another")
	}
	bad, err := s.Seal(t.Context(), "inst3", []byte("{"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ingress(t.Context(), events.Instance{ID: "inst3", Ingress: bad}); err == nil {
		t.Error("an ingress that is no JSON opens")
	}
}
