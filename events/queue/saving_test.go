package queue

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// On a shared number a code waits for a tenth of a gap behind anything that left, not for the gap.
func TestPaceHoldsNoCodeForAWholeGap(t *testing.T) {
	t.Parallel()
	p := shared(events.Pace{})
	d := newDrive(pacedRules(p))
	for i := range 50 {
		d.accept(msg{id: fmt.Sprintf("u%d", i), deliverUntil: after(1e7)})
	}
	accepted := map[string]time.Time{}
	for i := range 40 {
		d.run(t, after(float64(i)*41+7), nil)
		id := fmt.Sprintf("o%d", i)
		accepted[id] = d.p.now
		d.accept(msg{id: id, class: events.ClassOTP, deliverUntil: after(1e7)})
	}
	d.run(t, after(1e5), nil)
	if len(d.took) != 90 {
		t.Fatalf("%d left", len(d.took))
	}
	for _, s := range d.took {
		at, code := accepted[s.id]
		if waited := s.at.Sub(at); code && waited > p.GapMax/10+time.Millisecond {
			t.Errorf("%s waited for %s", s.id, waited)
		}
	}
}

// No starvation: with more codes than the pace allows, a lower class has its turn before they took the tokens of AgingTurns of its own.
func TestPaceStarvesNobody(t *testing.T) {
	t.Parallel()
	for _, costs := range []map[events.Category]float64{nil, {events.OTP: 0}, {events.OTP: 0.5}, {events.OTP: 1}} {
		p := shared(events.Pace{Costs: costs})
		rules := pacedRules(p)
		d := newDrive(rules)
		for i := range 600 {
			d.accept(msg{id: fmt.Sprintf("o%d", i), class: events.ClassOTP, deliverUntil: after(1e7)})
		}
		for i := range 5 {
			d.accept(msg{id: fmt.Sprintf("u%d", i), deliverUntil: after(1e7)})
		}
		d.run(t, after(1e6), nil)
		taken := 0.0
		for i, s := range d.took {
			if s.class == events.ClassOTP {
				taken += p.OTP
				continue
			}
			if taken > float64(rules.AgingTurns)*p.Utility {
				t.Errorf("%v: codes of %v tokens before %s, place %d", costs, taken, s.id, i)
			}
			taken = 0
		}
		if len(d.took) != 605 {
			t.Errorf("%v: %d left", costs, len(d.took))
		}
	}
}

// C3 case 48 with a pace. Dear classes, that a cheaper one goes before, share one token in AgingTurns: they have no more beside it, and each
// has its turn before the others took AgingTurns times what one turn of each of them costs, and a turn more of each, since turns are whole. Any other has its turn as without a pace,
// or when those had theirs.
func TestPaceEveryClassHasItsShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPacing(t)
		rules := pacedRules(p)
		rules.AgingTurns = rapid.SampledFrom([]int{5, 10, 20}).Draw(t, "aging")
		waiting := rapid.SliceOfNDistinct(rapid.SampledFrom(events.Classes()), 2, 6, rapid.ID[events.Class]).Draw(t, "classes")
		cost := func(c events.Class) float64 { return p.Cost(c.Category()) }
		dear, n, once, whole := map[events.Class]bool{}, 0, 0.0, 0.0 // which, how many, what one turn of each of them costs, and the dearest of the others
		for _, c := range waiting {
			dear[c] = slices.ContainsFunc(waiting, func(o events.Class) bool { return o.Rank() < c.Rank() && 0 < cost(o) && cost(o) < cost(c) })
			if dear[c] {
				n++
				once += cost(c)
			} else {
				whole = max(whole, cost(c))
			}
		}
		const starts = 400
		d := newDrive(rules)
		for _, class := range waiting {
			for i := range starts {
				d.accept(msg{id: fmt.Sprintf("%s-%d", class, i), class: class, deliverUntil: after(1e9)})
			}
		}
		for len(d.took) < starts { // each has something left
			d.run(t, d.p.now.Add(p.GapMin), nil)
		}
		turns := max(rules.AgingTurns, len(waiting))
		all, theirs := 0.0, 0.0
		passed, taken := map[events.Class]int{}, map[events.Class]float64{}
		for i, s := range d.took[:starts] {
			if all += cost(s.class); dear[s.class] {
				theirs += cost(s.class)
			}
			for _, c := range waiting {
				if cost(c) == 0 || cost(s.class) > 0 { // where it lacks tokens, those that cost nothing go meanwhile
					passed[c]++
				}
				taken[c] += cost(s.class)
				if c == s.class {
					passed[c], taken[c] = 0, 0
				}
				most := float64(turns)*once + float64(min(n, 1)*(len(waiting)-1))*whole
				if taken[c] > most+1e-6 && (dear[c] || passed[c] > turns+len(waiting)) {
					t.Fatalf("%s waits at place %d for %d turns of others, and for %v tokens of at most %v", c, i, passed[c], taken[c], most)
				}
			}
		}
		if theirs > all/float64(turns)+once {
			t.Fatalf("the dear ones took %v tokens of %v", theirs, all)
		}
	})
}

