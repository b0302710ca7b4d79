package views_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/views"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := sample(t)
	untouched := log.ID(3)
	log.Queued(t, untouched, "acme", "inst-a")
	log.Append(t, "inst-a", logtest.About(events.TypeDispatchClosed, "", 0, &events.DispatchClosed{
		Reason: events.ClosedCanceled, Messages: []events.ClosedMessage{{ID: log.ID(4), QueuedSeq: 12}, {ID: log.ID(5), QueuedSeq: 13}},
	}))
	log.Queued(t, log.ID(4), "acme", "inst-a")
	project(t, pool, log)
	v := views.New(pool)
	ids := []string{log.ID(4), "\x00", untouched, "nobody", log.ID(1), log.ID(2)}
	got, err := v.Records(t.Context(), scope("acme"), ids)
	if err != nil {
		t.Fatal(err)
	}
	var want []views.Record
	for _, n := range []int{1, 3, 4} {
		s := message.State{ID: log.ID(n)}
		for _, rec := range log.All() {
			s = s.Apply(rec)
		}
		want = append(want, views.Record{
			ID: log.ID(n), Position: s.Queued.Position, InstanceID: "inst-a", CreatedAt: s.Queued.At, DeliverAt: logtest.Start.Add(time.Minute),
			Checkpoint: uint64(len(log.All())), Facts: s.Record,
		})
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("records (-fold of the log +view):\n%s", diff)
	}
	for name, s := range map[string]views.Scope{
		"other tenant":      {Tenant: "globex", Project: "project-acme", Environment: events.Live},
		"other project":     {Tenant: "acme", Project: "project-globex", Environment: events.Live},
		"other environment": {Tenant: "acme", Project: "project-acme", Environment: events.Test},
		"empty":             {},
	} {
		if got, err := v.Records(t.Context(), s, ids); err != nil || len(got) != 0 {
			t.Errorf("%s sees %+v, %v", name, got, err)
		}
	}
}

// A fenced event of a newer version is kept, not folded: who decides by the record must hear of it.
func TestRecordsSayWhatTheProjectorCouldNotRead(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := sample(t)
	project(t, pool, log)
	_, err := pool.Exec(t.Context(), `UPDATE timeline SET event = 'dispatch.delegated', folded = false WHERE message_id = $1 AND event = 'dispatch.absent'`, log.ID(1))
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{1: true, 2: false} {
		tenant := map[int]string{1: "acme", 2: "globex"}[n]
		got, err := views.New(pool).Records(t.Context(), scope(tenant), []string{log.ID(n)})
		if err != nil || len(got) != 1 || got[0].Unreadable != want {
			t.Errorf("message %d: %+v, %v", n, got, err)
		}
	}
}

func TestRecordsWithoutPostgres(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	pool.Close()
	if _, err := views.New(pool).Records(t.Context(), scope("acme"), []string{"msg_1"}); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("error = %v", err)
	}
}
