package quota_test

import (
	"encoding/json"
	"testing"
	"time"

	"pilotstatus.dev/events"
	quotas "pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
)

// Case C3: the server beats and brings nothing. A refund is seen without a restart.
func TestC3RefundsAreSeenThoughNothingIsBrought(t *testing.T) {
	t.Parallel()
	stuck := make(chan string, 8)
	r := newRigOf(t, eventlog.Options{Stuck: 200 * time.Millisecond, OnStuck: func(stream string) { stuck <- stream }})
	w := november(3)
	refund := func(p events.Partition, n int64) {
		t.Helper()
		kv, err := r.bucket(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		value, err := json.Marshal(quotas.Record{Accepted: n, Refunded: n, Sequence: 7})
		if err == nil {
			_, err = kv.Put(t.Context(), tenant+"."+w.Name+"."+p.String(), value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := func(n int64) {
		t.Helper()
		awaittest.Eventually(t, 30*time.Second, 5*time.Millisecond, "the refund", func() bool { return r.records.Refunded(tenant, w.Name) == n }, nil)
	}
	refund(0, 1)
	seen(1)
	stream, err := r.JetStream.Stream(t.Context(), "KV_"+topology.BucketQuota)
	if err != nil {
		t.Fatal(err)
	}
	names := stream.ConsumerNames(t.Context())
	for name := range names.Name() { // held up at the server, as one that has forgotten to deliver
		if _, err := stream.PauseConsumer(t.Context(), name, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	refund(1, 2)
	seen(3)
	if got := <-stuck; got != "KV_"+topology.BucketQuota || len(stuck) > 0 {
		t.Errorf("stuck: %s, and %d more", got, len(stuck))
	}
}
