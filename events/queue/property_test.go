package queue

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// seen is all a queue can be asked.
type seen struct {
	Entries         map[string]Entry
	Summaries       map[string]message.Summary
	Ready           map[string]time.Time
	Open, Unknown   []string
	Ghosts, Doubts  []string
	Unreadable      []uint64
	Group           uint64
	Chain           bool
	Flags           [5]bool
	Bound           []bool
	Starts, Ends    map[string]Hold
	Closes          []Close
	Turns           []string
	Wake, Quiet     time.Time
	Paced           []time.Time
	Len             int
	UnreadableHolds Hold
}

var allIDs = []string{"m0", "m1", "m2", "m3", "m4"}

// look asks a fresh queue everything. Whose turn it is comes last, since it moves the turns.
func look(q *Queue, now time.Time) seen {
	s := seen{
		Entries: map[string]Entry{}, Summaries: map[string]message.Summary{}, Ready: map[string]time.Time{}, Starts: map[string]Hold{},
		Ends: map[string]Hold{}, Group: q.GroupSequence(), Chain: q.ChainIntact(), Flags: [5]bool{q.Paused(), q.Parked(), q.Closed(), q.ParkedWide(), q.HalfOpen()},
		Len: q.Len(), Wake: q.Wake(now), Quiet: q.QuietUntil(), Closes: q.Closes(now, 100), UnreadableHolds: q.held(now), Unreadable: q.Unreadable(),
	}
	for _, id := range allIDs {
		if e, ok := q.Entry(id); ok {
			s.Entries[id], s.Summaries[id], s.Ready[id] = *e, e.Summary(), e.ReadyAt()
		}
		s.Starts[id] = q.MayStart(id, now)
		for _, reason := range []string{events.ClosedExpired, events.ClosedCanceled, events.ClosedTimeout} {
			s.Ends[id+" "+reason] = q.MayClose(id, reason, now)
		}
		s.Bound = append(s.Bound, q.Bound("G-"+id))
	}
	for _, e := range q.Open() {
		s.Open = append(s.Open, e.ID)
	}
	for _, e := range q.Unknown() {
		s.Unknown = append(s.Unknown, e.ID)
	}
	for _, e := range q.Ghosts() {
		s.Ghosts = append(s.Ghosts, e.ID)
	}
	for _, e := range q.Doubtful() {
		s.Doubts = append(s.Doubts, e.ID)
	}
	for _, c := range events.Categories() {
		s.Paced = append(s.Paced, q.PacedUntil(c))
	}
	for range 6 {
		if x, ok := q.Next(now); ok {
			s.Turns = append(s.Turns, fmt.Sprint(x.Entry.ID, x.Attempt, x.Fresh))
		}
	}
	return s
}

var entries = cmpopts.IgnoreUnexported(Entry{})

