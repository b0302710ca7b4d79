package sim

import (
	"testing"
	"time"
)

// That nobody could work is noted where the two that fold a partition are the ones that cannot, and nowhere else: else an expiry that is
// late is taken for a broken promise, or not seen.
func TestWhoCannotWorkIsNoted(t *testing.T) {
	t.Parallel()
	const old, fault, second = time.Hour, 2 * time.Minute, time.Second
	sits := func(f *fleet, seat string, since time.Duration) {
		done := make(chan struct{})
		close(done)
		f.seats[seat] = &life{began: time.Now().Add(-since), cancel: func() {}, done: done}
	}
	for name, c := range map[string]struct {
		with func(*fleet)
		want time.Duration // how long nobody may work
	}{
		"one of two ends":                       {func(f *fleet) { f.end("left", false) }, 0},
		"one of two is cut off":                 {func(f *fleet) { f.breakWay("left", fault) }, 0},
		"another ends meanwhile":                {func(f *fleet) { sits(f, "third", old); f.breakWay("left", fault); f.end("third", false) }, fault + afterFault},
		"the last sound one ends":               {func(f *fleet) { f.breakWay("left", fault); f.end("right", false) }, fault + afterFault},
		"both are cut off":                      {func(f *fleet) { f.breakWay("left", second); f.breakWay("right", fault) }, fault + afterFault},
		"both end":                              {func(f *fleet) { f.end("left", false); f.end("right", false) }, takeover},
		"one ends, and the other is new":        {func(f *fleet) { sits(f, "right", second); f.end("left", false) }, takeover},
		"one that does nothing is cut off":      {func(f *fleet) { f.seats["left"].off = true; f.breakWay("left", fault) }, 0},
		"one in an empty seat would be cut off": {func(f *fleet) { f.breakWay("third", fault) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{rec: &recorder{}}
			f := newFleet(w)
			sits(f, "left", old)
			sits(f, "right", old)
			began := time.Now()
			c.with(f)
			until := began
			for _, s := range w.rec.rec.Away {
				until = newer(until, s.To)
			}
			if got := until.Sub(began); got < c.want || got > c.want+30*second {
				t.Errorf("nobody may work for %s, want %s", got, c.want)
			}
		})
	}
}

// Who is put into a seat while its way is broken is held up by that as well.
func TestANewLifeAsksItsWire(t *testing.T) {
	t.Parallel()
	w := newWire(&world{rec: &recorder{}}, "left")
	if at := w.troubledUntil(); !at.IsZero() {
		t.Errorf("a way that nothing befell is broken until %s", at)
	}
	w.set(lostAck, 0.5, time.Second, time.Hour)
	if d := time.Until(w.troubledUntil()); d <= time.Hour || d > time.Hour+afterFault {
		t.Errorf("it is broken for %s", d)
	}
	w.set(lostAck, 0.5, time.Second, 0)
	if at := w.troubledUntil(); !at.IsZero() {
		t.Errorf("a way whose fault is over is broken until %s", at)
	}
}
