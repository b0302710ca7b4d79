package events_test

import (
	"testing"

	"pilotstatus.dev/events"
)

// The secret before a rotation is unused some time after this gateway was told of this secret, and never before.
func TestPreviousUnused(t *testing.T) {
	t.Parallel()
	in := events.Instance{ID: "i", Name: "main", GatewayURL: "http://gateway.example", Ingress: events.Sealed{Blob: []byte("sealed")}}
	if _, told := in.PreviousUnused(); told {
		t.Error("nobody told it")
	}
	in.IngressTold = &events.IngressTold{Digest: in.IngressDigest(), At: at(1000)}
	if from, told := in.PreviousUnused(); !told || !from.Equal(at(1000).Add(events.IngressRepeats)) {
		t.Errorf("from %v, %v", from, told)
	}
	in.DisplayName = "Shop"
	if _, told := in.PreviousUnused(); !told {
		t.Error("what it presents is the same")
	}
	for what, change := range map[string]func(*events.Instance){
		"another secret":  func(i *events.Instance) { i.Ingress.Blob = []byte("sealed anew") },
		"another gateway": func(i *events.Instance) { i.GatewayURL = "http://standby.example" },
		"another name":    func(i *events.Instance) { i.Name = "other" },
	} {
		other := in
		change(&other)
		if _, told := other.PreviousUnused(); told {
			t.Errorf("%s: told", what)
		}
	}
}
