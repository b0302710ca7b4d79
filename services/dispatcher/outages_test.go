package dispatcher

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// towns are gateways and who is behind them.
type towns struct {
	at    map[string]string // instance → URL
	alone map[string]bool   // instances whose partition nobody serves
	told  int               // how many gateways are unusable, by what was told last
	*outages
}

// behind counts the instances of each gateway.
func (w *towns) behind() map[string]int {
	n := map[string]int{}
	for _, url := range w.at {
		n[url]++
	}
	return n
}

func newTowns(instances int) *towns {
	w := &towns{at: map[string]string{}, alone: map[string]bool{}}
	for i := range instances {
		w.at[fmt.Sprintf("i-%04d", i)] = "http://one"
	}
	w.outages = newOutages(func(id string) string { return w.at[id] }, func(url string) int { return w.behind()[url] },
		func(id string) bool { return !w.alone[id] }, func(n int) { w.told = n }, 5*time.Second)
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
	if _, held := w.held("http://one", "i-0001", noon.Add(5*time.Second)); held || w.of("http://one").freed != nil {
		t.Error("what is over is remembered")
	}
}

// Whatever is said in whatever order: a gateway is unusable exactly while an instance that is behind it now is parked for its sake and it
// was not found in use since; of these one asks for it, the first that somebody works for.
func TestAGatewayIsHeldByWhoIsParkedForIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newTowns(4)
		urls := []string{"http://one", "http://two", ""}
		parked := map[string]time.Time{} // wide
		answered := map[string]time.Time{}
		now := noon
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Second)
			id := fmt.Sprintf("i-%04d", rapid.IntRange(0, 3).Draw(t, "instance"))
			at := now.Add(-time.Duration(rapid.IntRange(0, 5).Draw(t, "read so many seconds later")) * time.Second)
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0:
				w.at[id] = rapid.SampledFrom(urls).Draw(t, "moves to")
				w.moved(w.behind(), now)
				for url := range answered { // nobody is behind it: nothing is known of it
					if w.behind()[url] == 0 {
						delete(answered, url)
					}
				}
			case 1:
				w.alone[id] = !w.alone[id]
			case 2:
				url := rapid.SampledFrom(urls[:2]).Draw(t, "found in use")
				w.answered(url, at, now)
				if at.After(answered[url]) {
					answered[url] = at
				}
			default:
				on, wide := rapid.Bool().Draw(t, "parked"), rapid.Bool().Draw(t, "wide")
				w.learn(id, on, park{wide: wide, at: at}, now)
				delete(parked, id)
				if on && wide {
					parked[id] = at
				}
			}
			all := 0
			for _, url := range urls[:2] {
				first, unusable := "", false
				for i := range 4 {
					id := fmt.Sprintf("i-%04d", i)
					since, holds := parked[id]
					holds = holds && w.at[id] == url && !since.Before(answered[url])
					unusable = unusable || holds
					if first == "" && holds && !w.alone[id] {
						first = id
					}
				}
				by, held := w.prober(url)
				if by != first || held != unusable {
					t.Fatalf("%s is held: %v, want %v; %q asks, want %q", url, held, unusable, by, first)
				}
				if at, held := w.held(url, "x", now.Add(time.Minute)); held != unusable || !at.IsZero() {
					t.Fatalf("%s held %v until %v, want %v", url, held, at, unusable)
				}
				if unusable {
					all++
				}
			}
			if w.told != all || w.count() != all {
				t.Fatalf("told that %d are unusable, counted %d; they are %d", w.told, w.count(), all)
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
func TestHoldoffBacksOff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b holdoff
		now := noon
		n := rapid.IntRange(1, 70).Draw(t, "failures")
		for i := range n {
			draw := rapid.Float64Range(0, 0.999).Draw(t, "draw")
			b.failed(now, draw)
			most := min(holdoffMost, holdoffBase<<min(i, 10))
			want := max(holdoffLeast, time.Duration(draw*float64(most)))
			if got := b.opensAt().Sub(now); got < want-time.Millisecond || got > want+time.Millisecond {
				t.Fatalf("failure %d waits %s, want %s", i+1, got, want)
			}
			during := now.Add(time.Duration(rapid.Int64Range(0, int64(want)-1).Draw(t, "during")))
			opens := b.opensAt()
			if b.failed(during, 0.5); !b.opensAt().Equal(opens) || b.fails != i+1 {
				t.Fatalf("what began before failure %d counts as another: %d", i+1, b.fails)
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

// However many wait behind a gateway that nobody asks for, and whenever they look: one of a process asks at a time, at waits that grow to
// the longest; and never does none for longer than that.
func TestWhoStandsInForAGateway(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 100, 2000}).Draw(t, "instances")
		w := newTowns(n)
		w.learn("i-0000", true, park{wide: true, at: noon}, noon)
		w.alone["i-0000"] = true
		takes := time.Duration(rapid.IntRange(0, 10_000).Draw(t, "an answer takes")) * time.Millisecond
		wait := func(n int) time.Duration { // as standInWait draws it
			most := min(30*time.Second, 5*time.Second<<min(n+1, 16))
			return most/2 + time.Duration(rapid.Float64Range(0, 1).Draw(t, "draw")*float64(most/2))
		}
		now, end := noon, noon.Add(time.Hour)
		last, asked := noon, 0
		w.standIn("http://one", now, wait)
		for now.Before(end) {
			id := fmt.Sprintf("i-%04d", rapid.IntRange(0, n-1).Draw(t, "looks"))
			at, held := w.look("http://one", id)
			if !held || at.Sub(now) > askMost+5*time.Second {
				t.Fatalf("%s looks again at %s, held %v", id, at, held)
			}
			now = later(at, now.Add(time.Millisecond))
			turn, due := w.standIn("http://one", now, wait)
			if !due {
				continue
			}
			if turn != asked {
				t.Fatalf("turn %d after %d", turn, asked)
			}
			if gap := now.Sub(last); gap < min(15*time.Second, 5*time.Second<<min(asked, 2)) || gap > 30*time.Second+5*time.Second {
				t.Fatalf("turn %d %s after the one before", turn, gap)
			}
			if _, another := w.standIn("http://one", now.Add(takes), wait); another {
				t.Fatal("two ask at once")
			}
			asked++
			now = now.Add(takes)
			last = now
			w.asked("http://one", asked, now.Add(wait(asked)))
		}
		if asked > 2+int(time.Hour/(15*time.Second)) {
			t.Fatalf("%d turns in an hour", asked)
		}
		w.answered("http://one", now, now)
		if _, due := w.standIn("http://one", now.Add(time.Hour), wait); due {
			t.Fatal("somebody stands in at a gateway that is back")
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Where it is not known what is parked, the instances of a gateway begin one after the other; a partition that is read on is waited for.
func TestWhatIsNotKnownOfParks(t *testing.T) {
	t.Parallel()
	w := newTowns(1000)
	for p := range events.Partition(3) {
		w.unread[p] = time.Time{}
	}
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	missing := func(since int, want ...events.Partition) {
		t.Helper()
		got, all := w.missing(noon)
		if !got.Equal(at(since)) || !slices.Equal(all, want) {
			t.Fatalf("%v are missing since %s, want %v since %s", all, got, want, at(since))
		}
	}
	missing(0, 0, 1, 2)
	if w.read(1, false, at(4)) || w.read(0, true, at(5)) {
		t.Fatal("all are read")
	}
	missing(4, 1, 2)
	w.read(1, false, at(13))
	missing(13, 1, 2)
	if w.read(1, true, at(14)) || w.known() {
		t.Fatal("all are known")
	}
	missing(0, 2)
	w.goOn(map[string]int{"http://one": 1000}, at(10))
	missing(0)
	if !w.known() || w.read(2, true, at(15)) {
		t.Fatal("it is waited for")
	}
	begin := make([]int, 5)
	for i := range 1000 {
		id := fmt.Sprintf("i-%04d", i)
		first, held := w.held("http://one", id, at(10))
		if !held {
			first = at(10)
		}
		begin[int(first.Sub(at(10))/time.Second)]++
	}
	if slices.Max(begin) > 280 {
		t.Errorf("of 1000 begin in each second %v", begin)
	}
}
