package events_test

import (
	"runtime"
	"strings"
	"testing"

	"pilotstatus.dev/events"
)

// Header values come as pieces of one text. A fold that kept a piece kept the text, of each pending message.
func TestWhatIsKeptOfAnEnvelopeHoldsNoHeaders(t *testing.T) { // not parallel: it looks at the heap
	const n, size = 200, 1 << 20
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var kept []events.Envelope
	for range n {
		block := "id-1 test.unknown.v1 msg-1 n-1 3EB0 " + strings.Repeat("x", size)
		piece := func(s string) []string { i := strings.Index(block, s); return []string{block[i : i+len(s)]} }
		rec, err := events.Standard.Decode(events.Stored{Wire: events.Wire{Header: map[string][]string{
			events.HeaderID: piece("id-1"), events.HeaderType: piece("test.unknown.v1"), events.HeaderSubject: piece("msg-1"),
			events.HeaderTenantID: piece("id-1"), events.HeaderSource: piece("id-1"), events.HeaderNonce: piece("n-1"),
			events.HeaderGatewayID: piece("3EB0"), events.HeaderTraceParent: piece("id-1"),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, rec.Envelope)
	}
	if grown := int64(heap()) - int64(before); grown > n*size/4 {
		t.Errorf("%d envelopes hold %d MiB", n, grown>>20)
	}
	runtime.KeepAlive(kept)
}
