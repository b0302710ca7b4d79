package dispatcher

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/snapshots"
)

// Witness keeps marks where no restore of the log reaches; *snapshots.Witness does. Errors are those of package snapshots.
type Witness interface {
	Read(name string) (snapshots.Mark, error)
	Write(name string, m snapshots.Mark) error
	Remove(name string) error
}

// place is how far a partition is folded, with a digest of every event's id up to there.
type place struct {
	seq   uint64
	id    string
	chain [sha256.Size]byte
}

// next is the place after one more event.
func (pl place) next(rec events.Recorded) place {
	h := sha256.New()
	h.Write(pl.chain[:])
	var seq [8]byte
	binary.BigEndian.PutUint64(seq[:], rec.Position.Sequence)
	h.Write(seq[:])
	h.Write([]byte(rec.ID))
	out := place{seq: rec.Position.Sequence, id: rec.ID}
	h.Sum(out.chain[:0])
	return out
}

// keeping is what a partition knows of its own past. Fields without another word belong to the goroutine of the tail.
type keeping struct {
	loaded    bool
	expect    []expected // marks the fold has not reached yet
	accepted  bool       // by an operator's word, not yet on record
	divergent error      // what was folded is not what a mark says; for good

	at         place              // guarded by partition.mu
	restored   uint64             // guarded by partition.mu: see snapshots.Mark
	restoredAt time.Time          // guarded by partition.mu
	doubt      error              // guarded by partition.mu: the log is not the one that was folded
	cut        context.CancelFunc // guarded by partition.mu: of the tail

	slot int // the next snapshot takes
	made uint64
	when time.Time
	cost time.Duration
	out  chan snapshot // to keep
	mute bool          // the witness cannot be written, and that was said; belongs to watch
}

// expected is a mark that must be found, and who has it.
type expected struct {
	snapshots.Mark
	who string
}

func (p *partition) mark() snapshots.Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return snapshots.Mark{
		Sequence: p.keep.at.seq, EventID: p.keep.at.id, Chain: hex.EncodeToString(p.keep.at.chain[:]), Fold: queue.StateVersion,
		Restored: p.keep.restored, RestoredAt: p.keep.restoredAt,
	}
}

// trust says whether the log may be followed: it holds what this process, its witness and the snapshots have seen of it.
// The first time it loads the newest snapshot.
func (p *partition) trust(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, trustLimit)
	defer cancel()
	switch {
	case p.keep.divergent != nil:
		return p.keep.divergent
	case !p.keep.loaded:
		if err := p.load(bounded); err != nil {
			return err
		}
		p.keep.loaded = true
		return nil
	}
	m := p.mark()
	if m.Sequence == 0 {
		return nil
	}
	return snapshots.Check(bounded, p.log, p.n, m, "this process")
}

// trustLimit bounds a load, which may bring a large snapshot.
const trustLimit = 3 * time.Minute

// load compares every mark there is with the log and begins at the newest snapshot that can be read, or at the first event.
func (p *partition) load(ctx context.Context) error {
	found, err := p.snapshots(ctx)
	if err != nil {
		return err
	}
	marks := make([]expected, 0, len(found)+1)
	for _, s := range found {
		marks = append(marks, expected{s.Mark, "a snapshot"})
	}
	var fault error
	if w := p.d.witness; w != nil {
		switch m, err := w.Read(p.n.String()); {
		case err == nil:
			marks = append(marks, expected{m, "the witness"})
		case errors.Is(err, snapshots.ErrNone):
		case errors.Is(err, snapshots.ErrDamaged):
			fault = err
		default:
			return err
		}
	}
	last, err := p.log.LastSequence(ctx, events.EventsStream(p.n))
	if err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	if fault != nil {
		fault = &snapshots.Disagreement{Partition: p.n, Last: last, Witness: "the witness", Found: fault.Error()}
	}
	seen, err := p.seenByView(ctx)
	if err != nil {
		return err
	}
	fault = errors.Join(fault, seen)
	for _, m := range marks {
		err := snapshots.Check(ctx, p.log, p.n, m.Mark, m.who)
		var d *snapshots.Disagreement
		switch {
		case errors.As(err, &d):
			fault = errors.Join(fault, err)
		case err != nil:
			return err
		}
	}
	var restored snapshots.Mark
	for _, m := range marks {
		if m.Restored > restored.Restored {
			restored = m.Mark
		}
	}
	if fault != nil {
		word, given, err := p.word(ctx, last)
		switch {
		case err != nil:
			return err
		case !given:
			return fault
		}
		p.d.log.Warn().Stringer("partition", p.n).Uint64("last", word).AnErr("although", fault).Msg("the log is accepted by an operator's word; what is pending is looked up first")
		p.begin(nil, word, p.d.set.Now().UTC())
		p.keep.accepted = true
		return nil
	}
	p.begin(newest(found), restored.Restored, restored.RestoredAt)
	for _, m := range marks {
		if m.Sequence > p.keep.at.seq {
			p.keep.expect = append(p.keep.expect, m)
		}
	}
	return nil
}

