package projector

import "pilotstatus.dev/events"

// DigestEvery is the number of events of a partition from one row of table digests to the next.
const DigestEvery = 1000

// run is the digest of the events of a partition up to at. It is whole when it misses none since it began: at the first
// event, or at a multiple of DigestEvery where what came before is not known.
type run struct {
	at     uint64
	digest events.Digest
	whole  bool
}

// digestRow is a row of table digests.
type digestRow struct {
	upTo   uint64
	digest events.Digest
}

// over goes on with events in order, and gives the rows they complete.
func (r run) over(recs []events.Recorded) (run, []digestRow) {
	var rows []digestRow
	for _, rec := range recs {
		seq := rec.Position.Sequence
		taken := rec.Digest != events.Digest{}
		r.whole = r.whole && taken && seq == r.at+1
		if r.whole {
			r.at, r.digest = seq, r.digest.Then(rec.Digest)
		}
		if !taken || seq%DigestEvery != 0 {
			continue
		}
		if r.whole {
			rows = append(rows, digestRow{upTo: seq, digest: r.digest})
		} else {
			r = run{at: seq, whole: true}
		}
	}
	return r, rows
}

var insertDigests = insert("digests", "ON CONFLICT DO NOTHING",
	seqColumn("up_to", func(r *digestRow) uint64 { return r.upTo }),
	column[digestRow]{name: "digest", array: "bytea", pack: pack(func(r *digestRow) []byte { return r.digest[:] })},
)

// checkpoint is a locked row of table checkpoints.
type checkpoint struct {
	seq     uint64
	eventID string
	build   string
	run     run
}

// digested gives what a checkpoint at seq says of a run: a run that does not reach it is not whole and stays as it was.
func (r run) digested() (digest []byte, at int64) {
	if r.digest != (events.Digest{}) {
		digest = r.digest[:]
	}
	return digest, int64(r.at)
}
