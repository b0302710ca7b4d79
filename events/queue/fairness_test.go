package queue

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// house is an instance in virtual time: messages come, calls begin and end, and it is asked who is next.
type house struct {
	*tape
	q       *Queue
	next    int
	pending map[string]msg // accepted and not begun
	calls   []string       // under way
	begun   []string
}

func newHouse(rules Rules) *house {
	return &house{tape: newTape(), q: New(instance, rules), pending: map[string]msg{}}
}

// accept takes messages in, and gives the id of the last.
func (h *house) accept(class events.Class, tenant string, slot uint8, n int) (id string) {
	for range n {
		h.next++
		id = fmt.Sprintf("m%06d", h.next)
		m := msg{id: id, class: class, tenant: tenant, slot: slot, deliverUntil: after(1e6)}
		h.queued(m)
		h.q.Apply(h.log[len(h.log)-1])
		h.pending[id] = m
	}
	return id
}

// begin makes the start that is next.
func (h *house) begin() (m msg, ok bool) {
	s, ok := h.q.Next(h.now)
	if !ok {
		return msg{}, false
	}
	m = h.pending[s.Entry.ID]
	delete(h.pending, m.id)
	h.calls, h.begun = append(h.calls, m.id), append(h.begun, m.id)
	h.started(m.id, 1)
	h.q.Apply(h.log[len(h.log)-1])
	return m, m.id != ""
}

// end ends a call under way.
func (h *house) end(i int) {
	h.accepted(h.calls[i], 1, "G-"+h.calls[i])
	h.q.Apply(h.log[len(h.log)-1])
	h.calls = slices.Delete(h.calls, i, i+1)
}

func (h *house) turn() (m msg, ok bool) {
	if m, ok = h.begin(); ok {
		h.end(0)
	}
	return m, ok
}

// startable lists the classes of which something may start now.
func (h *house) startable() map[events.Class]bool {
	out := map[events.Class]bool{}
	for id, m := range h.pending {
		if h.q.MayStart(id, h.now) == HoldNone {
			out[m.class] = true
		}
	}
	return out
}

// C3 case 48: any class that waits, urgent or plain, has a turn in any AgingTurns turns, or in as many as there are classes; and while
// nobody's turn is about to be missed, the first goes. Over several tenants and slots.
func TestEveryClassHasATurnInAnyTen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := DefaultRules()
		rules.AgingTurns = rapid.IntRange(0, 14).Draw(t, "aging")
		bound := max(rules.AgingTurns, len(events.Classes()))
		h := newHouse(rules)
		waited := map[events.Class]int{}
		for range rapid.IntRange(1, 80).Draw(t, "turns") {
			for _, c := range events.Classes() {
				if rapid.IntRange(0, 3).Draw(t, "comes") == 0 {
					h.accept(c, rapid.SampledFrom([]string{"t-a", "t-b", "t-c"}).Draw(t, "tenant"), rapid.Uint8Range(0, 2).Draw(t, "slot"), 1+rapid.IntRange(0, 2).Draw(t, "more"))
				}
			}
			waits := h.startable()
			m, ok := h.turn()
			if ok != (len(waits) > 0) {
				t.Fatalf("a turn %v, though %v wait", ok, waits)
			}
			most := 0
			for c := range waits {
				most = max(most, waited[c])
			}
			for c := range waits {
				if waited[c]++; c == m.class {
					waited[c] = 0
				} else if waited[c] >= bound {
					t.Fatalf("%s waits for the %dth turn; the bound is %d", c, waited[c]+1, bound)
				}
				if c.Rank() < m.class.Rank() && most < rules.AgingTurns-len(events.Classes()) {
					t.Fatalf("%s went before %s, which nobody's wait asked for", m.class, c)
				}
			}
			for c := range waited {
				if !waits[c] {
					waited[c] = 0
				}
			}
		}
	})
}

