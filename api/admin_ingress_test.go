package api

import (
	"context"
	"strings"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// The secret that a gateway presents is rotated without a gap: the one before is admitted until it is retired.
func TestIngressSecretIsRotated(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	f.want(201, "POST", "instances", obj{"id": "num", "tenantId": "acme", "name": "num", "gatewayUrl": "http://gateway:8080", "gatewayKey": "k"})
	held := func() (events.Instance, events.IngressSecret) {
		t.Helper()
		var in events.Instance
		f.control.Read(func(c *catalog.Catalog) { in, _ = c.Instance("num") })
		s, err := memorySecrets{}.Ingress(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		return in, s
	}
	before, first := held()
	r := f.want(200, "POST", "instances/num/rotate-ingress-secret", nil)
	after, second := held()
	if second.Token != first.Token || second.Previous != first.Secret || second.Secret == first.Secret || second.Secret == "" || after.IngressHash != before.IngressHash {
		t.Errorf("rotated %+v to %+v", first, second)
	}
	if strings.Contains(string(r.body), second.Secret) || strings.Contains(string(r.body), first.Secret) {
		t.Errorf("a secret is shown: %s", r.body)
	}
	f.want(200, "POST", "instances/num/retire-ingress-secret", nil)
	if _, third := held(); third.Secret != second.Secret || third.Previous != "" || third.Token != first.Token {
		t.Errorf("retired %+v", third)
	}
	wantCode(t, f.as(f.ana, "POST", "instances/none/rotate-ingress-secret", nil), events.CodeNotFound)
	wantCode(t, f.as(f.ana, "POST", "instances/num/rotate-ingress-secret", nil, "If-Match", `"1"`), CodePreconditionFailed)
	if strings.Contains(f.logged.String(), second.Secret) {
		t.Error("a secret is logged")
	}
}
