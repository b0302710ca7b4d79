package eventlog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

func eventIDs(recs []events.Recorded) []string {
	out := []string{}
	for _, r := range recs {
		out = append(out, r.ID)
	}
	return out
}

func TestReadGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recs, last, err := w.log.ReadGroup(t.Context(), part, instance, 0)
	if err != nil || last != 0 || len(recs) != 0 {
		t.Fatalf("empty group: %v, %d, %v", recs, last, err)
	}
	w.append(t, "m1", "m2")
	one := w.land(t, started("s1", "n1"), 0)
	w.append(t, "m3")
	two := w.land(t, closed("c1"), one)
	w.append(t, "m4")
	for after, want := range map[uint64][]string{0: {"s1", "c1"}, one - 1: {"s1", "c1"}, one: {"c1"}, two: {}, two + 1: {}, 99: {}} {
		recs, last, err := w.log.ReadGroup(t.Context(), part, instance, after)
		if err != nil || last != two {
			t.Fatalf("after %d: last %d, %v", after, last, err)
		}
		if diff := cmp.Diff(want, eventIDs(recs)); diff != "" {
			t.Errorf("after %d: %s", after, diff)
		}
		for _, r := range recs {
			if _, ok := r.Body.(*events.DispatchClosed); r.ID == "c1" && !ok {
				t.Error("which messages an end is about is not read")
			}
		}
	}
	// Many others of the partition do not belong to it.
	if _, last, err := w.log.ReadGroup(t.Context(), part, "inst-2", 0); err != nil || last != 0 {
		t.Errorf("of another instance: %d, %v", last, err)
	}
}

func TestReadGroupIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.land(t, started("s1", "n1"), 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := w.log.ReadGroup(ctx, part, instance, 0); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("error = %v", err)
	}
	if _, err := w.log.FindQueued(ctx, part, time.Now(), time.Now(), []string{"m1"}); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("error = %v", err)
	}
}

func TestFindQueued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprintf("m%d", i))
	}
	w.append(t, all...)
	rec, err := w.log.Get(t.Context(), events.EventsStream(part), 10)
	if err != nil {
		t.Fatal(err)
	}
	find := func(since, until time.Time, ids ...string) []string {
		t.Helper()
		found, err := w.log.FindQueued(t.Context(), part, since, until, ids)
		if err != nil {
			t.Fatal(err)
		}
		out := []string{}
		for _, id := range ids {
			if r, ok := found[id]; ok {
				if r.Subject != id || r.Position.Sequence == 0 {
					t.Errorf("%s was found as %+v", id, r)
				}
				out = append(out, id)
			}
		}
		return out
	}
	past, future := rec.Stored.Add(-time.Hour), rec.Stored.Add(time.Hour)
	if diff := cmp.Diff([]string{"m0", "m19"}, find(past, future, "m0", "nobody", "m19")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"m9"}, find(rec.Stored, rec.Stored, "m0", "m9", "m19")); diff != "" {
		t.Errorf("inside the window: %s", diff)
	}
	if diff := cmp.Diff([]string{}, find(future, future, "m0")); diff != "" {
		t.Error(diff)
	}
}
