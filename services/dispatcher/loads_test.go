package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/forecast"
)

// noted reads the newest report of the partition, if there is one.
func (r *rig) noted() (forecast.Report, bool) {
	raw, err := r.leases.NotedUnder(r.t.Context(), forecast.Prefix(r.p))
	if err != nil || len(raw) != 1 {
		return forecast.Report{}, false
	}
	rep, err := forecast.Decode(raw[0])
	if err != nil {
		r.t.Fatal(err)
	}
	return rep, true
}

func (r *rig) awaitLoad(what string, want func(l forecast.Load, listed bool) bool) {
	r.t.Helper()
	var last forecast.Report
	eventually(r.t, what, func() bool {
		rep, ok := r.noted()
		last = rep
		l, listed := rep.Instances[instanceID]
		return ok && want(l, listed)
	}, func() string { return fmt.Sprintf("%+v", last) })
}

// What waits is noted while somebody works for it, by class; what is scheduled for later does not wait; nobody knows how long a pause lasts.
func TestLoadsAreNoted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	inst := r.instance()
	inst.Pace = events.Pace{RatePerMinute: 1}
	r.catalog.define(inst)
	_, stop := r.run(quick())
	r.awaitLoad("at rest", func(_ forecast.Load, listed bool) bool { return !listed })
	r.awaitStage(r.accept(order{text: "first."}), events.StageDispatched)
	r.awaitLoad("paced", func(l forecast.Load, _ bool) bool {
		return len(l.Waiting) == 0 && l.Turn > 0 && !l.Held &&
			time.Until(l.Paced[events.OTP]) > 20*time.Second && time.Until(l.Paced[events.Marketing]) <= time.Minute
	})
	for range 3 {
		r.accept(order{text: "waits.", class: events.ClassUtility})
	}
	r.accept(order{text: "later.", class: events.ClassUtility, deliverAt: time.Now().Add(time.Hour)})
	r.accept(order{text: "waits.", class: events.ClassMarketing})
	r.awaitLoad("a backlog", func(l forecast.Load, _ bool) bool {
		return l.Waiting[events.ClassUtility] == 3 && l.Waiting[events.ClassMarketing] == 1 && len(l.Waiting) == 2
	})
	r.instanceEvent(events.TypeInstancePaused, "paused")
	r.awaitLoad("held", func(l forecast.Load, _ bool) bool { return l.Held })
	stop()
	eventually(t, "nobody knows any more", func() bool { _, ok := r.noted(); return !ok }, nil)
	set := quick()
	set.ID = "next"
	r.run(set)
	r.awaitLoad("the next one finds it", func(l forecast.Load, _ bool) bool { return l.Held && l.Waiting[events.ClassUtility] == 3 })
}
