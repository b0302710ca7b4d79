package dispatcher

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/evolutionsim"
)

// history reads the whole log, of what partitions there are.
func (r *rig) history() (out []events.Recorded) {
	r.t.Helper()
	for p := range events.Partition(r.parts) {
		if !r.lost[p] {
			out = append(out, r.read(p)...)
		}
	}
	return out
}

func (r *rig) read(p events.Partition) []events.Recorded {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last := r.end(p)
	var out []events.Recorded
	for seq := uint64(1); seq <= last; seq++ {
		rec, err := r.reads.Get(ctx, events.EventsStream(p), seq)
		switch {
		case events.CodeOf(err) == events.CodeMalformed: // published by hand
			rec.Address, rec.Position = events.EventSubject(p, instanceID, events.GroupDispatch, "malformed"), events.Position{Partition: p, Sequence: seq}
		case err != nil:
			r.t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

// end is the last sequence of a partition.
func (r *rig) end(p events.Partition) uint64 {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last, err := r.reads.LastSequence(ctx, events.EventsStream(p))
	if err != nil {
		r.t.Fatal(err)
	}
	return last
}

func (r *rig) state(id string) (message.State, message.View) {
	s := message.State{ID: id}
	for _, rec := range r.history() {
		s = s.Apply(rec)
	}
	return s, s.View()
}

// await polls until the view of a message satisfies want.
func (r *rig) await(id, what string, want func(message.View) bool) message.View {
	r.t.Helper()
	var v message.View
	eventually(r.t, what, func() bool {
		_, v = r.state(id)
		return want(v)
	}, func() string { return fmt.Sprintf("%+v\n%s", v, r.story(id)) })
	return v
}

func (r *rig) awaitStage(id string, stage events.Stage) message.View {
	r.t.Helper()
	return r.await(id, string(stage), func(v message.View) bool { return v.Stage == stage })
}

// awaitUnknown waits until the log says that an attempt is unknown. The stage may be another one by the time somebody looks.
func (r *rig) awaitUnknown(id string) {
	r.t.Helper()
	eventually(r.t, "unknown", func() bool { return r.count(id, events.TypeDispatchUnknown) > 0 }, func() string { return r.story(id) })
}

// called counts the attempts of a message that may have reached the gateway. A start that its last check stopped, as on a machine that
// stood still, is none of them, and another one follows it.
func (r *rig) called(id string) (n int) {
	r.t.Helper()
	s, _ := r.state(id)
	for _, at := range s.Record.Summarize().Attempts {
		if at.State != message.AttemptDeferred || at.Called {
			n++
		}
	}
	return n
}

func (r *rig) story(id string) string {
	out := ""
	for _, rec := range r.history() {
		for _, m := range message.Subjects(rec) {
			if m.ID == id {
				out += fmt.Sprintf("  %s %s attempt %d %+v\n", rec.Position, rec.Type, rec.Attempt, rec.Body)
			}
		}
	}
	return out
}

// eventually polls to a deadline.
func eventually(t testing.TB, what string, ok func() bool, say func() string) {
	t.Helper()
	awaittest.Eventually(t, patience, 10*time.Millisecond, what, ok, say)
}

// ledger counts what the gateway took of a text.
func (r *rig) ledger(text string) int {
	return len(r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries)
}

func (r *rig) fault(f evolutionsim.Fault) {
	r.t.Helper()
	if _, err := r.sim.AddFault(f); err != nil {
		r.t.Fatal(err)
	}
}

// count counts the events of a type about a message.
func (r *rig) count(id, typ string) int {
	n := 0
	for _, rec := range r.history() {
		for _, m := range message.Subjects(rec) {
			if m.ID == id && rec.Type == typ {
				n++
			}
		}
	}
	return n
}
