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

// A long way is read with a consumer, and nothing is left out where the two ways meet.
func TestReadGroupFromFarBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	last := uint64(0)
	for i := range 50 {
		id := fmt.Sprintf("s%d", i)
		last = w.land(t, started(id, id), last)
		want = append(want, id)
		w.append(t, "between"+id)
	}
	for _, n := range []int{0, 1, 15, 16, 17, 33, 34, 35, 49, 50} {
		after := last - 2*uint64(50-n)
		if n == 0 {
			after = 0
		}
		recs, got, err := w.log.ReadGroup(t.Context(), part, instance, after)
		if err != nil || got != last {
			t.Fatalf("%d read before: last %d, %v", n, got, err)
		}
		if diff := cmp.Diff(want[n:], eventIDs(recs)); diff != "" {
			t.Errorf("%d read before: %s", n, diff)
		}
	}
}

// What somebody else appends meanwhile is read or stands behind what is given: never is the end beyond what was read.
func TestReadGroupWhileItGrows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		last := uint64(0)
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			var err error
			if last, err = w.log.AppendFenced(context.WithoutCancel(t.Context()), part, instance, started(fmt.Sprintf("s%d", i), "n"), last); err != nil {
				done <- err
				return
			}
		}
	}()
	at := uint64(0)
	for range 60 {
		recs, last, err := w.log.ReadGroup(t.Context(), part, instance, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			if r.Prev != at {
				t.Fatalf("after %d comes one that names %d", at, r.Prev)
			}
			at = r.Position.Sequence
		}
		if last != at {
			t.Fatalf("the end is %d, read up to %d", last, at)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
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
