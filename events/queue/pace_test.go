package queue

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

func pacedRules(p events.Pacing) Rules {
	r := DefaultRules()
	r.Pace = p
	return r
}

func shared(p events.Pace) events.Pacing { return events.Instance{Shared: true, Pace: p}.Pacing() }
func own(p events.Pace) events.Pacing    { return events.Instance{Pace: p}.Pacing() }

func drawPacing(t *rapid.T) events.Pacing {
	p := events.Pace{
		RatePerMinute: rapid.SampledFrom([]float64{0, 0.7, 2, 60, 1200}).Draw(t, "rate"), Burst: rapid.IntRange(0, 5).Draw(t, "burst"),
		Jitter: rapid.SampledFrom([]float64{0, 0.2, events.MaxJitter}).Draw(t, "jitter"),
	}
	if rapid.Bool().Draw(t, "priced") {
		cost := rapid.SampledFrom([]float64{0, 0.1, 0.5, 1, 2})
		p.Costs = map[events.Category]float64{events.OTP: cost.Draw(t, "otp"), events.Utility: cost.Draw(t, "utility"), events.Marketing: 1}
	}
	return shared(p)
}

// left is one start of a run.
type left struct {
	id    string
	class events.Class
	at    time.Time
}

// drive lets a paced queue go as an actor does, in virtual time: it starts whoever is next and sleeps until it says that something may
// be due. arrive gives what is accepted at a time. It ends at the limit, or when nothing waits.
type drive struct {
	p     *tape
	q     *Queue
	rules Rules
	took  []left
	after func(id string, n int) // appends the outcome of a start; accepted when nil
}

func newDrive(rules Rules) *drive { return &drive{p: newTape(), q: New(instance, rules), rules: rules} }

func (d *drive) fold() {
	for d.p.seq > 0 && len(d.p.log) > 0 {
		d.q.Apply(d.p.log[0])
		d.p.log = d.p.log[1:]
	}
}

func (d *drive) accept(m msg) {
	d.p.queued(m)
	d.fold()
}

// run goes on until a time. Each time it looks at the queue it may be another one of the same log: swap gives it.
func (d *drive) run(t rapid.TB, until time.Time, swap func(*Queue) *Queue) {
	for steps := 0; d.p.now.Before(until); steps++ {
		if steps > 100_000 {
			t.Fatalf("it spins at %s", d.p.now)
		}
		if swap != nil {
			d.q = swap(d.q)
		}
		if s, ok := d.q.Next(d.p.now); ok {
			if h := d.q.MayStart(s.Entry.ID, d.p.now); h != HoldNone {
				t.Fatalf("%s is next and held: %s", s.Entry.ID, h)
			}
			d.took = append(d.took, left{s.Entry.ID, s.Entry.Lane.Class, d.p.now})
			id, n := s.Entry.ID, s.Attempt
			d.p.dispatch(id, "started", n, &events.DispatchStarted{}, nonce(fmt.Sprintf("%s %d %d", id, n, d.p.seq)))
			if d.after != nil {
				d.after(id, n)
			} else {
				d.p.accepted(id, n, "G-"+id)
			}
			d.fold()
			continue
		}
		wake := d.q.Wake(d.p.now)
		if wake.IsZero() || wake.After(until) {
			wake = until
		}
		d.p.now = wake
	}
}

// takeover is a successor that reads a snapshot.
func takeover(t *rapid.T, rules Rules) func(*Queue) *Queue {
	return func(q *Queue) *Queue {
		other, err := DecodeState(q.AppendState(nil), rules)
		if err != nil {
			t.Fatal(err)
		}
		other.ix.passed = q.ix.passed // whose turn it is among classes is no part of a state
		return other
	}
}

