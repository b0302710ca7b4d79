package quota_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/quota"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// C2: months and days are those of the tenant's clock, at the edge of both and over a change of the clock.
func TestWindowsFollowTheTenantsClock(t *testing.T) {
	t.Parallel()
	saoPaulo, newYork := zone(t, quota.DefaultZone), zone(t, "America/New_York")
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		kind           quota.Kind
		at             string
		zone           *time.Location
		name           string
		begins, resets string
	}{
		{quota.Month, "2026-12-01T02:59:59Z", saoPaulo, "m-2026-11", "2026-11-01T03:00:00Z", "2026-12-01T03:00:00Z"},
		{quota.Month, "2026-12-01T03:00:00Z", saoPaulo, "m-2026-12", "2026-12-01T03:00:00Z", "2027-01-01T03:00:00Z"},
		{quota.Day, "2026-11-30T02:59:59Z", saoPaulo, "d-2026-11-29", "2026-11-29T03:00:00Z", "2026-11-30T03:00:00Z"},
		{quota.TestDay, "2026-11-30T03:00:00Z", saoPaulo, "t-2026-11-30", "2026-11-30T03:00:00Z", "2026-12-01T03:00:00Z"},
		// The day of 25 hours, and the one of 23.
		{quota.Day, "2026-11-01T05:30:00Z", newYork, "d-2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{quota.Day, "2026-03-08T12:00:00Z", newYork, "d-2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
	} {
		w := quota.At(c.kind, at(c.at), c.zone, 7)
		if w.Name != c.name || !w.Begins.Equal(at(c.begins)) || !w.Resets.Equal(at(c.resets)) || w.Limit != 7 {
			t.Errorf("%s at %s: %+v", c.kind, c.at, w)
		}
	}
}

func TestOfCountsWhereThePlanLimits(t *testing.T) {
	t.Parallel()
	free := events.Plan{Month: 200, Day: 50, TestDay: 100}
	now := time.Date(2026, 11, 29, 15, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		plan    events.Plan
		month   int
		env     events.Environment
		profile bool
		want    []string
	}{
		"LIVE of a free plan":     {free, 300, events.Live, false, []string{"m-2026-11", "d-2026-11-29"}},
		"LIVE to a profile":       {free, 200, events.Live, true, []string{"m-2026-11", "d-2026-11-29"}},
		"LIVE without day":        {events.Plan{Month: 5}, 5, events.Live, false, []string{"m-2026-11"}},
		"LIVE without any limit":  {events.Plan{}, 0, events.Live, false, nil},
		"TEST":                    {free, 200, events.Test, false, []string{"t-2026-11-29"}},
		"TEST to a profile":       {free, 200, events.Test, true, nil},
		"TEST without any limits": {events.Plan{}, 0, events.Test, false, nil},
	} {
		var got []string
		for _, w := range quota.Of(c.plan, c.month, c.env, c.profile, now, time.UTC) {
			got = append(got, w.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s counts in %v, want %v", name, got, c.want)
		}
	}
}

// P11: whatever order reservations, give-backs, refunds and news of refunds come in, what is accepted and not refunded never
// exceeds the limit.
func TestAcceptedNeverExceedsTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		var total, accepted, refunded, known int64
		var over []int64 // refused, still to be given back
		pending := 0     // added, its total not yet looked at
		var totals []int64
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				total++
				totals = append(totals, total)
				pending++
			case 1: // one of those who added looks at its total
				if pending > 0 {
					i := rapid.IntRange(0, len(totals)-1).Draw(t, "who")
					if quota.Fits(totals[i], known, limit) {
						accepted++
					} else {
						over = append(over, totals[i])
					}
					totals = slices.Delete(totals, i, i+1)
					pending--
				}
			case 2:
				if len(over) > 0 {
					total--
					over = over[1:]
				}
			case 3:
				if accepted > refunded {
					refunded++
				}
			case 4:
				known = refunded
			}
			if accepted-refunded > int64(limit) {
				t.Fatalf("%d accepted and %d refunded of %d", accepted, refunded, limit)
			}
		}
	})
}

func TestCorrection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counted, accepted int64
		quiet             bool
		want              int64
	}{
		{5, 5, true, 0},
		{5, 5, false, 0},
		{7, 5, true, -2}, // two died with a place in their hands
		{7, 5, false, 0}, // or are about to append
		{3, 5, true, 2},
		{3, 5, false, 2}, // accepted while there was no limit
	} {
		if got := quota.Correction(c.counted, c.accepted, c.quiet); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
