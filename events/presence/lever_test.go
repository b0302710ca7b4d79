package presence_test

import (
	"testing"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
)

func TestLevers(t *testing.T) {
	t.Parallel()
	const (
		closed, parked          = events.TypeInstanceClosed, events.TypeInstanceParked
		paused, resumed, drains = events.TypeInstancePaused, events.TypeInstanceResumed, events.TypeInstanceDraining
	)
	for name, c := range map[string]struct {
		log    []string
		lever  presence.Lever
		needed bool
		code   events.Code
	}{
		"pause":                    {nil, presence.LeverPause, true, ""},
		"pause again":              {[]string{paused}, presence.LeverPause, false, ""},
		"pause in a drain":         {[]string{drains}, presence.LeverPause, true, ""},
		"drain":                    {nil, presence.LeverDrain, true, ""},
		"drain again":              {[]string{drains}, presence.LeverDrain, false, ""},
		"drain what is paused":     {[]string{paused}, presence.LeverDrain, false, presence.CodePaused},
		"resume":                   {[]string{paused}, presence.LeverResume, true, ""},
		"resume a drain":           {[]string{drains}, presence.LeverResume, true, ""},
		"resume what is parked":    {[]string{parked}, presence.LeverResume, true, ""},
		"resume what is closed":    {[]string{closed}, presence.LeverResume, true, ""},
		"resume what was closed":   {[]string{closed, resumed}, presence.LeverResume, false, ""},
		"resume what runs":         {[]string{paused, resumed}, presence.LeverResume, false, ""},
		"unpark":                   {[]string{parked, paused}, presence.LeverUnpark, true, ""},
		"unpark what is not":       {[]string{paused}, presence.LeverUnpark, false, ""},
		"a lever that there isn't": {nil, "push", false, events.CodeNotFound},
	} {
		needed, err := fold(c.log...).Pull(c.lever)
		if needed != c.needed || events.CodeOf(err) != c.code {
			t.Errorf("%s: needed %v, %v", name, needed, err)
		}
	}
	if _, _, ok := presence.Lever("push").Word(); ok {
		t.Error("a word of no lever")
	}
}

// Who asks for the newest of each word only knows the same of who holds the instance.
func TestTheNewestOfEachWordIsEnough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.SliceOfN(rapid.SampledFrom(presence.Words()), 0, 12).Draw(t, "log")
		last := map[string]int{}
		var all, newest presence.State
		for i, w := range log {
			last[w] = i
			all = all.Apply(event(uint64(i+1), "instance."+w+".v1"))
		}
		for i, w := range log {
			if last[w] == i {
				newest = newest.Apply(event(uint64(i+1), "instance."+w+".v1"))
			}
		}
		all.Since, newest.Since, all.Park.Since, newest.Park.Since = begin, begin, begin, begin // of repeats it keeps the first
		if all != newest {
			t.Fatalf("%+v, of all %+v", newest, all)
		}
	})
}

// Whatever was said before: a lever that was pulled needs no second pull, and what it asks for holds.
func TestALeverPulledHolds(t *testing.T) {
	t.Parallel()
	wires := []string{
		events.TypeInstanceOpened, events.TypeInstanceClosed, events.TypeInstanceParked, events.TypeInstancePaused,
		events.TypeInstanceResumed, events.TypeInstanceDraining, events.TypeInstanceUnparked,
	}
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.SliceOfN(rapid.SampledFrom(wires), 0, 8).Draw(t, "log")
		l := rapid.SampledFrom(presence.Levers()).Draw(t, "lever")
		needed, err := fold(log...).Pull(l)
		if err != nil {
			return
		}
		if needed {
			wire, _, _ := l.Word()
			log = append(log, wire)
		}
		s := fold(log...)
		if again, err := s.Pull(l); again || err != nil {
			t.Fatalf("%s is needed again after %v: %v", l, log, err)
		}
		held := map[presence.Lever]bool{
			presence.LeverPause: s.Paused, presence.LeverDrain: s.Draining, presence.LeverUnpark: !s.Parked,
			presence.LeverResume: !s.Paused && !s.Draining && !s.Parked && s.Connection != presence.Closed,
		}
		if !held[l] {
			t.Fatalf("%s after %v: %+v", l, log, s)
		}
	})
}
