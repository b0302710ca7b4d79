// Package roster decides, from which dispatchers live, who folds a partition and who works for an instance. Who knows the same
// members decides the same, and a member that comes or goes moves no more than its own share.
package roster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"pilotstatus.dev/events"
)

// FoldedBy is how many dispatchers fold a partition: one works for an instance, the other is warm.
const FoldedBy = 2

// Prefix begins the keys of members: the first token.
const Prefix = "disp"

// Key is where a dispatcher says that it lives.
func Key(id string) string { return Prefix + "." + id }

// Member is one dispatcher that lives, as it says itself.
type Member struct {
	ID string `json:"id"`
	// Beat counts what it said since it began; it tells its own words from each other.
	Beat uint64 `json:"beat"`
	// Serves lists the partitions that it has folded to their end and works in, ascending.
	Serves []events.Partition `json:"serves"`
}

// Encode writes what a member says.
func (m Member) Encode() ([]byte, error) { return json.Marshal(m) }

// Decode reads what Encode wrote. A member without an id, or with one that is no token, is an error.
func Decode(raw []byte) (m Member, err error) {
	if err := json.Unmarshal(raw, &m); err != nil {
		return Member{}, fmt.Errorf("read a member: %w", err)
	}
	if !events.ValidToken(m.ID) {
		return Member{}, fmt.Errorf("read a member: its id is no token")
	}
	return m, nil
}

// Roster is the dispatchers that live, in the order of their ids, each once. The zero Roster is empty.
type Roster struct{ members []Member }

// Of makes a roster; of members with one id the last counts.
func Of(members ...Member) Roster {
	by := make(map[string]Member, len(members))
	for _, m := range members {
		by[m.ID] = m
	}
	all := make([]Member, 0, len(by))
	for _, m := range by {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return Roster{all}
}

// Members lists who lives; the caller does not change it.
func (r Roster) Members() []Member { return r.members }

// Has reports whether a dispatcher lives.
func (r Roster) Has(id string) bool {
	return slices.ContainsFunc(r.members, func(m Member) bool { return m.ID == id })
}

// With is the roster and one more member.
func (r Roster) With(m Member) Roster { return Of(append(slices.Clone(r.members), m)...) }

// Folders lists who is to fold a partition, first of all who comes first there: the FoldedBy of highest weight of all that live.
func (r Roster) Folders(p events.Partition) []string {
	return r.first(p, func(Member) bool { return true })
}

// Serving lists who works in a partition, first of all who keeps its snapshots: the FoldedBy of highest weight of those that have
// folded it to its end. Where those that are to fold it are not so far yet, another one that still has it goes on meanwhile.
func (r Roster) Serving(p events.Partition) []string {
	return r.first(p, func(m Member) bool { return slices.Contains(m.Serves, p) })
}

// Owner gives who works for an instance of a partition; "" when nobody can.
func (r Roster) Owner(p events.Partition, instance string) string {
	return Owner(r.Serving(p), instance)
}

// Owner gives who of those that serve its partition works for an instance; "" when nobody serves.
func Owner(serving []string, instance string) string {
	var best string
	var most uint64
	for _, id := range serving {
		if w := weight(id, instance); best == "" || w > most || (w == most && id < best) {
			best, most = id, w
		}
	}
	return best
}

func (r Roster) first(p events.Partition, may func(Member) bool) []string {
	type ranked struct {
		id string
		w  uint64
	}
	place := "partition " + p.String()
	var all []ranked
	for _, m := range r.members {
		if may(m) {
			all = append(all, ranked{m.ID, weight(m.ID, place)})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.w, a.w), cmp.Compare(a.id, b.id)) })
	var out []string
	for _, m := range all[:min(len(all), FoldedBy)] {
		out = append(out, m.id)
	}
	return out
}

// weight is the rendezvous weight of a member for a thing.
func weight(id, thing string) uint64 { return events.Hash(id, thing) }
