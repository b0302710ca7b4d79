package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/streamtest"
)

// crew is dispatchers over a log of many partitions, without a gateway.
type crew struct {
	t    *testing.T
	log  *streamtest.Log
	live []*Dispatcher
}

const crewPartitions = 8

// join starts one more; leave ends it.
func (c *crew) join(id string) (d *Dispatcher, leave func()) {
	set := quick()
	set.ID, set.FoldGrace = id, 200*time.Millisecond
	d = New(Config{
		Settings: set, Logs: slices.Repeat([]*eventlog.Log{c.log.Events}, crewPartitions), Leases: c.log.Leases,
		Catalog: &fixedCatalog{catalog: catalog.New(), changes: make(chan struct{}, 1)}, Keys: plainKeys{},
		Gateway: func(string, string) (*evolution.Client, error) { return nil, errors.New("there is none") },
		Logger:  testLogger(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	c.live = append(c.live, d)
	ended := false
	leave = func() {
		if ended {
			return
		}
		ended = true
		c.live = slices.DeleteFunc(c.live, func(other *Dispatcher) bool { return other == d })
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	}
	c.t.Cleanup(leave)
	return d, leave
}

// folded counts who has a partition folded to its end, and who holds anything of it.
func (c *crew) folded(p events.Partition) (folding, holding int) {
	for _, d := range c.live {
		part := d.parts[p]
		if part.ready() == nil {
			folding++
		}
		part.mu.Lock()
		if part.folded > 0 || len(part.actors) > 0 {
			holding++
		}
		part.mu.Unlock()
	}
	return folding, holding
}

func (c *crew) await(what string, each int) {
	c.t.Helper()
	at := map[events.Partition][2]int{}
	eventually(c.t, what, func() bool {
		ok := !slices.ContainsFunc(c.live, func(d *Dispatcher) bool {
			v := d.view.Load()
			return d.Ready() != nil || v.members != len(c.live)
		})
		for p := range events.Partition(crewPartitions) {
			folding, holding := c.folded(p)
			at[p] = [2]int{folding, holding}
			ok = ok && folding == each && holding == each
		}
		return ok
	}, func() string { return fmt.Sprint(at) })
}

// However many dispatchers there are, two fold each partition, and whoever is told to folds it from the log or lets it go; one alone
// folds all.
func TestEachPartitionIsFoldedByTwo(t *testing.T) {
	t.Parallel()
	c := &crew{t: t, log: streamtest.New(t, crewPartitions, eventlog.Options{Logger: zerolog.Nop()})}
	for p := range events.Partition(crewPartitions) {
		id := "inst-of-" + p.String()
		_, err := c.log.Events.Append(t.Context(), events.Event{
			Address:  events.EventSubject(p, id, events.GroupInstance, "paused"),
			Envelope: events.Envelope{ID: id, Type: events.TypeInstancePaused, Source: "pilot/test", Time: time.Now().UTC()},
			Body:     &events.InstanceChanged{By: "test"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, leaveFirst := c.join("d-1")
	c.await("one folds all", 1)
	c.join("d-2")
	c.await("two fold all", 2)
	c.join("d-3")
	c.join("d-4")
	c.await("two fold each", 2)
	served := 0
	for _, d := range c.live {
		for _, p := range d.parts {
			if p.serves() {
				served++
			}
		}
	}
	if served != 2*crewPartitions {
		t.Errorf("%d partitions are served, by two each it would be %d", served, 2*crewPartitions)
	}
	leaveFirst()
	c.await("two fold each when one is gone", 2)
}

// Those that work in a partition divide its lanes.
func TestLanesAreDivided(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.ID, set.LaneCap = "d-1", 7
	one, _ := r.run(set)
	awaitOwner(t, one)
	lanes := func(d *Dispatcher) (n int) {
		p := d.parts[0]
		for p.takeLane() {
			n++
		}
		for range n {
			p.giveLane()
		}
		return n
	}
	if n := lanes(one); n != 7 {
		t.Errorf("one alone has %d lanes", n)
	}
	set.ID = "d-2"
	two, _ := r.run(set)
	eventually(t, "both work", func() bool {
		return two.Leading() && len(one.view.Load().serving[0]) == 2 && len(two.view.Load().serving[0]) == 2
	}, nil)
	if a, b := lanes(one), lanes(two); a != 3 || b != 3 {
		t.Errorf("two have %d and %d lanes", a, b)
	}
}
