package api

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

type fakeFigures func(s Scope, bounds []time.Time) ([]map[events.Status]int, error)

func (f fakeFigures) Counts(_ context.Context, s Scope, bounds []time.Time) ([]map[events.Status]int, error) {
	return f(s, bounds)
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var bounds []time.Time
	var scope Scope
	f.reads.figures = func(s Scope, b []time.Time) ([]map[events.Status]int, error) {
		scope, bounds = s, b
		out := make([]map[events.Status]int, len(b)-1)
		out[0] = map[events.Status]int{events.StatusSent: 3, events.StatusRead: 1, events.StatusQueued: 9}
		out[1] = map[events.Status]int{events.StatusSent: 1, events.StatusDelivered: 2, events.StatusCanceled: 4}
		out[len(out)-1] = map[events.Status]int{events.StatusRead: 3, events.StatusFailed: 1, events.StatusQueued: 5}
		return out, nil
	}
	f.start()
	r := f.get("/api/v1/analytics/dashboard?period=7d&timezone=America/Sao_Paulo", liveKey)
	var got Dashboard
	if err := json.Unmarshal(r.body, &got); err != nil || r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	want := Dashboard{
		TotalSent: 6, TotalFailed: 1, SentPercentChange: 50, FailedPercentChange: 100, FailureRate: 14.3,
		DailyMessages: []DayCount{
			{Date: "2026-11-23", Count: 7},
			{Date: "2026-11-24"},
			{Date: "2026-11-25"},
			{Date: "2026-11-26"},
			{Date: "2026-11-27"},
			{Date: "2026-11-28"},
			{Date: "2026-11-29", Count: 9},
		},
		StatusDistribution: StatusDistribution{Queued: 5, Sent: 3, Failed: 1, Read: 3},
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(Dashboard{}, DayCount{}, StatusDistribution{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if scope != (Scope{Tenant: "acme", Project: "shop", Environment: events.Live}) || len(bounds) != 9 ||
		!bounds[0].Equal(time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC)) || !bounds[8].Equal(time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)) {
		t.Errorf("scope %+v, bounds %v", scope, bounds)
	}
	for query, days := range map[string]int{"": 30, "?period=90d&tz=UTC&timezone=nowhere": 90} {
		if r := f.get("/v1/analytics/dashboard"+query, liveKey); r.status != http.StatusOK || len(bounds) != days+2 {
			t.Errorf("%s: %d, %d bounds", query, r.status, len(bounds))
		}
	}
	for _, query := range []string{"period=1d", "tz=Nowhere/City", "tz=Local", "timezone=../../etc/passwd", "period=x&tz=y"} {
		wantCode(t, f.get("/v1/analytics/dashboard?"+query, liveKey), events.CodeValidation)
	}
}

// A day of a change to or from summer time has 23 or 25 hours, and the days stay whole.
func TestDashboardDays(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	bounds := dashboardBounds(time.Date(2026, 11, 3, 1, 0, 0, 0, zone), 7)
	hours := map[float64]int{}
	for i := 2; i < len(bounds); i++ {
		hours[bounds[i].Sub(bounds[i-1]).Hours()]++
	}
	if hours[24] != 6 || hours[25] != 1 {
		t.Errorf("hours of days: %v", hours)
	}
}

func TestDashboardOutage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.reads.figures = func(Scope, []time.Time) ([]map[events.Status]int, error) {
		return nil, events.Errorf(events.CodeUnavailable, "down")
	}
	wantCode(t, f.start().get("/v1/analytics/dashboard", liveKey), events.CodeUnavailable)
}