// With calls in parallel a class may be held by its slots. It keeps its claim: of the turns it could have taken it is passed over less
// than AgingTurns times, and once more for each other class with an older claim.
func TestAgingBoundWithCallsInParallel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := concurrent(rapid.IntRange(2, 4).Draw(t, "concurrency"))
		rules.AgingTurns = rapid.IntRange(6, 10).Draw(t, "aging")
		h := newHouse(rules)
		missed := map[events.Class]int{} // turns it could have taken since its last
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			for _, c := range events.Classes() {
				if rapid.IntRange(0, 2).Draw(t, "comes") == 0 {
					h.accept(c, rapid.SampledFrom([]string{"t-a", "t-b"}).Draw(t, "tenant"), rapid.Uint8Range(0, 3).Draw(t, "slot"), 1)
				}
			}
			could := h.startable()
			m, ok := h.begin()
			if ok != (len(could) > 0) {
				t.Fatalf("a turn %v, though %v wait", ok, could)
			}
			for c := range could {
				if missed[c]++; c == m.class {
					missed[c] = 0
				} else if missed[c] >= rules.AgingTurns+len(events.Classes())-1 {
					t.Fatalf("%s was passed over %d times", c, missed[c])
				}
			}
			for len(h.calls) > 0 && rapid.Bool().Draw(t, "a call ends") {
				h.end(rapid.IntRange(0, len(h.calls)-1).Draw(t, "which"))
			}
		}
	})
}

// Of two tenants that always have something to send neither is ahead by more than a round from the time both began, nor by more
// than two over any stretch; nobody waits longer than for twice the weights of the others; and everything leaves once, in order.
func TestTenantsShareByTheirWeights(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "tenants")
		weights, sum := map[string]int{}, 0
		var names []string
		for i := range n {
			name := fmt.Sprintf("t-%d", i)
			names = append(names, name)
			weights[name] = rapid.IntRange(1, 4).Draw(t, "weight")
			sum += weights[name]
		}
		rules := DefaultRules()
		rules.Weight = func(tenant string) int { return weights[tenant] }
		h := newHouse(rules)
		rounds := rapid.IntRange(1, 4).Draw(t, "rounds")
		for _, name := range names {
			for s := range 3 {
				h.accept(events.ClassMarketing, name, uint8(s), rounds*weights[name])
			}
		}
		served := []map[string]int{{}}
		since := map[string]int{}
		last := map[string]string{}
		for range rounds * sum { // until then nobody runs out
			m, ok := h.turn()
			if !ok {
				t.Fatal("nobody is next")
			}
			now := map[string]int{}
			for _, name := range names {
				now[name] = served[len(served)-1][name]
				if since[name]++; since[name] > 2*(sum-weights[name])+1 {
					t.Fatalf("%s waits for the %dth turn", name, since[name])
				}
			}
			now[m.tenant]++
			since[m.tenant] = 0
			served = append(served, now)
			if lane := fmt.Sprint(m.tenant, m.slot); m.id <= last[lane] {
				t.Fatalf("%s after %s in a lane", m.id, last[lane])
			} else {
				last[lane] = m.id
			}
		}
		for i := range served {
			for j := range served[i:] {
				for _, a := range names {
					for _, b := range names {
						lag := float64(served[i+j][a]-served[i][a])/float64(weights[a]) - float64(served[i+j][b]-served[i][b])/float64(weights[b])
						if lag > 2 || i == 0 && lag > 1 {
							t.Fatalf("from turn %d to %d: %s is %g rounds before %s, weights %v", i, i+j, a, lag, b, weights)
						}
					}
				}
			}
		}
		for range len(h.pending) {
			if _, ok := h.turn(); !ok {
				t.Fatalf("%d are left", len(h.pending))
			}
		}
		slices.Sort(h.begun)
		if len(slices.Compact(h.begun)) != h.next {
			t.Fatalf("%d of %d left", len(h.begun), h.next)
		}
	})
}

// A weight of 3 has three turns to one, spread; a change counts at once when it is less, else from the next round.
func TestWeights(t *testing.T) {
	t.Parallel()
	weights := map[string]int{"t-a": 3}
	rules := DefaultRules()
	rules.Weight = func(tenant string) int { return weights[tenant] } // none is 1
	h := newHouse(rules)
	for _, name := range []string{"t-a", "t-b", "t-c"} {
		h.accept(events.ClassUtility, name, 0, 40)
	}
	take := func(n int) (got string) {
		for range n {
			m, _ := h.turn()
			got += m.tenant[2:]
		}
		return got
	}
	if got := take(15); got != "abcaabcaaabcaaa" {
		t.Error(got)
	}
	weights["t-b"], weights["t-a"] = 2, 1
	if got := take(12); got != "bcabcabbcabb" {
		t.Error(got)
	}
	weights["t-a"] = -5
	if got := take(4); len(got) != 4 {
		t.Error(got)
	}
	if DefaultRules().weight("t-a") != 1 || (Rules{Weight: func(string) int { return 1 << 40 }}).weight("t-a") != maxWeight {
		t.Error("the bounds of a weight")
	}
}

