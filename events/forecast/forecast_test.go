package forecast

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/events/roster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func paced(rate float64) events.Pacing {
	return events.Instance{Pace: events.Pace{RatePerMinute: rate, Costs: map[events.Category]float64{events.OTP: 0.5}}}.Pacing()
}

func freeCodes(rate float64) events.Pacing {
	return events.Instance{Pace: events.Pace{RatePerMinute: rate, Costs: map[events.Category]float64{events.OTP: 0}}}.Pacing()
}

// turnsAhead counts the turns before that of a new message.
func turnsAhead(waiting map[events.Class]int, class events.Class, aging int) int {
	n, _ := newAhead(Load{Waiting: waiting, Turn: 1}, Instance{AgingTurns: aging}, class).time()
	return int(n)
}

func drawLoad(t *rapid.T, most int) Load {
	l := Load{Waiting: map[events.Class]int{}, Turn: time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "turn"))}
	for _, c := range events.Classes() {
		l.Waiting[c] = rapid.IntRange(0, most).Draw(t, string(c))
	}
	if rapid.Bool().Draw(t, "paced") {
		l.Paced = map[events.Category]time.Time{rapid.SampledFrom(events.Classes()).Draw(t, "paced class").Category(): epoch.Add(time.Minute)}
	}
	if rapid.Bool().Draw(t, "busy") {
		l.FreeAt = epoch.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Minute)).Draw(t, "free")))
	}
	return l
}

func drawInstance(t *rapid.T) Instance {
	return Instance{
		Pace:        paced(float64(rapid.IntRange(0, 600).Draw(t, "rate"))),
		Concurrency: rapid.IntRange(0, 4).Draw(t, "concurrency"), AgingTurns: rapid.IntRange(0, 12).Draw(t, "aging"),
	}
}

// More that waits never makes the estimate sooner, and never turns an unknown into a known.
func TestMonotoneInTheBacklog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l, i := drawLoad(t, 1<<40), drawInstance(t)
		class := rapid.SampledFrom(events.Classes()).Draw(t, "class")
		before, known := Estimate(l, i, class, epoch)
		if known && before.Before(epoch) {
			t.Fatalf("in the past: %s", before)
		}
		more := rapid.SampledFrom(events.Classes()).Draw(t, "more of")
		l.Waiting[more] += rapid.IntRange(1, 1000).Draw(t, "more")
		after, still := Estimate(l, i, class, epoch)
		if still && (!known || after.Before(before)) {
			t.Fatalf("%s (%v) became %s", before, known, after)
		}
	})
}

// Nobody waits for more than all that waits; the first class for little more than its own; and a lower one has its share.
func TestBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l, aging := drawLoad(t, 1000), rapid.IntRange(2, 12).Draw(t, "aging")
		all := 0
		for _, n := range l.Waiting {
			all += n
		}
		first := true
		for place, c := range events.Classes() {
			below := len(events.Classes()) - 1 - place
			n := turnsAhead(l.Waiting, c, aging)
			own := l.Waiting[c]
			if n > all || n < 0 {
				t.Fatalf("%s waits for %d turns of %d", c, n, all)
			}
			if first && n > own+below*(own/max(aging-below, 1)) {
				t.Fatalf("%s goes first and waits for %d turns behind %d of its own", c, n, own)
			}
			if first = first && own == 0; own < all && n > (all+1)*aging {
				t.Fatalf("%s has no share: %d turns", c, n)
			}
		}
	})
}

// backlog is a queue of which messages wait, and turns are taken in virtual time.
type backlog struct {
	q          *queue.Queue
	seq, group uint64
}

func newBacklog(rules queue.Rules) *backlog { return &backlog{q: queue.New("inst-1", rules)} }

func (b *backlog) apply(r events.Recorded) {
	b.seq++
	r.Known, r.Position = true, events.Position{Sequence: b.seq}
	b.q.Apply(r)
}

func (b *backlog) accept(class events.Class, at time.Time) (id string) {
	var r events.Recorded
	r.Address = events.QueuedSubject(0, events.Lane{Instance: "inst-1", Class: class, Tenant: "t-1"})
	id = fmt.Sprintf("msg_%d", b.seq)
	r.Type, r.Subject, r.Time, r.DeliverUntil = events.TypeMessageQueued, id, at, epoch.Add(240*time.Hour)
	b.apply(r)
	return id
}