// word gives an operator's word for the log as it ends now. What the word itself has appended may stand behind it: whoever was to
// keep it on record may have died before witness and snapshots knew, or it is another dispatcher's.
func (p *partition) word(ctx context.Context, last uint64) (word uint64, given bool, err error) {
	word, given = p.d.set.Accept[p.n]
	for seq := last; given && seq > word; seq-- {
		rec, err := p.log.GetLeader(ctx, events.EventsStream(p.n), seq)
		if err != nil && events.CodeOf(err) != events.CodeMalformed {
			return 0, false, fmt.Errorf("read what follows the accepted log: %w", err)
		}
		body, ours := rec.Body.(*events.DispatchRestored)
		given = ours && body.UpTo == word
	}
	return word, given && word <= last, nil
}

// seenByView compares the log with what a view has read of it. Sending does not wait for Postgres (promise P7).
func (p *partition) seenByView(ctx context.Context) (fault, err error) {
	if p.d.checkpoint == nil {
		return nil, nil
	}
	bounded, cancel := context.WithTimeout(ctx, checkpointLimit)
	defer cancel()
	m, err := p.d.checkpoint(bounded, p.n)
	if err != nil {
		p.d.log.Warn().Err(err).Stringer("partition", p.n).Msg("the view cannot be asked how far it has read; its word is passed over")
		return nil, nil
	}
	err = snapshots.Check(ctx, p.log, p.n, m, snapshots.ByView)
	var d *snapshots.Disagreement
	if errors.As(err, &d) {
		return err, nil
	}
	return nil, err
}

// checkpointLimit bounds the question to the view.
const checkpointLimit = 2 * time.Second

// begin puts the fold at a snapshot, or before the first event.
func (p *partition) begin(s *snapshot, restored uint64, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep.restored, p.keep.restoredAt = restored, at
	if s == nil {
		return
	}
	p.keep.at, p.folded = s.at, s.at.seq
	p.keep.made, p.keep.when, p.keep.slot = s.at.seq, time.Now(), 1-s.slot
	for _, q := range s.queues {
		a := newActor(p, q.Instance())
		a.q = q
		p.actors[a.id] = a
	}
	p.d.log.Info().Stringer("partition", p.n).Uint64("sequence", s.at.seq).Int("instances", len(s.queues)).Msg("begun at a snapshot")
}

// walk moves the place over a batch before it is folded. It fails where a mark says something else.
func (p *partition) walk(recs []events.Recorded) (place, error) {
	at := p.keep.at // written by this goroutine only
	for _, rec := range recs {
		at = at.next(rec)
		for _, m := range p.keep.expect {
			if m.Sequence != at.seq || (m.EventID == at.id && m.Chain == hex.EncodeToString(at.chain[:])) {
				continue
			}
			p.keep.divergent = &snapshots.Disagreement{
				Partition: p.n, Sequence: m.Sequence, Last: at.seq, Witness: m.who, Found: "what was folded up to there is something else",
			}
			return place{}, p.keep.divergent
		}
	}
	return at, nil
}

// doubts remembers a disagreement until trust finds none.
func (p *partition) doubts(err error) {
	var d *snapshots.Disagreement
	if errors.As(err, &d) {
		p.mu.Lock()
		p.keep.doubt = err
		p.mu.Unlock()
	}
}

