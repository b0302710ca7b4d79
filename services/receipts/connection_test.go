package receipts

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// flap plays words of a gateway in virtual time and gives what was recorded, and when; the sweep looks every half second. It ends
// with the longest wait after the last word.
func flap(s Settings, words []Connection, each func(i int) time.Duration) (wires []string, at []time.Time, took time.Duration) {
	begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	now := begin
	i := &instanceState{}
	look := func() {
		if wire, _, ok := i.due(now, s); ok {
			i.change(wire, i.saidBy.Sequence, now, s)
			i.recorded, i.recordedAt, i.recordedBy = wire, i.saidAt, i.saidBy.Sequence
			wires, at = append(wires, wire), append(at, now)
		}
	}
	sweep := now
	until := func(end time.Time) {
		for ; sweep.Before(end); sweep = sweep.Add(s.Sweep) {
			now = sweep
			look()
		}
		now = end
	}
	for n, w := range words {
		until(now.Add(each(n)))
		i.said, i.saidAt, i.saidBy = w, now, events.Position{Sequence: uint64(n + 1)}
		look()
	}
	took = now.Sub(begin)
	until(now.Add(s.DebounceMax + s.Sweep))
	return wires, at, took
}

// C2 42: a connection that flaps 2,000 times in some minutes is a handful of events, and ends as what it is.
func TestC2FlappingIsAHandfulOfEvents(t *testing.T) {
	t.Parallel()
	s := Settings{}.withDefaults()
	words := make([]Connection, 2000)
	for i := range words {
		words[i] = []Connection{ConnectionOpen, ConnectionClosed}[i%2]
	}
	wires, at, took := flap(s, words, func(int) time.Duration { return 100 * time.Millisecond })
	if took != 200*time.Second || len(wires) > 7 || len(wires) < 2 {
		t.Errorf("%d events in %s, at %v", len(wires), took, at)
	}
	if wires[len(wires)-1] != events.TypeInstanceClosed {
		t.Errorf("ends as %s", wires[len(wires)-1])
	}
}

// C2 42: an operator's resume ends what the gateway called closed. What it says from then on is recorded, also when it is the same word; what
// it said before is not, and a resume of what is open changes nothing.
func TestC2AResumeMakesClosedNewsAgain(t *testing.T) {
	t.Parallel()
	s := Settings{}.withDefaults()
	begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	at := func(minute int) time.Time { return begin.Add(time.Duration(minute) * time.Minute) }
	i := &instanceState{}
	log := func(wire string, minute int) {
		i.learn(events.Recorded{Event: events.Event{Envelope: events.Envelope{Type: wire}}, Stored: at(minute)}, s)
	}
	say := func(c Connection, minute int) (wire string) {
		i.said, i.saidAt, i.saidBy = c, at(minute), events.Position{Sequence: uint64(minute)}
		wire, _, ok := i.due(at(minute), s)
		if !ok {
			return ""
		}
		return wire
	}
	if w := say(ConnectionClosed, 1); w != events.TypeInstanceClosed {
		t.Fatalf("recorded %q", w)
	}
	log(events.TypeInstanceClosed, 1)
	if w := say(ConnectionClosed, 2); w != "" {
		t.Errorf("the same word again is recorded: %q", w)
	}
	log(events.TypeInstanceResumed, 3)
	if w, _, ok := i.due(at(4), s); ok {
		t.Errorf("a word from before the resume is recorded: %q", w)
	}
	if w := say(ConnectionClosed, 5); w != events.TypeInstanceClosed {
		t.Errorf("still closed, after a resume: recorded %q", w)
	}
	log(events.TypeInstanceOpened, 6)
	log(events.TypeInstanceResumed, 7)
	if w := say(ConnectionOpen, 8); w != "" {
		t.Errorf("a resume of what is open makes %q news", w)
	}
}

// A single change is recorded at once; whatever is said: no word twice, no two changes closer than Debounce, and within the longest wait
// after the last word the log says what the gateway says.
func TestWhatIsSaidSettles(t *testing.T) {
	t.Parallel()
	s := Settings{}.withDefaults()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]Connection{ConnectionOpen, ConnectionClosed}), 1, 60).Draw(t, "words")
		waits := rapid.SliceOfN(rapid.Int64Range(1, int64(2*time.Minute)), len(words), len(words)).Draw(t, "waits")
		wires, at, _ := flap(s, words, func(i int) time.Duration { return time.Duration(waits[i]) })
		last := events.TypeInstanceClosed
		if words[len(words)-1] == ConnectionOpen {
			last = events.TypeInstanceOpened
		}
		if len(wires) == 0 || wires[len(wires)-1] != last {
			t.Fatalf("%v after %v", wires, words)
		}
		for i := range wires[1:] {
			if wires[i+1] == wires[i] || at[i+1].Sub(at[i]) < s.Debounce {
				t.Fatalf("%s at %v, then %s at %v", wires[i], at[i], wires[i+1], at[i+1])
			}
		}
	})
	calm, at, _ := flap(s, []Connection{ConnectionOpen, ConnectionClosed, ConnectionOpen}, func(int) time.Duration { return time.Hour })
	if len(calm) != 3 || at[1].Sub(at[0]) != time.Hour || at[2].Sub(at[1]) != time.Hour {
		t.Errorf("%v at %v: a change after a long calm waits", calm, at)
	}
}