// The same while messages of the others come as they like, and prices change: what waits all the time has its turn before the others took
// AgingTurns times what one turn of each class costs, counted anew when prices change; one that costs nothing after AgingTurns turns.
func TestPaceStarvesNobodyWhateverComes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPacing(t)
		rules := pacedRules(p)
		d := newDrive(rules)
		mine := rapid.SampledFrom(events.Classes()).Draw(t, "class")
		n, left, seen, passed, taken := 0, 0, 0, 0, 0.0
		for range rapid.IntRange(20, 120).Draw(t, "steps") {
			for ; left < 100; left++ {
				n++
				d.accept(msg{id: fmt.Sprintf("m%d", n), class: mine, deliverUntil: after(1e9)})
			}
			if rapid.IntRange(0, 9).Draw(t, "price") == 0 {
				p, passed, taken = drawPacing(t), 0, 0
				d.q.SetRules(pacedRules(p))
			}
			for _, class := range events.Classes() {
				for range rapid.IntRange(0, 3).Draw(t, "comes") {
					if n++; class != mine {
						d.accept(msg{id: fmt.Sprintf("x%d", n), class: class, deliverUntil: after(1e9)})
					}
				}
			}
			d.run(t, d.p.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "tenths"))*p.GapMin/10), nil)
			once := 0.0
			for _, class := range events.Classes() {
				once += p.Cost(class.Category())
			}
			for _, s := range d.took[seen:] {
				passed++
				taken += p.Cost(s.class.Category())
				if s.class == mine {
					left--
				}
				if s.class == mine || left == 0 { // nothing of it waits
					passed, taken = 0, 0
				}
				most := float64(rules.AgingTurns+1) * once
				if cost := p.Cost(mine.Category()); taken > most+1e-6 || cost == 0 && passed > rules.AgingTurns+len(events.Classes()) {
					t.Fatalf("%s waits for %d turns and %v tokens, of at most %v, at %+v", mine, passed, taken, most, p)
				}
			}
			seen = len(d.took)
		}
	})
}

// Codes are not held while classes beside them save for their turns: as many as nine tenths of the pace carry wait for two of their own
// gaps at most, however many classes stand in the backlog, and those that cost nothing wait for nothing. The others use what codes leave.
func TestPaceCodesGoBesideABacklog(t *testing.T) {
	t.Parallel()
	const gap = 4600 * time.Millisecond // of codes, at the longest
	for name, c := range map[string]struct {
		every time.Duration
		burst int
		pace  events.Pacing
		most  time.Duration
	}{
		"twelve a minute":       {5 * time.Second, 1, shared(events.Pace{}), 2 * gap},
		"ten a minute":          {6 * time.Second, 1, shared(events.Pace{}), 2 * gap},
		"one now and then":      {41 * time.Second, 1, shared(events.Pace{}), gap},
		"nine tenths, exact":    {time.Second / 9, 1, own(events.Pace{RatePerMinute: 60, Costs: map[events.Category]float64{events.OTP: 0.1}}), 200 * time.Millisecond},
		"free ones, in a burst": {time.Minute, 12, shared(events.Pace{Costs: map[events.Category]float64{events.OTP: 0}}), 0},
	} {
		others := events.Classes()[2:]
		for n := range others {
			for _, low := range [][]events.Class{others[:n+1], others[len(others)-n-1:]} {
				d := newDrive(pacedRules(c.pace))
				for i := range 400 {
					d.accept(msg{id: fmt.Sprintf("u%d", i), class: low[i%len(low)], deliverUntil: after(1e7)})
				}
				codes, long := map[string]time.Time{}, 100*c.pace.GapMax
				for at := c.every; at < long; at += c.every {
					d.run(t, epoch.Add(at), nil)
					for range c.burst { // of both classes
						id := fmt.Sprintf("o%d", len(codes))
						codes[id] = d.p.now
						d.accept(msg{id: id, class: events.Classes()[len(codes)%2], deliverUntil: d.p.now.Add(2 * time.Minute)})
					}
				}
				d.run(t, epoch.Add(long+2*c.most+1), nil)
				went, most, tokens := 0, time.Duration(0), 0.0
				for _, s := range d.took {
					tokens += c.pace.Cost(s.class.Category())
					if at, code := codes[s.id]; code {
						went++
						most = max(most, s.at.Sub(at))
					}
				}
				if most > c.most+time.Millisecond || went != len(codes) {
					t.Errorf("%s beside %v: %d of %d codes left, one after %s; at most %s", name, low, went, len(codes), most, c.most)
				}
				if tokens < 100-1 {
					t.Errorf("%s beside %v: %.1f tokens in the time of at least 100", name, low, tokens)
				}
			}
		}
	}
}