// until takes turns from now on until that of a message, and gives how many came before it and when it began.
func (b *backlog) until(t *rapid.T, id string, now time.Time) (turns int, at time.Time) {
	for ; ; turns++ {
		s, ok := b.q.Next(now)
		for !ok {
			wake := b.q.Wake(now)
			if !wake.After(now) {
				t.Fatalf("nobody is next after %d turns", turns)
			}
			now = wake
			s, ok = b.q.Next(now)
		}
		if s.Entry.ID == id {
			return turns, now
		}
		for _, name := range []string{"started", "accepted"} {
			var r events.Recorded
			r.Address, r.Type = events.EventSubject(0, "inst-1", events.GroupDispatch, name), "dispatch."+name+".v1"
			r.Subject, r.Attempt, r.Prev, r.Time, r.QueuedSeq, r.Nonce = s.Entry.ID, 1, b.group, now, s.Entry.QueuedSeq, s.Entry.ID
			b.group = b.seq + 1
			b.apply(r)
		}
	}
}

// The count of turns is what the queue's own choice comes to, give or take one round of aging.
func TestAsTheQueueChooses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := queue.DefaultRules()
		b := newBacklog(rules)
		waiting := map[events.Class]int{}
		for _, c := range events.Classes() {
			waiting[c] = rapid.IntRange(0, 15).Draw(t, string(c))
			for range waiting[c] {
				b.accept(c, epoch)
			}
		}
		class := rapid.SampledFrom(events.Classes()).Draw(t, "class")
		turns, _ := b.until(t, b.accept(class, epoch.Add(time.Second)), epoch.Add(time.Minute))
		want := turnsAhead(waiting, class, rules.AgingTurns)
		if slack := rules.AgingTurns + turns/4; turns < want-slack || turns > want+slack {
			t.Fatalf("it took %d turns, %d were expected: %s behind %v", turns, want, class, waiting)
		}
	})
}

