package quota_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"pilotstatus.dev/events"
	quotas "pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/streamtest"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/services/quota"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "acme"

// november is a window that has no place left after limit messages.
func november(limit int) quotas.Window {
	return quotas.At(quotas.Month, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), time.UTC, limit)
}

type rig struct {
	*streamtest.Log
	records *quota.Records
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigOf(t, eventlog.Options{})
}

func newRigOf(t *testing.T, opts eventlog.Options) *rig {
	t.Helper()
	r := &rig{Log: streamtest.New(t, 2, opts)}
	r.records = quota.NewRecords(r.Events, zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.records.Run(ctx) }) // it ends with its context
	t.Cleanup(func() { cancel(); running.Wait() })
	return r
}

func (r *rig) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	return r.JetStream.KeyValue(ctx, topology.BucketQuota)
}

func (r *rig) book() *quota.Book { return quota.NewBook(r.Events, r.records, zerolog.Nop()) }

func (r *rig) total(t *testing.T, w quotas.Window) int64 {
	t.Helper()
	n, err := r.Events.Counted(t.Context(), events.QuotaSubject(tenant, w.Name))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
