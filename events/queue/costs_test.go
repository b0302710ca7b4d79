package queue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// Codes that cost nothing take nothing from the others, however many there are: what is paid leaves at its pace beside them.
func TestPaceFreeCodesTakeNothingFromOthers(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, time.Second} {
		d := newDrive(pacedRules(own(events.Pace{RatePerMinute: 1, Costs: map[events.Category]float64{events.OTP: 0}})))
		for i := range 100 {
			d.accept(msg{id: fmt.Sprintf("u%d", i), deliverUntil: after(1e7)})
		}
		codes := 0
		for at := every; at < 20*time.Minute; at += every {
			d.run(t, after(at.Seconds()), nil)
			d.accept(msg{id: fmt.Sprintf("o%d", codes), class: events.ClassOTP, deliverUntil: after(1e7)})
			codes++
		}
		others := 0
		for _, s := range d.took {
			if s.class != events.ClassOTP {
				if want := after(60 * float64(others)); !s.at.Equal(want) {
					t.Errorf("a code every %s: number %d left after %s, want %s", every, others, s.at.Sub(epoch), want.Sub(epoch))
				}
				others++
			}
		}
		if others != 20 || len(d.took) < others+codes-1 {
			t.Errorf("a code every %s: %d of %d codes and %d others in 20 minutes", every, len(d.took)-others, codes, others)
		}
	}
}

// What codes cost may change at any time, from nothing and to nothing, with more of them than are kept: others neither leave faster than
// the pace allows them nor starve, and codes keep to the pace while they cost something.
func TestPaceWhateverCodesCostBefore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		burst := rapid.IntRange(1, 4).Draw(t, "burst")
		price := func() events.Pacing {
			cost := rapid.SampledFrom([]float64{0, 0, 0.1, 0.5, 1}).Draw(t, "cost")
			return own(events.Pace{RatePerMinute: 60, Burst: burst, Jitter: 0.2, Costs: map[events.Category]float64{events.OTP: cost}})
		}
		d := newDrive(pacedRules(price()))
		for i := range 200 {
			d.accept(msg{id: fmt.Sprintf("u%d", i), deliverUntil: after(1e7)})
		}
		codes := 0
		for range rapid.IntRange(1, 4).Draw(t, "prices") {
			d.rules = pacedRules(price())
			d.q.SetRules(d.rules)
			if rapid.Bool().Draw(t, "takeover") {
				d.q = takeover(t, d.rules)(d.q)
			}
			begin, first := d.p.now, len(d.took)
			for range rapid.IntRange(1, 20).Draw(t, "seconds") {
				for range rapid.IntRange(0, 40).Draw(t, "codes") {
					codes++
					d.accept(msg{id: fmt.Sprintf("o%d", codes), class: events.ClassOTP, deliverUntil: d.p.now.Add(2 * time.Second)})
				}
				d.run(t, d.p.now.Add(time.Second), nil)
			}
			p, took, last := d.rules.Pace, d.took[first:], begin
			for i, s := range took {
				sum := 0.0
				for _, o := range took[i:] {
					sum += p.Cost(o.class.Category())
					if most := p.Burst + float64(o.at.Sub(s.at))/float64(p.GapMin); sum > most+1e-6 {
						t.Fatalf("%v tokens in %s, at most %v", sum, o.at.Sub(s.at), most)
					}
				}
				if s.class == events.ClassUtility {
					last = s.at
				}
				if wait := s.at.Sub(last); wait > 14*p.GapMax { // since the price is in force: what it waits for is counted anew
					t.Fatalf("an other waits for %s", wait)
				}
			}
		}
		first, others := time.Time{}, 0
		for _, s := range d.took {
			if s.class == events.ClassOTP {
				continue
			}
			if first.IsZero() {
				first = s.at
			}
			others++
			if most := float64(burst) + float64(s.at.Sub(first))/float64(d.rules.Pace.GapMin); float64(others) > most+1e-6 {
				t.Fatalf("%d others in %s, at most %v", others, s.at.Sub(first), most)
			}
		}
	})
}

// Next to nothing is not nothing: a class that costs that has no more turns than another.
func TestPaceATinyCostGivesNoTurns(t *testing.T) {
	t.Parallel()
	d := newDrive(pacedRules(own(events.Pace{RatePerMinute: 60, Costs: map[events.Category]float64{events.Marketing: 1e-10}})))
	for i := range 50 {
		d.accept(msg{id: fmt.Sprintf("o%d", i), class: events.ClassOTP, deliverUntil: after(1e7)})
		d.accept(msg{id: fmt.Sprintf("m%d", i), class: events.ClassMarketing, deliverUntil: after(1e7)})
	}
	d.run(t, after(1000), nil)
	got := ""
	for _, s := range d.took[:20] {
		got += s.id[:1]
	}
	if want := "ooooooooomooooooooom"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