// anyTape draws facts no rule has filtered: of several messages, of the instance, unknown, with a chain that may be broken.
func anyTape(t *rapid.T) *tape {
	p := newTape()
	for i := range rapid.IntRange(1, 5).Draw(t, "messages") {
		p.queued(msg{
			id: allIDs[i], class: rapid.SampledFrom(events.Classes()).Draw(t, "class"), tenant: rapid.SampledFrom([]string{"t-a", "t-b"}).Draw(t, "tenant"),
			slot: rapid.Uint8Range(0, 1).Draw(t, "slot"), deliverAt: after(float64(rapid.IntRange(-1, 100).Draw(t, "deliverAt"))),
			deliverUntil: after(float64(rapid.IntRange(50, 400).Draw(t, "deliverUntil"))),
		})
	}
	ids := allIDs[:len(p.queuedSeq)]
	for range rapid.IntRange(0, 30).Draw(t, "facts") {
		p.now = p.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
		id, n := rapid.SampledFrom(ids).Draw(t, "id"), rapid.IntRange(1, 3).Draw(t, "attempt")
		switch rapid.IntRange(0, 18).Draw(t, "fact") {
		case 0, 1:
			p.started(id, n)
		case 2:
			p.accepted(id, n, rapid.SampledFrom([]string{"", "G-" + id}).Draw(t, "gateway id"))
		case 3:
			p.refused(id, n)
		case 4, 5:
			p.deferred(id, n, float64(rapid.IntRange(0, 60).Draw(t, "due")), events.DispatchDeferred{Called: rapid.Bool().Draw(t, "called")})
		case 6, 7:
			p.unknown(id, n)
		case 8:
			p.absent(id, n)
		case 9:
			p.proved(id, rapid.IntRange(0, 2).Draw(t, "proved"))
		case 10:
			p.disproved(id, n, rapid.SampledFrom([]events.ErrorCode{"", events.FailGatewayRejected}).Draw(t, "code"))
		case 11:
			p.ended(events.ClosedExpired, slices.Compact([]string{id, rapid.SampledFrom(ids).Draw(t, "second")})...)
		case 12:
			p.instance(rapid.SampledFrom([]string{"opened", "closed", "paused", "resumed", "draining", "parked", "unparked", "polished"}).Draw(t, "instance"))
			if rapid.IntRange(0, 3).Draw(t, "park") == 0 {
				p.parked(rapid.SampledFrom([]string{events.ParkGateway, events.ParkInstance}).Draw(t, "scope"))
			}
		case 13:
			p.other(rapid.SampledFrom([]string{events.GroupMessage, events.GroupEvidence, events.GroupReceipt, "weather"}).Draw(t, "group"), "changed")
		case 14:
			if rapid.IntRange(0, 9).Draw(t, "unreadable") == 0 {
				p.other(events.GroupDispatch, "delegated")
			}
		case 15:
			if rapid.IntRange(0, 9).Draw(t, "hole") == 0 {
				p.group = 0
			}
		case 16:
			p.restored(uint64(rapid.IntRange(0, int(p.seq)).Draw(t, "up to")))
		case 18:
			p.retryRequested(id)
		case 17:
			p.skipped(uint64(rapid.IntRange(0, int(p.seq)+2).Draw(t, "skipped")))
		}
	}
	return p
}

// legalTape is what the machine writes.
func legalTape(t *rapid.T) *tape {
	m := newMachine(machineRules(rapid.IntRange(1, 2).Draw(t, "concurrency"), rapid.SampledFrom([]Policy{Never, AfterAbsence}).Draw(t, "policy")))
	for range rapid.IntRange(1, 80).Draw(t, "steps") {
		m.step(t)
	}
	return m.tape
}

func drawRules(t *rapid.T) Rules {
	rules := machineRules(rapid.IntRange(1, 2).Draw(t, "C"), rapid.SampledFrom([]Policy{Never, AfterAbsence}).Draw(t, "P"))
	if rapid.Bool().Draw(t, "paced") {
		rules.Pace = drawPacing(t)
	}
	return rules
}

// Promise P4 for the instance: any order, split and repetition of the same positioned events gives the same answers.
func TestOrderOfArrivalMeansNothing(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(*rapid.T) *tape{"legal": legalTape, "any": anyTape} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				p, rules := draw(t), drawRules(t)
				if len(p.log) == 0 {
					return
				}
				now := p.now.Add(time.Duration(rapid.IntRange(-50, 1200).Draw(t, "now")) * time.Second)
				want := look(p.queue(rules), now)
				arrivals := rapid.Permutation(slices.Concat(p.log, rapid.SliceOf(rapid.SampledFrom(p.log)).Draw(t, "repeats"))).Draw(t, "arrival")
				q := New(instance, rules)
				for _, r := range arrivals {
					q.Apply(r)
				}
				if diff := cmp.Diff(want, look(q, now), entries); diff != "" {
					t.Fatalf("(-log order +this order):\n%s", diff)
				}
			})
		})
	}
}

