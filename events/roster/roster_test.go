package roster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const partitions = 8

// drawMembers draws dispatchers, each having folded some of the partitions.
func drawMembers(t *rapid.T, least, most int) []Member {
	ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9]{1,6}-[0-9]{1,4}`), least, most, rapid.ID).Draw(t, "ids")
	members := make([]Member, 0, len(ids))
	for _, id := range ids {
		m := Member{ID: id}
		for p := range events.Partition(partitions) {
			if rapid.Bool().Draw(t, "serves") {
				m.Serves = append(m.Serves, p)
			}
		}
		members = append(members, m)
	}
	return members
}

// Whatever order they are heard of in, all decide the same, and a partition has exactly two folders where two live.
func TestAllDecideTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 0, 6)
		r, other := Of(members...), Of(rapid.Permutation(members).Draw(t, "order")...)
		for p := range events.Partition(partitions) {
			folders, serving := r.Folders(p), r.Serving(p)
			if diff := cmp.Diff([][]string{folders, serving}, [][]string{other.Folders(p), other.Serving(p)}); diff != "" {
				t.Fatal(diff)
			}
			if want := min(len(members), FoldedBy); len(folders) != want || (want == 2 && folders[0] == folders[1]) {
				t.Fatalf("%v fold %s, of %d", folders, p, len(members))
			}
			for _, id := range serving {
				if i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id }); !slices.Contains(members[i].Serves, p) {
					t.Fatalf("%s works in %s and has not folded it", id, p)
				}
			}
			owner := r.Owner(p, "inst-1")
			if (owner == "") != (len(serving) == 0) || (owner != "" && !slices.Contains(serving, owner)) {
				t.Fatalf("%q of %v", owner, serving)
			}
		}
	})
}

// One that goes moves only what it had: every instance of another one stays, unless that other was not among the two.
func TestWhoGoesMovesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 2, 6)
		gone := members[0].ID
		before, after := Of(members...), Of(members[1:]...)
		for p := range events.Partition(partitions) {
			if !slices.Contains(before.Folders(p), gone) && !cmp.Equal(before.Folders(p), after.Folders(p)) {
				t.Fatalf("%s was none of %v, who are now %v", gone, before.Folders(p), after.Folders(p))
			}
			was := before.Serving(p)
			for i := range 20 {
				instance := fmt.Sprintf("inst-%d", i)
				old, now := Owner(was, instance), Owner(after.Serving(p), instance)
				if !slices.Contains(was, gone) && old != now {
					t.Fatalf("%s went from %s to %s because %s is gone", instance, old, now, gone)
				}
			}
		}
	})
}

// Neither partitions nor instances heap up at one of some dispatchers whose names differ in little.
func TestSharesAreEven(t *testing.T) {
	t.Parallel()
	var members []Member
	for i := range 5 {
		members = append(members, Member{ID: fmt.Sprintf("host-%d-aaaa", i)})
	}
	r := Of(members...)
	folds, owns := map[string]int{}, map[string]int{}
	for p := range events.Partition(200) {
		for _, id := range r.Folders(p) {
			folds[id]++
		}
	}
	for i := range 4000 {
		owns[Owner([]string{"host-0-aaaa", "host-1-aaaa"}, fmt.Sprintf("acme-%d", i))]++
	}
	for id, n := range folds {
		if n < 50 || n > 110 { // of 80
			t.Errorf("%s folds %d of 400", id, n)
		}
	}
	for id, n := range owns {
		if n < 1850 || n > 2150 {
			t.Errorf("%s works for %d of 4000", id, n)
		}
	}
}

// Where the first of a partition has not folded it yet, the two that have it go on; then it takes its share.
func TestWhoIsNotSoFarYetHasNoShare(t *testing.T) {
	t.Parallel()
	all := []Member{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	r := Of(all...)
	order := r.first(0, func(Member) bool { return true })
	third := all[slices.IndexFunc(all, func(m Member) bool { return !slices.Contains(order, m.ID) })].ID
	serves := func(ids ...string) Roster {
		for _, id := range ids {
			r = r.With(Member{ID: id, Serves: []events.Partition{0}})
		}
		return r
	}
	if got, want := serves(order[1], third).Serving(0), []string{order[1], third}; !cmp.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := serves(order[0]).Serving(0); !cmp.Equal(got, order) {
		t.Errorf("%v, want %v", got, order)
	}
	if len(r.Members()) != 3 || !r.Has(third) || r.Has("d") {
		t.Errorf("members %v", r.Members())
	}
}

func TestMemberIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	m := Member{ID: "host-1-ab", Beat: 7, Serves: []events.Partition{0, 3}}
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(raw)
	if err != nil || !cmp.Equal(got, m) || Key(m.ID) != "disp.host-1-ab" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{``, `host-1`, `{}`, `{"id":"a b"}`, `[]`} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
