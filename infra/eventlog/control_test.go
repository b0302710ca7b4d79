package eventlog_test

import (
	"slices"
	"testing"

	"pilotstatus.dev/events"
)

func project(id, name string) events.Event {
	return events.Event{
		Envelope: events.Envelope{ID: id, Type: events.DefinedType(events.KindProject), Source: "pilot/test", Time: epoch},
		Address:  events.ControlSubject(events.KindProject, "shop"),
		Body:     &events.Defined[events.Project]{By: "op", Value: events.Project{ID: "shop", Name: name}},
	}
}

// What was judged against the whole of CONTROL is refused when anything came in between, also of another entity.
func TestNextOfControl(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seq, err := w.log.AppendNext(t.Context(), tenant("c1", "a"), 0)
	if err != nil || seq != 1 {
		t.Fatalf("first = %d, %v", seq, err)
	}
	_, err = w.log.AppendNext(t.Context(), project("c2", "p"), 0)
	wantCode(t, err, events.CodeConflict)
	if last := errorsAs(t, err).Details["last"]; last != uint64(1) {
		t.Errorf("last = %v", last)
	}
	if seq, err = w.log.AppendNext(t.Context(), project("c2", "p"), 1); err != nil || seq != 2 {
		t.Fatalf("second = %d, %v", seq, err)
	}
	// The first one asked again, its acknowledgement lost.
	if seq, err = w.log.AppendNext(t.Context(), tenant("c1", "a"), 0); err != nil || seq != 1 {
		t.Errorf("repeated = %d, %v", seq, err)
	}
	_, err = w.log.AppendNext(t.Context(), tenant("c3", "b"), 7)
	wantCode(t, err, events.CodeConflict)
}

func TestHistoryOfASubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, ev := range []events.Event{tenant("c1", "a"), project("c2", "p"), tenant("c3", "b"), tenant("c4", "c")} {
		if _, err := w.log.AppendNext(t.Context(), ev, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(subject string, after uint64, limit int) (out []string) {
		recs, err := w.log.History(t.Context(), subject, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			out = append(out, r.ID)
		}
		return out
	}
	subject := events.ControlSubject(events.KindTenant, "acme")
	for _, c := range []struct {
		after uint64
		limit int
		want  []string
	}{{0, 10, []string{"c1", "c3", "c4"}}, {1, 10, []string{"c3", "c4"}}, {0, 2, []string{"c1", "c3"}}, {4, 10, nil}, {9, 10, nil}} {
		if got := ids(subject, c.after, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("behind %d, %d of them: %v, want %v", c.after, c.limit, got, c.want)
		}
	}
	if got := ids(events.ControlSubject(events.KindTenant, "nobody"), 0, 10); got != nil {
		t.Errorf("of nobody: %v", got)
	}
}
