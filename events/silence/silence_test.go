package silence

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var left = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestNext(t *testing.T) {
	t.Parallel()
	r := DefaultRules()
	day := 24 * time.Hour
	for name, tt := range map[string]struct {
		stage  events.Stage
		raised bool
		asking Asking
		age    time.Duration
		want   Step
	}{
		"fresh":                               {events.StageDispatched, false, NotAsked, 15*time.Minute - 1, Wait},
		"late, to be asked":                   {events.StageDispatched, false, NotAsked, 15 * time.Minute, Ask},
		"late, the gateway showed nothing":    {events.StageDispatched, false, Silent, 15 * time.Minute, Overdue},
		"late, the gateway showed a receipt":  {events.StageDispatched, false, Spoke, 16 * time.Minute, Wait},
		"late, nobody to ask":                 {events.StageDispatched, false, Mute, 15 * time.Minute, Overdue},
		"the gateway does not answer":         {events.StageDispatched, false, NotAsked, 75*time.Minute - 1, Ask},
		"the gateway did not answer for long": {events.StageDispatched, false, NotAsked, 75 * time.Minute, Overdue},
		"raised":                              {events.StageDispatched, true, NotAsked, 2 * day, Wait},
		"sent is not overdue":                 {events.StageSent, false, NotAsked, 2 * day, Wait},
		"sent, the window ends":               {events.StageSent, false, NotAsked, 7 * day, Ask},
		"sent, nothing shown":                 {events.StageSent, false, Silent, 7 * day, Unconfirmed},
		"raised, the window ends":             {events.StageDispatched, true, NotAsked, 7 * day, Ask},
		"raised, nothing shown":               {events.StageDispatched, true, Silent, 7*day + 1, Unconfirmed},
		"delivered":                           {events.StageDelivered, false, Silent, 8 * day, Wait},
		"failed":                              {events.StageFailed, false, Silent, 8 * day, Wait},
		"unknown waits for its deadline":      {events.StageUnconfirmed, false, Mute, 8 * day, Wait},
	} {
		m := Message{Stage: tt.stage, LeftAt: left, Raised: tt.raised, Asking: tt.asking}
		if got := r.Next(m, left.Add(tt.age)); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	if got := r.Next(Message{Stage: events.StageDispatched, Asking: Mute}, left); got != Wait {
		t.Errorf("it is not known when it left: %d", got)
	}
}

// Whatever is known, a receipt that breaks a silence leaves nothing to say, and silence never outlives its rules.
func TestEverySilenceEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Rules{Ack: time.Duration(rapid.IntRange(1, 100).Draw(t, "ack")), AskFor: time.Duration(rapid.IntRange(0, 100).Draw(t, "ask for"))}
		r.Delivery = r.Ack + time.Duration(rapid.IntRange(1, 100).Draw(t, "delivery"))
		m := Message{
			Stage: rapid.SampledFrom([]events.Stage{events.StageDispatched, events.StageSent}).Draw(t, "stage"), LeftAt: left,
			Raised: rapid.Bool().Draw(t, "raised"), Asking: rapid.SampledFrom([]Asking{NotAsked, Silent, Mute}).Draw(t, "asking"),
		}
		now := left.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "age")))
		due := r.Due(m, now)
		for _, s := range []events.Status{events.StatusSent, events.StatusDelivered, events.StatusRead, events.StatusFailed} {
			then := m
			then.Stage = After(m.Stage, s)
			if after := r.Due(then, now); due.Breaks(s) != (after != due && due != Wait) && due != Wait {
				t.Fatalf("%s breaks %d: %v, but then %d is due", s, due, due.Breaks(s), after)
			}
		}
		if now.Sub(left) >= r.Delivery+r.AskFor && r.Next(m, now) != Unconfirmed {
			t.Fatalf("%+v does not end", m)
		}
	})
}