// So is the time of a code on a shared number, whatever dear classes stand beside the codes before it: they share a tenth of the pace.
func TestACodeIsExpectedWhenItLeavesBesideABacklog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := queue.DefaultRules()
		rules.Pace = events.Instance{Shared: true}.Pacing()
		b := newBacklog(rules)
		now := epoch.Add(time.Minute)
		for _, c := range []events.Class{events.ClassUtilityUrgent, events.ClassUtility, events.ClassMarketingUrgent, events.ClassMarketing} {
			for range rapid.IntRange(0, 10).Draw(t, string(c)) {
				b.accept(c, epoch)
			}
		}
		// Codes came before these, the last of which waited for the pace, so that the number is neither rested nor new to its backlog.
		apart := func() time.Duration {
			return time.Duration(rapid.IntRange(0, 4000).Draw(t, "apart")) * time.Millisecond
		}
		for range rapid.IntRange(10, 60).Draw(t, "codes before") {
			_, now = b.until(t, b.accept(events.ClassOTP, now), now)
			now = now.Add(apart())
		}
		for waited := false; !waited; {
			_, at := b.until(t, b.accept(events.ClassOTP, now), now)
			waited, now = at.After(now), at
		}
		now = now.Add(apart())
		l := Load{Waiting: b.q.Backlog(now)}
		codes := rapid.IntRange(0, 40).Draw(t, "codes")
		l.Waiting[events.ClassOTP] = codes
		for range codes {
			b.accept(events.ClassOTP, now)
		}
		if at := b.q.PacedUntil(events.OTP); at.After(now) {
			l.Paced = map[events.Category]time.Time{events.OTP: at}
		}
		want, known := Estimate(l, Instance{Pace: rules.Pace, AgingTurns: rules.AgingTurns}, events.ClassOTP, now)
		_, at := b.until(t, b.accept(events.ClassOTP, now), now)
		chance := 2*time.Second + at.Sub(now)/10 // gaps are drawn
		if late := at.Sub(want); !known || late < -rules.Pace.GapMax/10-chance || late > rules.Pace.GapMax/5+chance {
			t.Fatalf("it left %s after now, and was expected after %s: behind %v", at.Sub(now), want.Sub(now), l.Waiting)
		}
	})
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		load  Load
		inst  Instance
		class events.Class
		want  time.Duration // after now; -1: not known
	}{
		"at rest":                          {class: events.ClassUtility, want: 0},
		"held":                             {load: Load{Held: true}, class: events.ClassUtility, want: -1},
		"just sent":                        {load: Load{FreeAt: epoch.Add(20 * time.Second)}, inst: Instance{Pace: paced(2)}, class: events.ClassUtility, want: 20 * time.Second},
		"paced":                            {load: Load{Paced: map[events.Category]time.Time{events.Utility: epoch.Add(20 * time.Second)}}, class: events.ClassUtility, want: 20 * time.Second},
		"another is paced":                 {load: Load{Paced: map[events.Category]time.Time{events.Utility: epoch.Add(20 * time.Second)}}, class: events.ClassOTP, want: 0},
		"codes are cheaper":                {load: Load{Waiting: map[events.Class]int{events.ClassOTP: 3}}, inst: Instance{Pace: paced(2)}, class: events.ClassOTP, want: 45 * time.Second},
		"behind codes and its own":         {load: Load{Waiting: map[events.Class]int{events.ClassOTP: 2, events.ClassUtility: 1}}, inst: Instance{Pace: paced(2)}, class: events.ClassUtility, want: time.Minute},
		"free long ago":                    {load: Load{FreeAt: epoch.Add(-time.Hour)}, class: events.ClassUtility, want: 0},
		"paced backlog":                    {load: Load{Waiting: map[events.Class]int{events.ClassUtility: 3}}, inst: Instance{Pace: paced(2)}, class: events.ClassUtility, want: 90 * time.Second},
		"unpaced, turns were seen":         {load: Load{Waiting: map[events.Class]int{events.ClassUtility: 3}, Turn: time.Second}, class: events.ClassUtility, want: 3 * time.Second},
		"two at once":                      {load: Load{Waiting: map[events.Class]int{events.ClassUtility: 4}, Turn: time.Second}, inst: Instance{Concurrency: 2}, class: events.ClassUtility, want: 2 * time.Second},
		"unpaced, no turn was seen":        {load: Load{Waiting: map[events.Class]int{events.ClassUtility: 3}}, class: events.ClassUtility, want: -1},
		"slower than its pace":             {load: Load{Waiting: map[events.Class]int{events.ClassUtility: 2}, Turn: 5 * time.Second}, inst: Instance{Pace: paced(60)}, class: events.ClassUtility, want: 10 * time.Second},
		"OTP goes first":                   {load: Load{Waiting: map[events.Class]int{events.ClassMarketing: 100000}, Turn: time.Second}, inst: Instance{AgingTurns: 10}, class: events.ClassOTP, want: 0},
		"lower ones have their share":      {load: Load{Waiting: map[events.Class]int{events.ClassUtility: 18, events.ClassMarketing: 100}, Turn: time.Second}, inst: Instance{AgingTurns: 10}, class: events.ClassUtility, want: 20 * time.Second},
		"dear ones share a tenth":          {load: Load{Waiting: map[events.Class]int{events.ClassOTP: 18, events.ClassUtility: 9, events.ClassMarketing: 9}}, inst: Instance{Pace: paced(2), AgingTurns: 10}, class: events.ClassOTP, want: 300 * time.Second},
		"what is free waits for no pace":   {load: Load{Waiting: map[events.Class]int{events.ClassOTP: 18, events.ClassMarketing: 9}, Turn: time.Second}, inst: Instance{Pace: freeCodes(2), AgingTurns: 10}, class: events.ClassOTP, want: 20 * time.Second},
		"behind others":                    {load: Load{Waiting: map[events.Class]int{events.ClassOTP: 4}, Turn: time.Second}, inst: Instance{AgingTurns: 10}, class: events.ClassMarketing, want: 4 * time.Second},
		"not longer than its share":        {load: Load{Waiting: map[events.Class]int{events.ClassOTP: 1000}, Turn: time.Second}, inst: Instance{AgingTurns: 10}, class: events.ClassMarketing, want: 9 * time.Second},
		"an absurd backlog has its bounds": {load: Load{Waiting: map[events.Class]int{events.ClassUtility: 1 << 60}, Turn: time.Hour}, class: events.ClassUtility, want: longest},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, ok := Estimate(tt.load, tt.inst, tt.class, epoch)
			if got := at.Sub(epoch); ok != (tt.want >= 0) || ok && got != tt.want {
				t.Errorf("%s %v, want %s", got, ok, tt.want)
			}
		})
	}
}

