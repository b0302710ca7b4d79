package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// towns are gateways and who is behind them.
type towns struct {
	at map[string]string // instance → URL
	*outages
}

func newTowns(instances int) *towns {
	w := &towns{at: map[string]string{}}
	for i := range instances {
		w.at[fmt.Sprintf("i-%04d", i)] = "http://one"
	}
	w.outages = newOutages(func(id string) string { return w.at[id] }, func(url string) (n int) {
		for _, u := range w.at {
			if u == url {
				n++
			}
		}
		return n
	}, 5*time.Second)
	return w
}

// A thousand instances behind a gateway that came back begin over five seconds, evenly; the only one of another at once.
func TestNoHerdWhenAGatewayComesBack(t *testing.T) {
	t.Parallel()
	w := newTowns(1000)
	w.at["lonely"] = "http://two"
	for _, id := range []string{"i-0007", "lonely"} {
		w.learn(id, true, park{wide: true, at: noon}, noon)
		if _, held := w.held(w.at[id], "i-0001", noon); !held || w.count() == 0 {
			t.Fatalf("%s holds nothing", id)
		}
	}
	for id, want := range map[string]string{"i-0007": "http://one", "lonely": "http://two"} {
		if free := w.learn(id, false, park{}, noon); free != want {
			t.Fatalf("%q is free, not %q", free, want)
		}
	}
	begin := make([]int, 6)
	for i := range 1000 {
		id := fmt.Sprintf("i-%04d", i)
		at, held := w.held("http://one", id, noon)
		if !held {
			at = noon
		}
		begin[int(at.Sub(noon)/time.Second)]++
		if again, still := w.held("http://one", id, at); still {
			t.Fatalf("%s is held at %v for %v", id, at, again)
		}
	}
	for second, n := range begin[:5] {
		if n < 120 || n > 280 {
			t.Errorf("%d of 1000 begin in second %d: %v", n, second, begin)
		}
	}
	if at, held := w.held("http://two", "lonely", noon.Add(5*time.Millisecond)); held {
		t.Errorf("the only one waits until %v", at)
	}
	if _, held := w.held("http://one", "i-0001", noon.Add(5*time.Second)); held || len(w.freed) != 0 {
		t.Error("what is over is remembered")
	}
}

// Whatever is said in whatever order: a gateway is unusable exactly while an instance that is behind it now is parked for its sake; one
// of these asks for it, and always the same.
func TestAGatewayIsHeldByWhoIsParkedForIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newTowns(4)
		urls := []string{"http://one", "http://two", ""}
		parked := map[string]bool{} // wide
		now := noon
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Second)
			id := fmt.Sprintf("i-%04d", rapid.IntRange(0, 3).Draw(t, "instance"))
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				w.at[id] = rapid.SampledFrom(urls).Draw(t, "moves to")
				w.moved(now)
			} else {
				on, wide := rapid.Bool().Draw(t, "parked"), rapid.Bool().Draw(t, "wide")
				w.learn(id, on, park{wide: wide}, now)
				parked[id] = on && wide
			}
			for _, url := range urls[:2] {
				first := ""
				for i := range 4 {
					if id := fmt.Sprintf("i-%04d", i); first == "" && parked[id] && w.at[id] == url {
						first = id
					}
				}
				by, held := w.prober(url)
				if by != first || held != (first != "") {
					t.Fatalf("%s is held by %q, want %q", url, by, first)
				}
				if at, held := w.held(url, "x", now.Add(time.Minute)); held != (first != "") || !at.IsZero() {
					t.Fatalf("%s held %v until %v, asks %q", url, held, at, first)
				}
			}
		}
	})
}

func TestWhatParksAGateway(t *testing.T) {
	t.Parallel()
	w := newTowns(5)
	for i := range 3 {
		id := fmt.Sprintf("i-%04d", i)
		w.learn(id, true, park{reason: evolution.CauseUnauthorized, at: noon.Add(time.Duration(i) * 29 * time.Second)}, noon)
	}
	w.learn("i-0003", true, park{reason: evolution.CauseNotLoaded, at: noon.Add(58 * time.Second)}, noon)
	if n := w.refused("http://one", "i-0002", evolution.CauseUnauthorized, noon.Add(59*time.Second)); n != 2 {
		t.Errorf("%d others were refused within a minute", n)
	}
	if n := w.refused("http://one", "i-0002", evolution.CauseUnauthorized, noon.Add(61*time.Second)); n != 1 {
		t.Errorf("%d others were refused within a minute, later", n)
	}
	if w.unreachable("u", noon) || w.unreachable("u", noon.Add(time.Second)) || !w.unreachable("u", noon.Add(2*time.Second)) {
		t.Error("three failures in a row")
	}
	w.reached("u")
	if w.unreachable("u", noon.Add(3*time.Second)) || w.unreachable("u", noon.Add(4*time.Second)) || w.unreachable("u", noon.Add(2*time.Minute)) {
		t.Error("in a row, and within a minute")
	}
	if !w.mayProbe("u", noon) || w.mayProbe("u", noon.Add(probeGap-1)) || !w.mayProbe("u", noon.Add(probeGap)) {
		t.Error("the gap between probes")
	}
}

// Failures in a row wait longer and longer, with full jitter, and no longer than half a minute.
func TestBreakerBacksOff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b breaker
		now := noon
		n := rapid.IntRange(1, 70).Draw(t, "failures")
		for i := range n {
			draw := rapid.Float64Range(0, 0.999).Draw(t, "draw")
			b.failed(now, draw)
			most := min(breakerMost, breakerBase<<min(i, 10))
			want := max(breakerLeast, time.Duration(draw*float64(most)))
			if got := b.opensAt().Sub(now); got < want-time.Millisecond || got > want+time.Millisecond {
				t.Fatalf("failure %d waits %s, want %s", i+1, got, want)
			}
			now = b.opensAt()
		}
		b.worked()
		if !b.opensAt().IsZero() {
			t.Fatal("it still waits")
		}
	})
}

// many defines so many more instances at the simulator, all behind the gateway of the rig.
func (r *rig) many(n int) (ids []string) {
	r.t.Helper()
	ids = append(ids, instanceID)
	for i := range n - 1 {
		inst := r.instance()
		inst.ID, inst.Name = fmt.Sprintf("inst-more-%d", i), fmt.Sprintf("more-%d", i)
		if err := r.sim.AddInstance(simInstance(inst.Name)); err != nil {
			r.t.Fatal(err)
		}
		r.catalog.define(inst)
		ids = append(ids, inst.ID)
	}
	return ids
}

// parks lists the parks in the log, as "instance scope".
func (r *rig) parks() (out []string) {
	for _, rec := range r.history() {
		if b, ok := rec.Body.(*events.InstanceChanged); ok && rec.Type == events.TypeInstanceParked {
			addr, err := events.ParseEventSubject(rec.Address)
			if err != nil {
				r.t.Fatal(err)
			}
			out = append(out, addr.Instance+" "+b.Scope+" "+b.Reason)
		}
	}
	return out
}