// Never more tokens are taken in any window than the bucket holds and what the shortest gap brings back in it, whoever is next, whatever
// a start costs, and however often another dispatcher takes over.
func TestPaceNeverTakesMoreThanBurstAndRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := pacedRules(drawPacing(t))
		d := newDrive(rules)
		var swap func(*Queue) *Queue
		if rapid.Bool().Draw(t, "takeovers") {
			swap = takeover(t, rules)
		}
		n := rapid.IntRange(1, 60).Draw(t, "messages")
		for i := range n {
			d.p.now = d.p.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "pause")) * rules.Pace.GapMin / 10)
			d.accept(msg{
				id: fmt.Sprintf("m%d", i), class: rapid.SampledFrom(events.Classes()).Draw(t, "class"), deliverUntil: after(1e7),
			})
			d.run(t, d.p.now.Add(1), swap)
		}
		d.run(t, after(1e6), swap)
		if len(d.took) != n {
			t.Fatalf("%d of %d had a turn", len(d.took), n)
		}
		for i := range d.took {
			sum := 0.0
			for _, s := range d.took[i:] {
				sum += rules.Pace.Cost(s.class.Category())
				window := s.at.Sub(d.took[i].at)
				if most := rules.Pace.Burst + float64(window)/float64(rules.Pace.GapMin); sum > most+1e-6 {
					t.Fatalf("%v tokens in %s, at most %v: %v", sum, window, most, d.took)
				}
			}
		}
	})
}

// With one token, two starts that cost it lie a gap of the drawn range apart: never less, and no more while something waits. The gaps
// differ, and everybody who reads the log finds the same.
func TestPaceGapsLieInTheirRange(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]events.Pacing{
		"a person's": shared(events.Pace{}),
		"own":        own(events.Pace{RatePerMinute: 60, Jitter: 0.3}),
		"exact":      own(events.Pace{RatePerMinute: 6}),
	} {
		d := newDrive(pacedRules(p))
		for i := range 100 {
			d.accept(msg{id: fmt.Sprintf("m%d", i), deliverUntil: after(1e7)})
		}
		d.run(t, after(1e6), nil)
		gaps := map[time.Duration]bool{}
		for i := 1; i < len(d.took); i++ {
			gap := d.took[i].at.Sub(d.took[i-1].at)
			gaps[gap] = true
			if gap < p.GapMin || gap > p.GapMax+time.Microsecond {
				t.Errorf("%s: a gap of %s", name, gap)
			}
		}
		if len(d.took) != 100 || (p.GapMin == p.GapMax) != (len(gaps) == 1) || (len(gaps) > 1 && len(gaps) < 90) {
			t.Errorf("%s: %d starts, %d different gaps", name, len(d.took), len(gaps))
		}
	}
	if p := shared(events.Pace{}); p.GapMin != 30*time.Second || p.GapMax != 46*time.Second {
		t.Errorf("a person's pace: %+v", p)
	}
}

// Whoever takes over finds the same next time: from a snapshot, from the log, in whatever order it came.
func TestPaceSurvivesATakeover(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := pacedRules(drawPacing(t))
		p := newTape()
		n := rapid.IntRange(1, 2*keptStarts).Draw(t, "starts")
		classes := rapid.SliceOfNDistinct(rapid.SampledFrom(events.Classes()), 1, 3, rapid.ID[events.Class]).Draw(t, "classes")
		for i := range n {
			id := fmt.Sprintf("m%d", i)
			p.queued(msg{id: id, class: rapid.SampledFrom(classes).Draw(t, "class")})
			p.now = p.now.Add(time.Duration(rapid.Int64Range(0, int64(rules.Pace.GapMax)).Draw(t, "gap")))
			p.started(id, 1)
			if rapid.Bool().Draw(t, "called") {
				p.accepted(id, 1, "G-"+id)
			} else {
				p.deferred(id, 1, 1, events.DispatchDeferred{Called: rapid.Bool().Draw(t, "wrote")})
			}
		}
		until := func(q *Queue) (out [3]time.Time) {
			for i, c := range []events.Category{events.OTP, events.Utility, events.Marketing} {
				out[i] = q.PacedUntil(c)
			}
			return out
		}
		live := New(instance, rules)
		for _, r := range p.log {
			live.Apply(r)
			live.Compact(r.Position.Sequence, r.Time)
		}
		want := until(live)
		if got := until(p.queue(rules)); got != want {
			t.Fatalf("from the log %v, live %v", got, want)
		}
		state := live.AppendState(nil)
		read, err := DecodeState(state, rules)
		if err != nil {
			t.Fatal(err)
		}
		if got := until(read); got != want || !bytes.Equal(state, read.AppendState(nil)) {
			t.Fatalf("from a snapshot %v, live %v", got, want)
		}
		mixed := New(instance, rules)
		for _, r := range rapid.Permutation(p.log).Draw(t, "order") {
			mixed.Apply(r)
		}
		if got := until(mixed); got != want {
			t.Fatalf("in another order %v, live %v", got, want)
		}
		if live.pace.len() > len(classes)*keptStarts {
			t.Fatalf("%d starts are kept", live.pace.len())
		}
	})
}

