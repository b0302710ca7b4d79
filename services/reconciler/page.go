package reconciler

import (
	"pilotstatus.dev/events"
	"pilotstatus.dev/projections/views"
)

// The lists of candidates that the views give.
const (
	listUndelivered    = "undelivered"
	listUnacknowledged = "unacknowledged"
	listUnended        = "unended"
)

// listing is one list of a partition.
type listing struct {
	name      string
	partition events.Partition
}

// page is what a list gave in a round: a few of each instance.
type page struct {
	of   listing
	rows []views.Awaited
}

// reachedIn says where each instance's part of a list goes on.
func (r *Reconciler) reachedIn(of listing) []views.Reached {
	out := make([]views.Reached, 0, len(r.reached[of]))
	for _, at := range r.reached[of] {
		out = append(out, at)
	}
	return out
}

// advance goes on behind those that were looked at, up to the first whose turn did not come, and begins anew at the end: what cannot be
// decided is looked at again later, and hides nothing meanwhile.
func (r *Reconciler) advance(p page, later map[string]bool) {
	next := map[string]views.Reached{}
	for rows := p.rows; len(rows) > 0; {
		instance, n := rows[0].InstanceID, 1
		for n < len(rows) && rows[n].InstanceID == instance {
			n++
		}
		looked := 0
		for looked < n && !later[rows[looked].ID] {
			looked++
		}
		switch before, ok := r.reached[p.of][instance]; {
		case looked > 0 && (looked < n || rows[0].More):
			at := rows[looked-1]
			next[instance] = views.Reached{InstanceID: instance, Since: at.Since, ID: at.ID}
		case looked == 0 && ok:
			next[instance] = before
		}
		rows = rows[n:]
	}
	r.reached[p.of] = next
}
