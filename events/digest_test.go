package events_test

import (
	"testing"

	"pilotstatus.dev/events"
)

// Each change of a stored event, and each way to move bytes between its parts, gives another digest.
func TestDigestTellsEventsApart(t *testing.T) {
	t.Parallel()
	base := func() events.Wire {
		return events.Wire{Subject: "evt.0.a.dispatch.started", Header: map[string][]string{"a": {"1"}, "b": {"2", "3"}}, Data: []byte("{}")}
	}
	seen := map[events.Digest]string{base().Digest(): "base"}
	for name, change := range map[string]func(*events.Wire){
		"subject":         func(w *events.Wire) { w.Subject += "x" },
		"value":           func(w *events.Wire) { w.Header["a"] = []string{"2"} },
		"name":            func(w *events.Wire) { w.Header["c"] = w.Header["a"]; delete(w.Header, "a") },
		"header less":     func(w *events.Wire) { delete(w.Header, "a") },
		"value less":      func(w *events.Wire) { w.Header["b"] = []string{"2"} },
		"values joined":   func(w *events.Wire) { w.Header["b"] = []string{"23"} },
		"values reversed": func(w *events.Wire) { w.Header["b"] = []string{"3", "2"} },
		"body":            func(w *events.Wire) { w.Data = []byte("{ }") },
		"no body":         func(w *events.Wire) { w.Data = nil },
	} {
		w := base()
		change(&w)
		if other, same := seen[w.Digest()]; same {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[w.Digest()] = name
	}
	if seen[base().Digest()] != "base" {
		t.Error("the same event has two digests")
	}
}

func TestDigestOfARunDependsOnItsOrder(t *testing.T) {
	t.Parallel()
	a, b := events.Wire{Subject: "a"}.Digest(), events.Wire{Subject: "b"}.Digest()
	var start events.Digest
	if start.Then(a).Then(b) == start.Then(b).Then(a) || start.Then(a) == a || start.Then(a) == start {
		t.Error("runs of different events have the same digest")
	}
}

func BenchmarkDigest(b *testing.B) {
	h := map[string][]string{}
	for _, name := range []string{"ce-id", "ce-type", "ce-source", "ce-time", "ce-subject", "ce-tenantid", "ce-deliveruntil", "ce-attempt", "ce-prev", "ce-queuedseq"} {
		h[name] = []string{"msg_01a22811bbcd7218ad38034bd4b62702"}
	}
	w := events.Wire{Subject: "evt.2.shared-1.queued.utility.acme.0", Header: h, Data: make([]byte, 500)}
	for b.Loop() {
		w.Digest()
	}
}
