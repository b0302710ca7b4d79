package events_test

import (
	"encoding/json"
	"testing"
	"time"

	"pilotstatus.dev/events"
)

func TestPacingFillsInTheDefaults(t *testing.T) {
	t.Parallel()
	human := events.Pacing{GapMin: 30 * time.Second, GapMax: 46 * time.Second, Burst: 1, OTP: 0.1, Utility: 1, Marketing: 1}
	with := func(f func(*events.Pacing)) events.Pacing {
		p := human
		f(&p)
		return p
	}
	for name, tt := range map[string]struct {
		inst events.Instance
		want events.Pacing
	}{
		"own":    {events.Instance{}, events.Pacing{}},
		"shared": {events.Instance{Shared: true}, human},
		"shared, codes are as dear": {
			events.Instance{Shared: true, Pace: events.Pace{Costs: map[events.Category]float64{events.OTP: 1}}},
			with(func(p *events.Pacing) { p.OTP = 1 }),
		},
		"shared, fast": {
			events.Instance{Shared: true, Pace: events.Pace{RatePerMinute: 60, Burst: 3}},
			with(func(p *events.Pacing) { p.GapMin, p.GapMax, p.Burst = time.Second, time.Second, 3 }),
		},
		"own, as before there were costs": {
			events.Instance{Pace: events.Pace{RatePerMinute: 2}},
			with(func(p *events.Pacing) { p.GapMin, p.GapMax, p.OTP = 30*time.Second, 30*time.Second, 1 }),
		},
		"own, with chance": {
			events.Instance{Pace: events.Pace{RatePerMinute: 2, Jitter: 0.5}},
			with(func(p *events.Pacing) { p.GapMin, p.GapMax, p.OTP = 15*time.Second, 45*time.Second, 1 }),
		},
		"own, only costs": {events.Instance{Pace: events.Pace{Costs: map[events.Category]float64{events.OTP: 0}}}, events.Pacing{}},
	} {
		if got := tt.inst.Pacing(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	slow := events.Instance{Pace: events.Pace{RatePerMinute: 1e-300}}.Pacing()
	if slow.GapMin <= 0 || slow.Free() {
		t.Errorf("an absurdly slow one: %+v", slow)
	}
	if p := (events.Pacing{Burst: 1, Utility: 3}); p.Cost(events.Utility) != 1 {
		t.Error("it could never start")
	}
	if g := human.Gap(0.5); g != human.Mean() || g != 38*time.Second {
		t.Errorf("the middle is %s, the mean %s", g, human.Mean())
	}
}

func TestOneCallAtATimeOnASharedNumber(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		inst events.Instance
		want int
	}{
		{events.Instance{}, 1},
		{events.Instance{Concurrency: 3, MaxConcurrency: 4}, 3},
		{events.Instance{Concurrency: 9, MaxConcurrency: 4}, 4},
		{events.Instance{Concurrency: 3, MaxConcurrency: 4, Shared: true}, 1},
	} {
		if got := tt.inst.CallsAtOnce(); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.inst, got, tt.want)
		}
	}
}

// A pace that was written before there was chance, costs and typing reads as it did.
func TestOlderInstancesReadAsTheyWere(t *testing.T) {
	t.Parallel()
	var i events.Instance
	if err := json.Unmarshal([]byte(`{"id":"a","shared":true,"pace":{"ratePerMinute":20,"burst":3}}`), &i); err != nil {
		t.Fatal(err)
	}
	if p := i.Pacing(); p.GapMin != 3*time.Second || p.GapMax != 3*time.Second || p.Burst != 3 || i.Typing != nil || !i.Types() {
		t.Errorf("%+v, typing %v", p, i.Types())
	}
	off := false
	if (events.Instance{}).Types() || (events.Instance{Shared: true, Typing: &off}).Types() {
		t.Error("typing where it was not wanted")
	}
}
