package presence_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var begin = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func event(seq uint64, wire string) events.Recorded {
	return events.Recorded{
		Event:    events.Event{Envelope: events.Envelope{Type: wire, Time: begin.Add(time.Duration(seq) * time.Second)}, Body: body(wire)},
		Position: events.Position{Sequence: seq}, Known: true,
	}
}

func body(wire string) any {
	if wire == events.TypeMessageQueued {
		return &events.MessageQueued{}
	}
	return &events.InstanceChanged{By: "operator:ana", Reason: "test", Scope: "instance"}
}

func fold(wires ...string) (s presence.State) {
	for i, w := range wires {
		s = s.Apply(event(uint64(i+1), w))
	}
	return s
}

func TestStates(t *testing.T) {
	t.Parallel()
	const (
		opened, closed, parked  = events.TypeInstanceOpened, events.TypeInstanceClosed, events.TypeInstanceParked
		paused, resumed, drains = events.TypeInstancePaused, events.TypeInstanceResumed, events.TypeInstanceDraining
	)
	at := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	since := func(n int) presence.Word {
		return presence.Word{Since: at(n), By: "operator:ana", Reason: "test", Scope: "instance"}
	}
	for name, c := range map[string]struct {
		log  []string
		want presence.State
	}{
		"nothing":                  {nil, presence.State{}},
		"connected":                {[]string{opened}, presence.State{Sequence: 1, Connection: presence.Open, Since: at(1)}},
		"said twice":               {[]string{closed, closed}, presence.State{Sequence: 2, Connection: presence.Closed, Since: at(1)}},
		"parked":                   {[]string{opened, parked}, presence.State{Sequence: 2, Connection: presence.Open, Since: at(1), Parked: true, Park: since(2)}},
		"a connection ends a park": {[]string{parked, opened}, presence.State{Sequence: 2, Connection: presence.Open, Since: at(2)}},
		"parked twice":             {[]string{parked, parked}, presence.State{Sequence: 2, Parked: true, Park: since(1)}},
		"an operator ends a park":  {[]string{closed, parked, events.TypeInstanceUnparked}, presence.State{Sequence: 3, Connection: presence.Closed, Since: at(1)}},
		"a resume ends a park":     {[]string{parked, resumed}, presence.State{Sequence: 2}},
		"a resume ends a close":    {[]string{closed, resumed}, presence.State{Sequence: 2, Since: at(2)}},
		"closed once more":         {[]string{closed, resumed, closed}, presence.State{Sequence: 3, Connection: presence.Closed, Since: at(3)}},
		"a resume of what is open": {[]string{opened, paused, resumed}, presence.State{Sequence: 3, Connection: presence.Open, Since: at(1)}},
		"a pause outlives a park":  {[]string{parked, paused, opened}, presence.State{Sequence: 3, Connection: presence.Open, Since: at(3), Paused: true, Pause: since(2)}},
		"paused":                   {[]string{drains, paused}, presence.State{Sequence: 2, Paused: true, Pause: since(2)}},
		"a drain ends a pause":     {[]string{paused, drains}, presence.State{Sequence: 2, Draining: true, Drain: since(2)}},
		"resumed":                  {[]string{paused, drains, resumed}, presence.State{Sequence: 3}},
		"another event":            {[]string{paused, events.TypeMessageQueued}, presence.State{Sequence: 1, Paused: true, Pause: since(1)}},
	} {
		if got := fold(c.log...); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestClosedFor(t *testing.T) {
	t.Parallel()
	s := fold(events.TypeInstanceOpened, events.TypeInstanceClosed)
	if s.ClosedFor(time.Minute, s.Since.Add(59*time.Second)) || !s.ClosedFor(time.Minute, s.Since.Add(time.Minute)) {
		t.Error("a minute is a minute")
	}
	if fold().ClosedFor(0, begin) || fold(events.TypeInstanceOpened).ClosedFor(0, begin.Add(time.Hour)) {
		t.Error("only what is known to be closed is")
	}
}

// Repeats and old events change nothing.
func TestRepeatsChangeNothing(t *testing.T) {
	t.Parallel()
	wires := []string{
		events.TypeInstanceOpened, events.TypeInstanceClosed, events.TypeInstanceParked, events.TypeInstancePaused,
		events.TypeInstanceResumed, events.TypeInstanceDraining, events.TypeInstanceUnparked,
	}
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.SliceOfN(rapid.SampledFrom(wires), 1, 10).Draw(t, "log")
		want := fold(log...)
		got := presence.State{}
		for i, w := range log {
			got = got.Apply(event(uint64(i+1), w))
			back := rapid.IntRange(0, i).Draw(t, "again")
			got = got.Apply(event(uint64(back+1), log[back]))
		}
		if got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}