// enter is the moment in which the fold reaches the end of the log for the first time: an operator's word goes on record, in the
// log and then in snapshots and witness, before anything is started. It is not done while the fold does not show the record.
func (p *partition) enter(ctx context.Context) (done bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, trustLimit)
	defer cancel()
	if shown, err := p.recordRestored(bounded); err != nil || !shown {
		return false, err
	}
	if !p.keep.accepted {
		return true, nil
	}
	if err := p.log.Durable(bounded); err != nil {
		return false, err
	}
	m := p.mark()
	if p.d.snapshots != nil {
		for slot := range slots {
			if err := p.d.snapshots.Delete(bounded, p.slotName(slot)); err != nil {
				return false, err
			}
		}
		if m.Sequence > 0 {
			if err := p.d.snapshots.Put(bounded, p.slotName(0), p.encode()); err != nil {
				return false, err
			}
		}
		p.keep.slot, p.keep.made, p.keep.when = 1, m.Sequence, time.Now()
	}
	if w := p.d.witness; w != nil {
		name := p.n.String()
		keep := func() error { return w.Write(name, m) }
		if m.Sequence == 0 { // an empty log has no place to remember
			keep = func() error { return w.Remove(name) }
		}
		if err := keep(); err != nil {
			return false, err
		}
	}
	p.keep.accepted = false
	return true, nil
}

// watch looks again and again whether the log still holds what was folded, and keeps the witness and the snapshots. The witness is
// this machine's own: each of those that work in the partition keeps one.
func (p *partition) watch(ctx context.Context) {
	tick := time.NewTicker(p.d.set.WitnessEvery)
	defer tick.Stop()
	var seen uint64
	var before snapshots.Mark
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-p.keep.out:
			p.put(ctx, s)
		case <-tick.C:
			p.askClock(ctx)
			if p.ready() != nil {
				continue
			}
			// The mark of the last look too: a log that was replaced since may have been read on, and agrees with the new one.
			if before.Sequence != 0 {
				seen = p.attest(ctx, before, seen)
			}
			if m := p.mark(); m.Sequence != 0 && m.Sequence != before.Sequence && p.ready() == nil {
				seen = p.attest(ctx, m, seen)
				before = m
			}
		}
	}
}

// attest gives the sequence of the mark that the witness has.
func (p *partition) attest(ctx context.Context, m snapshots.Mark, seen uint64) uint64 {
	bounded, cancel := context.WithTimeout(ctx, p.d.set.AppendTry)
	defer cancel()
	err := snapshots.Check(bounded, p.log, p.n, m, "this process")
	var d *snapshots.Disagreement
	if errors.As(err, &d) {
		p.stop(d)
		return seen
	}
	if err != nil || m.Sequence == seen || !p.serves() {
		return seen
	}
	return p.testify(bounded, m, seen)
}

// testify writes the witness once what it says is on disk.
func (p *partition) testify(ctx context.Context, m snapshots.Mark, seen uint64) uint64 {
	if p.d.witness == nil {
		return seen
	}
	err := p.log.Durable(ctx)
	if err == nil {
		err = p.d.witness.Write(p.n.String(), m)
	}
	if err != nil {
		level := zerolog.WarnLevel
		if p.keep.mute {
			level = zerolog.DebugLevel
		}
		p.keep.mute = true
		p.d.log.WithLevel(level).Err(err).Stringer("partition", p.n).Msg("witness not written: should the log lose events, this data directory will not notice")
		return seen
	}
	p.keep.mute = false
	return m.Sequence
}

// stop stops the partition at once: the tail ends, and begins again when the log is the one that was folded.
func (p *partition) stop(d *snapshots.Disagreement) {
	p.mu.Lock()
	p.keep.doubt = d
	cut := p.keep.cut
	p.mu.Unlock()
	p.d.members.tell()
	cut() // there is a tail: something was folded
}

// errHalted is why nothing is appended to a log that is not the one that was folded.
var errHalted = errors.New("the partition is stopped")

// halted reports that the log is not the one that was folded.
func (p *partition) halted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keep.doubt != nil
}