// What provably made no call gives its token back; what may have left does not.
func TestPaceGivesBackWhatWasNotCalled(t *testing.T) {
	t.Parallel()
	rules := pacedRules(own(events.Pace{RatePerMinute: 1}))
	for name, c := range map[string]struct {
		outcome func(p *tape)
		want    time.Time
	}{
		"open":               {func(*tape) {}, after(60)},
		"not called":         {func(p *tape) { p.deferred("m", 1, 1, events.DispatchDeferred{}) }, time.Time{}},
		"called and refused": {func(p *tape) { p.deferred("m", 1, 1, events.DispatchDeferred{Called: true}) }, after(60)},
		"unknown":            {func(p *tape) { p.unknown("m", 1) }, after(60)},
		"accepted":           {func(p *tape) { p.accepted("m", 1, "G") }, after(60)},
	} {
		p := newTape()
		p.queued(msg{id: "m"})
		p.started("m", 1)
		p.at(5)
		c.outcome(p)
		if got := p.queue(rules).PacedUntil(events.Utility); !got.Equal(c.want) {
			t.Errorf("%s: paced until %v, want %v", name, got, c.want)
		}
	}
}

// A change holds at once, for the gap that is running too: faster is due earlier, slower later, and what left by a faster pace is no debt.
func TestPaceChangesLive(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i := range 30 {
		id := fmt.Sprintf("m%d", i)
		p.queued(msg{id: id})
		p.started(id, 1)
		p.accepted(id, 1, "G-"+id)
		p.now = p.now.Add(10 * time.Millisecond)
	}
	last := p.now.Add(-10 * time.Millisecond)
	p.queued(msg{id: "next"})
	q := p.queue(DefaultRules())
	if until := q.PacedUntil(events.Utility); !until.IsZero() {
		t.Errorf("unpaced, and held until %v", until)
	}
	for _, c := range []struct {
		rate float64
		want time.Duration
	}{{1, time.Minute}, {2, 30 * time.Second}, {600, 100 * time.Millisecond}, {1, time.Minute}} {
		q.SetRules(pacedRules(own(events.Pace{RatePerMinute: c.rate})))
		if got := q.PacedUntil(events.Utility).Sub(last); got != c.want {
			t.Errorf("at %v a minute the next is due after %s, want %s", c.rate, got, c.want)
		}
		mustHold(t, q, "next", last.Add(c.want-1), HoldPace)
		mustHold(t, q, "next", last.Add(c.want), HoldNone)
		if wake := q.Wake(last.Add(c.want - 1)); !wake.Equal(last.Add(c.want)) {
			t.Errorf("it wakes at %v", wake)
		}
	}
	q.SetRules(DefaultRules())
	mustHold(t, q, "next", p.now, HoldNone)
}

// A bucket that was let rest holds its burst and no more, also when the starts it is computed from are not all that ever were.
func TestPaceBurst(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 3, keptStarts + 3} {
		p := own(events.Pace{RatePerMinute: 60, Burst: 4})
		d := newDrive(pacedRules(p))
		for i := range before {
			d.accept(msg{id: fmt.Sprintf("b%d", i), deliverUntil: after(1e7)})
		}
		d.run(t, after(1000), nil)
		d.took = nil
		for i := range 8 {
			d.accept(msg{id: fmt.Sprintf("m%d", i), deliverUntil: after(1e7)})
		}
		d.run(t, after(1100), nil)
		var got []time.Duration
		for _, s := range d.took {
			got = append(got, s.at.Sub(after(1000)))
		}
		want := []time.Duration{0, 0, 0, 0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %d: %s", before, diff)
		}
	}
}

// A message that waits for the pace spends no attempt, and ends at its deadline like any other.
func TestPaceIsNoAttempt(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	p.started("a", 1)
	p.accepted("a", 1, "G")
	p.queued(msg{id: "b", deliverUntil: after(20)})
	q := p.queue(pacedRules(shared(events.Pace{})))
	if s, ok := q.Next(after(19)); ok {
		t.Fatalf("%s is next", s.Entry.ID)
	}
	if c := q.Closes(after(20), 5); len(c) != 1 || c[0].Code != events.FailExpired {
		t.Errorf("ends %+v", c)
	}
}