// It also means nothing which rules stood before, or what was asked on the way.
func TestWhatWasAskedBeforeMeansNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, rules, before := legalTape(t), drawRules(t), drawRules(t)
		now := p.now.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "now")) * time.Second)
		want := look(p.queue(rules), now)
		q := New(instance, before)
		for _, r := range p.log {
			q.Apply(r)
			if rapid.IntRange(0, 4).Draw(t, "asked") == 0 {
				q.Closes(r.Time, 10)
				q.Wake(r.Time)
				q.Next(r.Time)
			}
		}
		q.SetRules(rules)
		got := look(q, now)
		slices.Sort(want.Turns) // the turns of tenants and classes are not of the log
		slices.Sort(got.Turns)
		if len(want.Turns) == len(got.Turns) || !rules.Pace.Free() { // a class whose turn it is and that waits for the pace is waited for
			got.Turns = want.Turns
		}
		if diff := cmp.Diff(want, got, entries); diff != "" {
			t.Fatalf("(-fresh +asked before):\n%s", diff)
		}
	})
}

func TestStrangersChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, rules := legalTape(t), drawRules(t)
		want := look(p.queue(rules), p.now)
		group := p.group
		for range rapid.IntRange(1, 5).Draw(t, "strangers") {
			g := rapid.SampledFrom([]string{events.GroupMessage, events.GroupEvidence, events.GroupReceipt, events.GroupInstance, "weather"}).Draw(t, "group")
			p.other(g, rapid.SampledFrom([]string{"translated", "late", "read"}).Draw(t, "name"))
		}
		if diff := cmp.Diff(want, look(p.queue(rules), p.now), entries); diff != "" || p.group != group {
			t.Fatal(diff)
		}
	})
}

// Compaction at any point up to which the log was folded changes no later answer about what is not over.
func TestCompactionChangesNoAnswer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, rules := legalTape(t), drawRules(t)
		rules.BindWindow = 1000 * time.Hour
		q := New(instance, rules)
		for _, r := range p.log {
			q.Apply(r)
			if rapid.IntRange(0, 3).Draw(t, "compact") == 0 {
				back := uint64(rapid.IntRange(0, 3).Draw(t, "behind"))
				q.Compact(r.Position.Sequence-min(back, r.Position.Sequence), r.Time)
			}
		}
		now := p.now.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "now")) * time.Second)
		want, got := look(p.queue(rules), now), look(q, now)
		for id, s := range want.Summaries {
			if s.Settled() && s.Open() == 0 {
				for _, x := range []*seen{&want, &got} {
					delete(x.Entries, id)
					delete(x.Summaries, id)
					delete(x.Ready, id)
				}
			}
		}
		want.Len, got.Len = 0, 0
		if diff := cmp.Diff(want, got, entries); diff != "" {
			t.Fatalf("(-whole +compacted):\n%s", diff)
		}
	})
}

// Wake is never later than the next thing that becomes due without a new event.
func TestWakeIsNeverLate(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(*rapid.T) *tape{"legal": legalTape, "any": anyTape} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				p, rules := draw(t), drawRules(t)
				now := p.now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "now")) * time.Second)
				due := func(now time.Time) string { // a fresh queue has no memory of turns
					q := p.queue(rules)
					s, ok := q.Next(now)
					out := ""
					if ok {
						out = s.Entry.ID
					}
					return fmt.Sprint(out, q.Closes(now, 100))
				}
				wake := p.queue(rules).Wake(now)
				if !wake.IsZero() && !wake.After(now) {
					t.Fatalf("wakes at %v, now is %v", wake, now)
				}
				until := wake
				if wake.IsZero() {
					until = now.Add(math.MaxInt32 * time.Second)
				}
				before := due(now)
				if just := due(until.Add(-time.Nanosecond)); just != before {
					t.Fatalf("at %v: %s, at %v: %s, and it wakes only at %v", now, before, until, just, wake)
				}
				q := p.queue(rules) // the same of a queue that was asked before
				q.Next(now)
				q.Closes(now, 100)
				w := q.Wake(now)
				late := w.After(wake) && !wake.IsZero() || w.IsZero() && !wake.IsZero()
				// The turn that was given counts until another is asked for: a dear class may have saved for it, and be looked at too soon.
				if late || !w.IsZero() && !w.After(now) || !w.Equal(wake) && rules.Pace.Free() {
					t.Fatalf("wakes at %v when asked before, else at %v", w, wake)
				}
			})
		})
	}
}