// Who sends one at a time and comes back within a round takes nothing from those with a backlog, and is itself soon served.
func TestComersAndGoersDoNotStarveABacklog(t *testing.T) {
	t.Parallel()
	h := newHouse(DefaultRules())
	h.accept(events.ClassUtility, "t-z", 0, 30)
	got := map[string]int{}
	for range 60 {
		for _, name := range []string{"t-x", "t-y"} {
			if !slices.ContainsFunc(h.waiting(), func(m msg) bool { return m.tenant == name }) {
				h.accept(events.ClassUtility, name, 0, 1)
			}
		}
		m, _ := h.turn()
		got[m.tenant]++
	}
	if diff := cmp.Diff(map[string]int{"t-x": 20, "t-y": 20, "t-z": 20}, got); diff != "" {
		t.Error(diff)
	}
	if c := h.q.ix.ready[events.ClassUtility]; len(c.tenants) > 3 || len(c.idle) > 3 {
		t.Errorf("%d tenants, %d idle", len(c.tenants), len(c.idle))
	}
}

func (h *house) waiting() (out []msg) {
	for _, m := range h.pending {
		out = append(out, m)
	}
	return out
}

// A tenant that something holds holds nobody up, and rounds go on by the weights of the others.
func TestASuspendedTenantDoesNotStopTheRounds(t *testing.T) {
	t.Parallel()
	rules := DefaultRules()
	rules.Weight = func(tenant string) int { return map[string]int{"t-a": 2, "t-s": 5}[tenant] }
	rules.Suspended = map[string]bool{"t-s": true}
	h := newHouse(rules)
	for _, name := range []string{"t-s", "t-a", "t-b"} {
		h.accept(events.ClassUtility, name, 0, 20)
	}
	got := map[string]int{}
	for range 27 {
		m, _ := h.turn()
		got[m.tenant]++
	}
	if diff := cmp.Diff(map[string]int{"t-a": 18, "t-b": 9}, got); diff != "" {
		t.Error(diff)
	}
	rules.Suspended = nil
	h.q.SetRules(rules)
	if m, _ := h.turn(); m.tenant != "t-s" {
		t.Errorf("%s goes before who was held longest", m.tenant)
	}
}

// Promise P6: behind a hundred thousand MARKETING messages of one tenant an OTP of another leaves next, and a second tenant's MARKETING
// alternates with them.
func TestAHundredThousandOfOneTenantHoldNobodyUp(t *testing.T) {
	t.Parallel()
	h := newHouse(DefaultRules())
	h.accept(events.ClassMarketing, "t-bulk", 0, 100_000)
	for range 5 {
		h.turn()
	}
	otp := h.accept(events.ClassOTP, "t-two", 0, 1)
	if m, _ := h.turn(); m.id != otp {
		t.Fatalf("%+v goes before the OTP", m)
	}
	h.accept(events.ClassMarketing, "t-two", 0, 50)
	last := ""
	for i := range 100 {
		m, _ := h.turn()
		if m.tenant == last {
			t.Fatalf("turn %d: %s again", i, m.tenant)
		}
		last = m.tenant
	}
}

// Fifty tenants with backlogs of their own: the index of fairness (Jain's: 1 is the same for all) of what each got.
func TestFairnessOverFiftyTenants(t *testing.T) {
	t.Parallel()
	h := newHouse(DefaultRules())
	for i := range 50 {
		for range 3 + i%40 { // with other backlogs, in the order of a burst each
			h.accept(events.ClassMarketing, fmt.Sprintf("t-%02d", i), uint8(i%3), 20)
		}
	}
	got := make([]float64, 50)
	for range 50 * 40 {
		m, _ := h.turn()
		var n int
		if _, err := fmt.Sscanf(m.tenant, "t-%d", &n); err != nil {
			t.Fatal(err)
		}
		got[n]++
	}
	sum, squares := 0.0, 0.0
	for _, x := range got {
		sum, squares = sum+x, squares+x*x
	}
	if index := sum * sum / (50 * squares); index < 0.9999 {
		t.Errorf("index %v: %v", index, got)
	}
}