func TestRest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		load Load
		want bool
	}{
		"nothing":    {want: true},
		"sent once":  {Load{Turn: time.Second, FreeAt: epoch, Waiting: map[events.Class]int{events.ClassOTP: 0}}, true},
		"waiting":    {Load{Waiting: map[events.Class]int{events.ClassOTP: 1}}, false},
		"paced":      {Load{FreeAt: epoch.Add(1)}, false},
		"held":       {Load{Held: true}, false},
		"pace over":  {Load{Paced: map[events.Category]time.Time{events.OTP: epoch}}, true},
		"of a class": {Load{Paced: map[events.Category]time.Time{events.OTP: epoch.Add(1)}}, false},
	} {
		if got := tt.load.Rest(epoch); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	full := Report{At: epoch, Dispatcher: "d1", Serving: []string{"d1", "d2"}, Instances: map[string]Load{"inst-1": {
		Waiting: map[events.Class]int{events.ClassOTP: 3}, FreeAt: epoch.Add(time.Second), Turn: time.Second, Held: true, Paced: map[events.Category]time.Time{events.OTP: epoch.Add(time.Second)},
	}}}
	raw, err := full.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Decode([]byte("{")); err == nil {
		t.Error("half a report was read")
	}
	// The largest report fits a message.
	most := Report{At: epoch, Instances: map[string]Load{}}
	for i := range MaxReport {
		l := Load{Waiting: map[events.Class]int{}, FreeAt: epoch.Add(1), Paced: map[events.Category]time.Time{events.OTP: epoch.Add(1), events.Utility: epoch.Add(1), events.Marketing: epoch.Add(1)}, Turn: 1<<62 + time.Duration(i), Held: true}
		for _, c := range events.Classes() {
			l.Waiting[c] = 1 << 40
		}
		most.Instances[fmt.Sprintf("%040d", i)] = l
	}
	if raw, err := most.Encode(); err != nil || len(raw) > 1<<20 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

// Each dispatcher reports of its own instances: whose word counts follows from the newest report.
func TestTheReportOfTheOwnerCounts(t *testing.T) {
	t.Parallel()
	load := func(n int) map[string]Load {
		return map[string]Load{"inst-1": {Waiting: map[events.Class]int{events.ClassOTP: n}}}
	}
	both := []string{"d1", "d2"}
	owner := roster.Owner(both, "inst-1")
	other := both[(slices.Index(both, owner)+1)%2]
	own := Report{At: epoch, Dispatcher: owner, Serving: both, Instances: load(1)}
	old := Report{At: epoch.Add(-time.Second), Dispatcher: other, Serving: []string{other}, Instances: load(2)}
	for name, c := range map[string]struct {
		reports []Report
		waiting int
		known   bool
	}{
		"none":                    {nil, 0, false},
		"both":                    {[]Report{own, {At: epoch, Dispatcher: other, Serving: both}}, 1, true},
		"handed over":             {[]Report{old, own}, 1, true},
		"at rest":                 {[]Report{{At: epoch, Dispatcher: owner, Serving: both}}, 0, true},
		"no room":                 {[]Report{{At: epoch, Dispatcher: owner, Serving: both, More: true}}, 0, false},
		"the owner says nothing":  {[]Report{{At: epoch, Dispatcher: other, Serving: both, Instances: load(2)}}, 0, false},
		"the old owner says last": {[]Report{{At: epoch.Add(-2 * time.Second), Dispatcher: owner, Serving: both}, old}, 2, true},
	} {
		l, known := Of(c.reports, "inst-1")
		if l.Waiting[events.ClassOTP] != c.waiting || known != c.known {
			t.Errorf("%s: %+v %v", name, l, known)
		}
	}
	if k := Key(3, "d1"); k != "load.3.d1" {
		t.Error(k)
	}
}
