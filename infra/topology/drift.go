package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Drift is one field in which an existing stream differs from the table.
type Drift struct {
	Stream string // as the server names it: a bucket's is KV_<bucket> or OBJ_<bucket>
	Field  string
	Want   string
	Have   string
}

// DriftError lists every drift found. Nothing of it was changed: an operator decides, with the nats CLI.
type DriftError struct {
	Drifts []Drift
}

// Error is a diff for a person: one line a field.
func (e *DriftError) Error() string {
	var b strings.Builder
	b.WriteString("streams differ from the table:")
	for _, d := range e.Drifts {
		fmt.Fprintf(&b, "\n  %s: %s: want %s, have %s", d.Stream, d.Field, d.Want, d.Have)
	}
	return b.String()
}

type field struct {
	name       string
	want, have any
}

// diff compares the fields that the table states. Unset and -1 both mean unlimited.
func diff(want, have jetstream.StreamConfig) []Drift {
	subjects := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	limit := func(n int64) int64 { return max(n, 0) }
	fields := []field{
		{"subjects", subjects(want.Subjects), subjects(have.Subjects)},
		{"retention", want.Retention, have.Retention},
		{"storage", want.Storage, have.Storage},
		{"replicas", want.Replicas, have.Replicas},
		{"discard", want.Discard, have.Discard},
		{"compression", want.Compression, have.Compression},
		{"max age", want.MaxAge, have.MaxAge},
		{"max messages", limit(want.MaxMsgs), limit(have.MaxMsgs)},
		{"max bytes", limit(want.MaxBytes), limit(have.MaxBytes)},
		{"max messages per subject", limit(want.MaxMsgsPerSubject), limit(have.MaxMsgsPerSubject)},
		{"max message size", limit(int64(want.MaxMsgSize)), limit(int64(have.MaxMsgSize))},
		{"max consumers", limit(int64(want.MaxConsumers)), limit(int64(have.MaxConsumers))},
		{"deny delete", want.DenyDelete, have.DenyDelete},
		{"deny purge", want.DenyPurge, have.DenyPurge},
		{"allow direct", want.AllowDirect, have.AllowDirect},
		{"allow rollup", want.AllowRollup, have.AllowRollup},
		{"allow message ttl", want.AllowMsgTTL, have.AllowMsgTTL},
		{"allow counters", want.AllowMsgCounter, have.AllowMsgCounter},
		{"allow schedules", want.AllowMsgSchedules, have.AllowMsgSchedules},
		{"delete marker ttl", want.SubjectDeleteMarkerTTL, have.SubjectDeleteMarkerTTL},
		{"no ack", want.NoAck, have.NoAck},
		{"sealed", want.Sealed, have.Sealed},
		{"persist mode", want.PersistMode, have.PersistMode},
	}
	if want.Duplicates > 0 { // the client library chooses the one of buckets
		fields = append(fields, field{"duplicate window", want.Duplicates, have.Duplicates})
	}
	var out []Drift
	for _, f := range fields {
		if w, h := fmt.Sprint(f.want), fmt.Sprint(f.have); w != h {
			out = append(out, Drift{Stream: want.Name, Field: f.name, Want: w, Have: h})
		}
	}
	return out
}
