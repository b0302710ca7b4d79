package snapshots

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pilotstatus.dev/events"
)

// madeLog has one event for each id.
type madeLog struct {
	ids []string
	err error
}

func (l madeLog) LastSequence(context.Context, string) (uint64, error) {
	return uint64(len(l.ids)), nil
}

func (l madeLog) GetLeader(_ context.Context, _ string, seq uint64) (events.Recorded, error) {
	rec := events.Recorded{Event: events.Event{Envelope: events.Envelope{ID: l.ids[seq-1]}}}
	return rec, l.err
}

func TestCheck(t *testing.T) {
	t.Parallel()
	outage := events.Errorf(events.CodeUnavailable, "no answer")
	for _, c := range []struct {
		name  string
		log   madeLog
		mark  Mark
		found string // of a disagreement
		err   error
	}{
		{name: "the same", log: madeLog{ids: []string{"a", "b"}}, mark: Mark{Sequence: 2, EventID: "b"}},
		{name: "grown", log: madeLog{ids: []string{"a", "b", "c"}}, mark: Mark{Sequence: 2, EventID: "b"}},
		{name: "behind", log: madeLog{ids: []string{"a"}}, mark: Mark{Sequence: 2, EventID: "b"}, found: "does not reach"},
		{name: "grown again, otherwise", log: madeLog{ids: []string{"a", "x", "y"}}, mark: Mark{Sequence: 2, EventID: "b"}, found: "different"},
		{name: "a hole", log: madeLog{ids: []string{"a", "b"}, err: events.Errorf(events.CodeNotFound, "none")}, mark: Mark{Sequence: 2, EventID: "b"}, found: "missing"},
		{name: "does not decode", log: madeLog{ids: []string{"a", ""}, err: events.Errorf(events.CodeMalformed, "bad")}, mark: Mark{Sequence: 2, EventID: "b"}},
		{name: "nothing seen", log: madeLog{}},
		{name: "no id, reached", log: madeLog{ids: []string{"a", "x"}}, mark: Mark{Sequence: 2}},
		{name: "no id, behind", log: madeLog{ids: []string{"a"}}, mark: Mark{Sequence: 2}, found: "does not reach"},
		{name: "no answer", log: madeLog{ids: []string{"a", "b"}, err: outage}, mark: Mark{Sequence: 2, EventID: "b"}, err: outage},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := Check(t.Context(), c.log, 3, c.mark, "the witness")
			var d *Disagreement
			switch {
			case c.found != "":
				if !errors.As(err, &d) || !strings.Contains(d.Error(), c.found) || !strings.Contains(d.Error(), "--accept-log 3:") {
					t.Errorf("error = %v", err)
				}
			case !errors.Is(err, c.err):
				t.Errorf("error = %v", err)
			}
		})
	}
}
