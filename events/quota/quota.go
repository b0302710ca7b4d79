// Package quota says in which windows of a plan a message counts, and when a count still fits.
//
// A window is a month or a day of the tenant's time zone. It has a counter in the log (QUOTA) that is added to before a message
// is accepted, and records of what was accepted and refunded that are folded from the log (docs/reference/quota.md). The package is
// pure: counters and records are numbers here.
package quota

import (
	"slices"
	"time"

	"pilotstatus.dev/events"
)

// DefaultZone is the time zone of tenants that name none.
const DefaultZone = "America/Sao_Paulo"

// Kind of a window: the first letter of its name.
type Kind string

// The kinds of windows.
const (
	Month   Kind = "m" // LIVE messages of a month
	Day     Kind = "d" // LIVE messages of a day
	TestDay Kind = "t" // TEST messages of a day
)

// Window is a stretch of time in which a tenant may send so many messages.
type Window struct {
	Kind   Kind
	Name   string    // as in subjects and in MessageQueued.QuotaWindows: "m-2026-11", "d-2026-11-29", "t-2026-11-29"
	Limit  int       // messages; 0 is no limit
	Begins time.Time // UTC
	Resets time.Time // UTC; when the next one begins
}

// MonthOf names the month of a time in a time zone, as packages do: "2026-11".
func MonthOf(at time.Time, zone *time.Location) string { return at.In(zone).Format("2006-01") }

// At gives the window of a kind at a time. limit is what the plan says.
func At(kind Kind, at time.Time, zone *time.Location, limit int) Window {
	local := at.In(zone)
	y, m, d := local.Date()
	w := Window{Kind: kind, Limit: limit}
	if kind == Month {
		w.Name = string(kind) + "-" + local.Format("2006-01")
		w.Begins, w.Resets = time.Date(y, m, 1, 0, 0, 0, 0, zone).UTC(), time.Date(y, m+1, 1, 0, 0, 0, 0, zone).UTC()
		return w
	}
	w.Name = string(kind) + "-" + local.Format("2006-01-02")
	w.Begins, w.Resets = time.Date(y, m, d, 0, 0, 0, 0, zone).UTC(), time.Date(y, m, d+1, 0, 0, 0, 0, zone).UTC()
	return w
}

// Of lists the windows with a limit in which a message accepted at a time counts. monthLimit is that of the plan with its packages
// (catalog.MonthLimit). A TEST message to a profile number of the tenant counts nowhere.
func Of(plan events.Plan, monthLimit int, env events.Environment, profile bool, at time.Time, zone *time.Location) []Window {
	var all []Window
	switch {
	case env == events.Live:
		all = []Window{At(Month, at, zone, monthLimit), At(Day, at, zone, plan.Day)}
	case !profile:
		all = []Window{At(TestDay, at, zone, plan.TestDay)}
	}
	return slices.DeleteFunc(all, func(w Window) bool { return w.Limit <= 0 })
}

// Record is what the log says of a window in one partition, as of a sequence: the later one of two holds.
type Record struct {
	Accepted int64  `json:"accepted"` // messages that count in it
	Refunded int64  `json:"refunded"` // of those, the ones that ended without any attempt that can have had effect
	Sequence uint64 `json:"sequence"` // of the partition
}

// Fits tells whether a reservation that made the counter total is within the limit. Refunds that are not known yet only make it
// refuse more: what is accepted and not refunded never exceeds the limit, since of the reservations that stand at most limit have
// a total of limit plus refunds or less.
func Fits(total, refunded int64, limit int) bool { return limit <= 0 || total-refunded <= int64(limit) }

// Used is what of a limit is taken, for who asks: never below zero.
func Used(total, refunded int64) int64 { return max(0, total-refunded) }

// Correction is what to add to a counter so that it says what the log says. accepted is what the log had of the window before
// counted was read. A counter that is below was not added to while the window had no limit. One that is above holds
// reservations that are still to be appended or given back; only when none can be (quiet: nobody has added to the counter for longer than a
// reservation lives, and accepted was read after that) is the rest what processes left behind that died with a place in their hands.
func Correction(counted, accepted int64, quiet bool) int64 {
	if counted < accepted || quiet {
		return accepted - counted
	}
	return 0
}
