package catalog

import "slices"

// names finds entities by something other than their id. Two may claim one name, also only while a rename of the one and a
// definition of the other arrive in either order, so each claim is kept until its own entity lets it go.
type names map[string][]string

func (n names) add(name, id string) {
	if !slices.Contains(n[name], id) {
		n[name] = append(n[name], id)
	}
}

func (n names) remove(name, id string) {
	left := slices.DeleteFunc(n[name], func(x string) bool { return x == id })
	if len(left) == 0 {
		delete(n, name)
		return
	}
	n[name] = left
}

// newest gives, of the entities of a kind that claim a name, the one that was defined last; "" when there is none.
func (c *Catalog) newest(n names, kind, name string) (id string) {
	var last uint64
	for _, x := range n[name] {
		if seq := c.Version(kind, x); seq >= last {
			id, last = x, seq
		}
	}
	return id
}
