package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// A dispatcher whose clock was minutes ahead led until its first start showed it, and ended what was not over: R4.
func TestAClockThatIsAheadEndsNothingEarly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.accept(order{text: "in time"}) // for a minute
	set := quick()
	set.ID, set.WitnessEvery = "ahead", 50*time.Millisecond
	set.Now = func() time.Time { return time.Now().Add(2 * time.Minute) }
	ahead, _ := r.run(set)
	eventually(t, "the clock is looked at", ahead.skewed, func() string { return "it is not" })
	right := quick()
	right.ID = "right"
	r.run(right)
	r.awaitStage(id, events.StageDispatched)
	if ahead.Leading() {
		t.Error("who is off the log's clock leads")
	}
	if n := r.count(id, events.TypeDispatchClosed); n != 0 {
		t.Errorf("it was ended %d times", n)
	}
}

// A leader whose clock goes wrong lets somebody else lead, and leads again when it is right.
func TestALeaderWhoseClockGoesWrongLetsGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var off atomic.Int64
	set := quick()
	set.ID, set.WitnessEvery, set.LeaseTTL = "wrong", 50*time.Millisecond, time.Second
	set.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	d, _ := r.run(set)
	lead := func(want bool) {
		t.Helper()
		eventually(t, "lead", func() bool { return d.Leading() == want }, func() string { return "it does not change" })
	}
	lead(true)
	off.Store(int64(-time.Minute))
	lead(false)
	id := r.accept(order{text: "later"})
	off.Store(0)
	lead(true)
	r.awaitStage(id, events.StageDispatched)
}

// A log that answered late to a dispatcher that just began took its ends, which were too early by a clock that it had not compared.
func TestAClockThatWasNotComparedEndsNothing(t *testing.T) {
	t.Parallel()
	d := New(Config{Settings: Settings{Now: func() time.Time { return time.Now().Add(time.Hour) }}, Logs: []*eventlog.Log{nil}})
	p, now := d.parts[0], time.Now()
	if !p.timeless() || d.skewed() {
		t.Error("it acts by a clock that it has not compared, or calls it wrong")
	}
	p.observe(now, now.Add(time.Second), now.Add(2*time.Second)) // an error of a second may hide in it
	if !p.timeless() {
		t.Error("an answer of two seconds proves a clock right")
	}
	p.observe(now, now.Add(10*time.Millisecond), now.Add(20*time.Millisecond))
	if p.timeless() {
		t.Error("a clock that is right is not believed")
	}
	p.observe(now.Add(time.Hour), now, now.Add(time.Hour+2*time.Second)) // a slow answer proves one wrong all the same
	if !p.timeless() || !d.skewed() {
		t.Error("an hour is not noticed")
	}
}

// One server of a cluster whose clock was off took every partition from every dispatcher, not only those that it led.
func TestAServerWhoseClockIsOffStopsItsPartitionsOnly(t *testing.T) {
	t.Parallel()
	d := New(Config{Logs: []*eventlog.Log{nil, nil, nil}})
	now := time.Now()
	d.parts[0].observe(now, now.Add(-time.Minute), now)
	if !d.skewed() {
		t.Error("its clock agrees with nobody's, and it goes on")
	}
	d.parts[1].observe(now, now, now)
	if d.skewed() {
		t.Error("it stops for one partition whose clock is off")
	}
	if !d.parts[0].timeless() || d.parts[1].timeless() || !d.parts[2].timeless() {
		t.Error("it acts where the clock is off or was not compared, or does not where it is right")
	}
	d.parts[1].observe(now, now.Add(time.Minute), now)
	d.parts[2].observe(now, now.Add(time.Minute), now)
	if !d.skewed() {
		t.Error("its clock agrees with nobody's any more, and it goes on")
	}
}
