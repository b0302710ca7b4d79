package api

import (
	"context"
	"strings"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// registrar says of an instance what the registrar does.
func (f *adminFixture) registrar(in events.Instance) {
	f.t.Helper()
	var end uint64
	f.control.Read(func(c *catalog.Catalog) { end = c.Sequence })
	if _, err := f.control.Append(f.t.Context(), events.KindInstance, in.ID, events.DefinedType(events.KindInstance),
		&events.Defined[events.Instance]{By: "registrar", Value: in}, end); err != nil {
		f.t.Fatal(err)
	}
}

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
	inUse := func(verb string) (retireFrom any) {
		t.Helper()
		r := f.as(f.ana, "POST", "instances/num/"+verb+"-ingress-secret", nil)
		wantCode(t, r, CodeIngressInUse)
		details, _ := r.member(t, "details").(map[string]any)
		if _, now := held(); now != second || details["forceable"] != true {
			t.Errorf("%s, refused with %v: %+v", verb, details, now)
		}
		return details["retireFrom"]
	}
	for _, verb := range []string{"retire", "rotate"} { // the gateway may present the secret before, which either of the two would end
		if from := inUse(verb); from != nil {
			t.Errorf("from %v, and the gateway was not told", from)
		}
	}
	told := after
	told.IngressTold = &events.IngressTold{Digest: before.IngressDigest(), At: f.now}
	f.registrar(told)
	if from := inUse("retire"); from != nil {
		t.Errorf("from %v, and the gateway was told of another secret", from)
	}
	told.IngressTold = &events.IngressTold{Digest: after.IngressDigest(), At: f.now}
	f.registrar(told)
	for _, verb := range []string{"retire", "rotate"} { // it tries again what it began before
		if from := inUse(verb); from != stamp(f.now.Add(events.IngressRepeats)) {
			t.Errorf("from %v", from)
		}
	}
	f.now = f.now.Add(events.IngressRepeats)
	f.want(200, "POST", "instances/num/retire-ingress-secret", nil)
	if _, third := held(); third.Secret != second.Secret || third.Previous != "" || third.Token != first.Token {
		t.Errorf("retired %+v", third)
	}
	f.want(200, "POST", "instances/num/retire-ingress-secret", nil) // there is none before: nothing ends
	f.want(200, "POST", "instances/num/rotate-ingress-secret", nil)
	_, leaked := held()
	f.want(200, "POST", "instances/num/rotate-ingress-secret", obj{"force": true})
	if _, forced := held(); forced.Previous != leaked.Secret {
		t.Errorf("forced %+v", forced)
	}
	f.want(200, "POST", "instances/num/retire-ingress-secret", obj{"force": true})
	if _, forced := held(); forced.Previous != "" {
		t.Errorf("forced %+v", forced)
	}
	wantCode(t, f.as(f.ana, "POST", "instances/none/rotate-ingress-secret", nil), events.CodeNotFound)
	wantCode(t, f.as(f.ana, "POST", "instances/num/rotate-ingress-secret", nil, "If-Match", `"1"`), CodePreconditionFailed)
	if strings.Contains(f.logged.String(), second.Secret) {
		t.Error("a secret is logged")
	}
}
