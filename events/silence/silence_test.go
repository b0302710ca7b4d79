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
		"fresh":                              {events.StageDispatched, false, NotAsked, 15*time.Minute - 1, Wait},
		"late, to be asked":                  {events.StageDispatched, false, NotAsked, 15 * time.Minute, Ask},
		"late, the gateway showed nothing":   {events.StageDispatched, false, Silent, 15 * time.Minute, Overdue},
		"late, the gateway showed a receipt": {events.StageDispatched, false, Spoke, 16 * time.Minute, Wait},
		"late, nobody to ask":                {events.StageDispatched, false, Mute, 15 * time.Minute, Overdue},
		"nobody had the time to ask":         {events.StageDispatched, false, NotAsked, 2 * day, Ask},
		"it was said":                        {events.StageDispatched, false, Said, 16 * time.Minute, Wait},
		"raised":                             {events.StageDispatched, true, NotAsked, 2 * day, Wait},
		"sent is not overdue":                {events.StageSent, false, NotAsked, 2 * day, Wait},
		"sent, the window ends":              {events.StageSent, false, NotAsked, 7 * day, Ask},
		"sent, nothing shown":                {events.StageSent, false, Silent, 7 * day, Unconfirmed},
		"raised, the window ends":            {events.StageDispatched, true, NotAsked, 7 * day, Ask},
		"raised, nothing shown":              {events.StageDispatched, true, Silent, 7*day + 1, Unconfirmed},
		"delivered":                          {events.StageDelivered, false, Silent, 8 * day, Wait},
		"failed":                             {events.StageFailed, false, Silent, 8 * day, Wait},
		"unknown waits for its deadline":     {events.StageUnconfirmed, false, Mute, 8 * day, Wait},
	} {
		m := Message{Stage: tt.stage, LeftAt: left, Raised: tt.raised, Asking: tt.asking}
		if got := r.Next(m, left.Add(tt.age)); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	for name, tt := range map[string]struct {
		age, failing time.Duration
		want         Step
	}{
		"no question failed yet":             {8 * day, -1, Wait},
		"failing for a moment, due long ago": {8 * day, 0, Wait},
		"failing for almost an hour":         {8 * day, time.Hour - 1, Wait},
		"failing for an hour":                {8 * day, time.Hour, Unconfirmed},
		"failing for long, due just now":     {7 * day, day, Wait},
		"failing for long, due for an hour":  {7*day + time.Hour, day, Unconfirmed},
		"the same, of an acknowledgement":    {75 * time.Minute, 3 * time.Hour, Overdue},
		"and a moment before":                {75*time.Minute - 1, 3 * time.Hour, Wait},
	} {
		m := Message{Stage: events.StageDispatched, LeftAt: left, Asking: Unanswered}
		if tt.failing >= 0 {
			m.FailingAt = left.Add(tt.age - tt.failing)
		}
		if got := r.Next(m, left.Add(tt.age)); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	if got := r.Next(Message{Stage: events.StageSent, LeftAt: left, Asking: Mute, Corrected: true}, left.Add(8*day)); got != Wait {
		t.Errorf("it was corrected, and is never failed again: %d", got)
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
			Raised: rapid.Bool().Draw(t, "raised"), Asking: rapid.SampledFrom([]Asking{Unanswered, Silent, Mute}).Draw(t, "asking"),
			FailingAt: left.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "fails from"))),
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
		if now.Sub(left) >= max(r.Delivery, 100)+r.AskFor && r.Next(m, now) != Unconfirmed {
			t.Fatalf("%+v does not end", m)
		}
	})
}
