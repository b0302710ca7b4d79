package catalog

import (
	"maps"
	"slices"

	"pilotstatus.dev/events"
)

// store holds the entities of one kind, and finds them by more than their id.
type store[T any] struct {
	kind    string
	byID    map[string]T
	indexes []index[T]
}

// index finds entities by a property. Two may claim one value, also only while a rename of the one and a definition of the
// other arrive in either order, so each claim is kept until its own entity lets it go.
type index[T any] struct {
	of  func(T) string // "" is not indexed
	ids map[string][]string
}

// by makes an index of a property.
func by[T any](of func(T) string) index[T] { return index[T]{of: of, ids: map[string][]string{}} }

func newStore[T any](kind string, indexes ...index[T]) store[T] {
	return store[T]{kind: kind, byID: map[string]T{}, indexes: indexes}
}

// put takes the state of an entity in, nil for its end. A value of another kind changes nothing.
func (s store[T]) put(id string, value *T) {
	if old, had := s.byID[id]; had {
		for _, x := range s.indexes {
			x.drop(x.of(old), id)
		}
		delete(s.byID, id)
	}
	if value == nil {
		return
	}
	s.byID[id] = *value
	for _, x := range s.indexes {
		x.add(x.of(*value), id)
	}
}

func (x index[T]) add(value, id string) {
	if value != "" {
		x.ids[value] = append(x.ids[value], id)
	}
}

func (x index[T]) drop(value, id string) {
	left := slices.DeleteFunc(x.ids[value], func(have string) bool { return have == id })
	if len(left) == 0 {
		delete(x.ids, value)
		return
	}
	x.ids[value] = left
}

func (s store[T]) get(id string) (T, bool) { v, ok := s.byID[id]; return v, ok }

// all lists the entities by id.
func (s store[T]) all() []T { return s.sorted(slices.Collect(maps.Keys(s.byID))) }

// with lists, by id, the entities whose n-th indexed property has this value.
func (s store[T]) with(n int, value string) []T { return s.sorted(s.indexes[n].ids[value]) }

func (s store[T]) sorted(ids []string) []T {
	out := make([]T, 0, len(ids))
	for _, id := range slices.Sorted(slices.Values(ids)) {
		out = append(out, s.byID[id])
	}
	return out
}

// newest gives, of the entities whose n-th indexed property has this value, the one that was defined last.
func (s store[T]) newest(c *Catalog, n int, value string) (v T, ok bool) {
	var last uint64
	for _, id := range s.indexes[n].ids[value] {
		if seq := c.Version(s.kind, id); seq >= last {
			v, ok, last = s.byID[id], true, seq
		}
	}
	return v, ok
}

// table is a store whatever its entities are.
type table interface {
	apply(id string, body any)
}

// apply takes the body of an event of CONTROL in; one that is neither the state nor the end of this kind of entity ends it, as
// an older reader of the log must not go on with what is no longer so.
func (s store[T]) apply(id string, body any) {
	if defined, ok := body.(*events.Defined[T]); ok {
		s.put(id, &defined.Value)
		return
	}
	s.put(id, nil)
}
