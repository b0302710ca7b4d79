package views_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/views"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := logtest.New(3)
	day := func(n int) time.Time { return logtest.Start.AddDate(0, 0, n) }
	for n, at := range []time.Time{day(-1).Add(-time.Millisecond), day(-1), day(0).Add(-time.Millisecond), day(0), day(2)} {
		accept(t, log, n+1, func(e *events.Event, _ *events.MessageQueued) { e.Time = at })
	}
	log.Append(t, "inst-a", logtest.About(events.TypeReceiptRead, log.ID(2), 0, &events.Receipt{At: day(0), ReceivedAt: day(0)}))
	project(t, pool, log)
	v := views.New(pool)
	bounds := []time.Time{day(-1), day(0), day(1), day(2)}
	got, err := v.Counts(t.Context(), scope("acme"), bounds)
	if err != nil {
		t.Fatal(err)
	}
	want := []map[events.Status]int{{events.StatusRead: 1, events.StatusQueued: 1}, {events.StatusQueued: 1}, {}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, s := range map[string]views.Scope{ // promise P12
		"other tenant":      {Tenant: "globex", Project: "project-acme", Environment: events.Live},
		"other project":     {Tenant: "acme", Project: "project-globex", Environment: events.Live},
		"other environment": {Tenant: "acme", Project: "project-acme", Environment: events.Test},
	} {
		got, err := v.Counts(t.Context(), s, bounds)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]map[events.Status]int{{}, {}, {}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
