package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/snapshots"
)

// endedLog ends at a sequence; every event has the id "e".
type endedLog struct {
	last uint64
	err  error
}

func (l endedLog) LastSequence(context.Context, string) (uint64, error) { return l.last, l.err }

func (l endedLog) GetLeader(context.Context, string, uint64) (events.Recorded, error) {
	return events.Recorded{Event: events.Event{Envelope: events.Envelope{ID: "e"}}}, l.err
}

func TestGuard(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	read := func(seq uint64, id string, err error) func(context.Context, events.Partition) (snapshots.Mark, error) {
		return func(_ context.Context, p events.Partition) (snapshots.Mark, error) {
			return snapshots.Mark{Sequence: seq * uint64(p), EventID: id}, err
		}
	}
	at := func(seq uint64, err error) func(context.Context, events.Partition) (snapshots.Mark, error) {
		return read(seq, "e", err)
	}
	for _, c := range []struct {
		name       string
		log        endedLog
		witness    string
		checkpoint func(context.Context, events.Partition) (snapshots.Mark, error)
		fault      string // of partition 1; "" when it may be appended to
	}{
		{name: "nothing known", log: endedLog{last: 5}},
		{name: "the same log", log: endedLog{last: 5}, witness: `{"sequence":5,"eventId":"e"}`, checkpoint: at(5, nil)},
		{name: "behind the witness", log: endedLog{last: 5}, witness: `{"sequence":6,"eventId":"e"}`, fault: "the witness"},
		{name: "another than the witness's", log: endedLog{last: 5}, witness: `{"sequence":4,"eventId":"x"}`, fault: "the witness"},
		{name: "behind the view", log: endedLog{last: 5}, checkpoint: at(6, nil), fault: "the checkpoint of the view"},
		{name: "another than the view's", log: endedLog{last: 5}, checkpoint: read(4, "x", nil), fault: "the checkpoint of the view"},
		{name: "a view that names no event", log: endedLog{last: 5}, checkpoint: read(4, "", nil)},
		{name: "a witness that does not decode", log: endedLog{last: 5}, witness: `{`, fault: "damaged"},
		{name: "Postgres is down", log: endedLog{last: 5}, checkpoint: at(9, down)},
		{name: "the log does not answer", log: endedLog{last: 5, err: down}, witness: `{"sequence":6,"eventId":"e"}`, checkpoint: at(6, nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.witness != "" {
				if err := os.WriteFile(filepath.Join(dir, "1.json"), []byte(c.witness), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			g := &guard{
				log: c.log, witness: snapshots.NewWitness(dir), checkpoint: c.checkpoint, partitions: []events.Partition{0, 1}, logger: zerolog.Nop(),
			}
			err := g.look(t.Context())
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("found %v", err)
			}
			address := func(p events.Partition) string { return events.EventSubject(p, "inst-1", events.GroupEvidence, "late") }
			if err := g.admit(address(0)); err != nil {
				t.Errorf("the other partition: %v", err)
			}
			if err := g.admit(address(1)); (err != nil) != (c.fault != "") {
				t.Errorf("an append: %v", err)
			}
			if c.fault == "" {
				return
			}
			ev := events.Event{Address: address(1)}
			_, api := guardedAPILog{apiLog{}, g}.Append(t.Context(), ev)
			_, plain := guardedLog{(*eventlog.Log)(nil), g}.Append(t.Context(), ev)
			_, fenced := guardedLog{(*eventlog.Log)(nil), g}.AppendFenced(t.Context(), 1, "inst-1", ev, 0)
			for who, err := range map[string]error{"API": api, "correlator": plain, "correlator, fenced": fenced} {
				if events.CodeOf(err) != events.CodeUnavailable {
					t.Errorf("%s: %v", who, err)
				}
			}
		})
	}
}

func TestAcceptLog(t *testing.T) {
	t.Parallel()
	got, err := acceptLog([]string{"2:17", "0:0"})
	if err != nil || len(got) != 2 || got[2] != 17 {
		t.Errorf("%v, %v", got, err)
	}
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	c.AcceptLog = []string{"17"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--accept-log 17") {
		t.Errorf("validate: %v", err)
	}
}