// A turn that gives way takes no tokens: what it counted for others and what was put by with it is taken back.
func TestPaceOfATurnThatGivesWay(t *testing.T) {
	t.Parallel()
	d := newDrive(pacedRules(shared(events.Pace{})))
	for i := range 60 {
		d.accept(msg{id: fmt.Sprintf("o%d", i), class: events.ClassOTP, deliverUntil: after(1e7)})
	}
	d.accept(msg{id: "u", deliverUntil: after(1e7)})
	d.accept(msg{id: "m", class: events.ClassMarketing, deliverUntil: after(1e7)})
	d.run(t, after(100), nil)
	for range 3 {
		passed, saved := maps.Clone(d.q.ix.passed), maps.Clone(d.q.ix.saved)
		if saved[events.ClassUtility] == 0 {
			t.Fatal("nothing was put by")
		}
		s, ok := d.q.Next(after(105))
		if !ok {
			t.Fatal("nobody is next")
		}
		d.q.Take(s.Entry.ID)
		d.q.GiveWay(s.Entry.ID)
		d.q.Release(s.Entry.ID)
		for _, class := range []events.Class{events.ClassOTP, events.ClassUtility, events.ClassMarketing} {
			if passed[class] != d.q.ix.passed[class] || math.Abs(saved[class]-d.q.ix.saved[class]) > nearly {
				t.Errorf("%s was passed %v times and had %v put by, now %v and %v", class, passed[class], saved[class], d.q.ix.passed[class], d.q.ix.saved[class])
			}
		}
	}
}

// A turn that ends without a start (suppressed, opted out, a number that is not there) or whose start made no call takes no tokens: what
// was put by stays for the next of its class. So one that is good goes soon after many that are not; and between any two of those a code
// goes, if one waits.
func TestPaceOfATurnWithoutAStart(t *testing.T) {
	t.Parallel()
	left := func(bad int, ends func(d *drive, id string)) (good time.Duration) {
		d := newDrive(pacedRules(shared(events.Pace{})))
		for i := range 3000 {
			d.accept(msg{id: fmt.Sprintf("o%d", i), class: events.ClassOTP, deliverUntil: after(1e7)})
		}
		for i := range bad {
			d.accept(msg{id: fmt.Sprintf("bad%d", i), deliverUntil: after(1e7)})
		}
		d.accept(msg{id: "good", deliverUntil: after(1e7)})
		for last := ""; ; {
			s, ok := d.q.Next(d.p.now)
			if !ok {
				d.p.now = d.q.Wake(d.p.now)
				continue
			}
			id := s.Entry.ID
			if id[0] == 'b' && last != "" && last[0] == 'b' {
				t.Fatalf("%s goes right after %s, and codes wait", id, last)
			}
			last = id
			d.q.Take(id)
			if id[0] == 'b' {
				ends(d, id)
			} else {
				d.p.started(id, 1)
				d.p.accepted(id, 1, "G-"+id)
			}
			d.fold()
			d.q.Release(id)
			if id == "good" {
				return d.p.now.Sub(epoch)
			}
		}
	}
	alone := left(0, nil)
	for name, ends := range map[string]func(d *drive, id string){
		"no start": func(d *drive, id string) { d.p.ended(events.ClosedFailed, id) },
		"no call": func(d *drive, id string) {
			d.p.started(id, 1)
			d.p.deferred(id, 1, 1e6, events.DispatchDeferred{})
		},
	} {
		// Each lets one code go, which takes a tenth of a gap; the first may have had its turn before all was put by.
		if got, most := left(5, ends)-alone, (5+10)*4600*time.Millisecond; got < 0 || got > most {
			t.Errorf("%s: five before it make it %s later, at most %s", name, got, most)
		}
	}
	made := left(5, func(d *drive, id string) {
		d.p.started(id, 1)
		d.p.deferred(id, 1, 1e6, events.DispatchDeferred{Called: true})
	})
	if made < 5*alone {
		t.Errorf("after five that were called it leaves at %s, without them at %s", made, alone)
	}
}
