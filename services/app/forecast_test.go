package app

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/forecast"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/streamtest"
)

// The API knows what a dispatcher noted a moment ago, and nothing once that is old: a stale figure would be a lie.
func TestLoadsAreKnownWhileTheyAreNoted(t *testing.T) {
	t.Parallel()
	w := streamtest.New(t, 1, eventlog.Options{Logger: zerolog.Nop()})
	now := time.Now()
	l := newAPILoads(w.Leases, zerolog.Nop())
	l.now = func() time.Time { return now }
	waiting := func() (int, bool) {
		load, ok := l.Load(t.Context(), 0, "inst-1")
		return load.Waiting[events.ClassOTP], ok
	}
	note := func(n int, ttl time.Duration) {
		t.Helper()
		raw, err := forecast.Report{
			At: now, Dispatcher: "d1", Serving: []string{"d1"},
			Instances: map[string]forecast.Load{"inst-1": {Waiting: map[events.Class]int{events.ClassOTP: n}}},
		}.Encode()
		if err == nil {
			err = w.Leases.Note(t.Context(), forecast.Key(0, "d1"), raw, ttl)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want int, known bool) {
		t.Helper()
		if n, ok := waiting(); n != want || ok != known {
			t.Errorf("%s: %d %v", what, n, ok)
		}
	}
	check("before the first note", 0, false)
	note(7, time.Minute)
	check("asked a moment ago", 0, false)
	now = now.Add(loadsFresh)
	check("noted", 7, true)
	note(9, time.Minute)
	check("asked a moment ago", 7, true)
	now = now.Add(loadsFresh)
	check("asked again", 9, true)
	if load, ok := l.Load(t.Context(), 0, "inst-2"); !ok || !load.Rest(now) {
		t.Errorf("an instance that is not listed is at rest: %+v %v", load, ok)
	}
	w.Conn.Close() // the log is away
	now = now.Add(loadsFresh)
	check("not old yet", 9, true)
	now = now.Add(loadsOld)
	check("old", 0, false)
}
