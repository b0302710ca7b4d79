package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/forecast"
)

type fakeLoads func(instance string) (forecast.Load, bool)

func (f fakeLoads) Load(_ context.Context, _ events.Partition, instance string) (forecast.Load, bool) {
	return f(instance)
}

// The 202 says when the message is expected to leave, and says nothing where nothing can be said; rejectIfLate refuses only what is
// known to be late, and nothing is appended then.
func TestForecast(t *testing.T) {
	t.Parallel()
	busy := forecast.Load{Waiting: map[events.Class]int{events.ClassUtility: 30}, Turn: 2 * time.Second}
	for name, tt := range map[string]struct {
		load    forecast.Load
		unknown bool
		more    string
		want    string // expectedDispatchAt; empty: absent
		refused bool
	}{
		"at rest":                             {want: stamp(clock)},
		"a backlog":                           {load: busy, want: stamp(clock.Add(time.Minute))},
		"in time":                             {load: busy, more: `,"rejectIfLate":true`, want: stamp(clock.Add(time.Minute))},
		"late, and nobody minds":              {load: busy, more: `,"deliverUntil":"` + stamp(clock.Add(59*time.Second)) + `"`, want: stamp(clock.Add(time.Minute))},
		"late":                                {load: busy, more: `,"rejectIfLate":true,"deliverUntil":"` + stamp(clock.Add(time.Minute)) + `"`, refused: true},
		"late, urgent":                        {load: busy, more: `,"urgent":true,"rejectIfLate":true,"deliverUntil":"` + stamp(clock.Add(time.Minute)) + `"`, want: stamp(clock)},
		"paused: nobody knows":                {load: forecast.Load{Held: true}, more: `,"rejectIfLate":true`},
		"no report":                           {unknown: true, more: `,"rejectIfLate":true`},
		"a backlog of which no turn was seen": {load: forecast.Load{Waiting: busy.Waiting}, more: `,"rejectIfLate":true`},
		"scheduled":                           {load: busy, more: `,"rejectIfLate":true,"deliverAt":"` + stamp(clock.Add(time.Hour)) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.loads = fakeLoads(func(string) (forecast.Load, bool) { return tt.load, !tt.unknown })
			f.start()
			r := f.send(ownKey, `{"destinationNumber":"+5511987654321","text":"Hello"`+tt.more+`}`)
			if tt.refused {
				wantCode(t, r, CodeCannotDeliverInTime)
				if r.status != http.StatusConflict || !strings.Contains(string(r.body), `"expectedDispatchAt":"`+stamp(clock.Add(time.Minute))+`"`) || len(f.events()) > 0 {
					t.Errorf("status %d, %d appended: %s", r.status, len(f.events()), r.body)
				}
				return
			}
			if r.status != http.StatusAccepted {
				t.Fatalf("status %d: %s", r.status, r.body)
			}
			got, _ := r.member(t, "expectedDispatchAt").(string)
			if got != tt.want {
				t.Errorf("expectedDispatchAt %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRejectIfLateIsAFlag(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	r := f.send(ownKey, `{"destinationNumber":"+5511987654321","text":"Hello","rejectIfLate":"yes"}`)
	wantCode(t, r, events.CodeValidation)
	if !strings.Contains(string(r.body), `"rejectIfLate"`) {
		t.Errorf("%s", r.body)
	}
}
