package dispatcher

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/snapshots"
)

// Snapshots keeps bytes under names; *snapshots.Store does. Errors are those of package snapshots.
type Snapshots interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	Delete(ctx context.Context, name string) error
}

// slots is how many snapshots of a partition are kept: a new one takes the place of the older.
const slots = 2

func (p *partition) slotName(slot int) string {
	return "dispatcher." + p.n.String() + "." + strconv.Itoa(slot)
}

// header is the first line of a snapshot. Its fields keep their meaning in every version: the mark holds also for who cannot
// read the state.
type header struct {
	snapshots.Mark
	Format    int              `json:"format"`
	Partition events.Partition `json:"partition"`
	Queues    int              `json:"queues"`
	Size      int              `json:"size"`   // of the state, in bytes
	Digest    string           `json:"digest"` // SHA-256 of the state
}

// format of the bytes around the states.
const format = 1

// snapshot is one as it was read or is to be kept.
type snapshot struct {
	snapshots.Mark
	at     place
	slot   int
	data   []byte         // to be kept
	queues []*queue.Queue // read; nil when its version is another
	whole  bool           // queues are all there
}

// encode writes the state of every instance at the folded place. The goroutine of the tail calls it between two batches: nothing
// is folded meanwhile.
func (p *partition) encode() []byte {
	p.mu.Lock()
	actors := maps.Clone(p.actors)
	p.mu.Unlock()
	var state []byte
	n := 0
	for _, id := range slices.Sorted(maps.Keys(actors)) {
		a := actors[id]
		a.mu.Lock()
		blank := a.q.Blank()
		var one []byte
		if !blank {
			one = a.q.AppendState(nil)
		}
		a.mu.Unlock()
		if blank {
			continue
		}
		n++
		state = binary.AppendUvarint(state, uint64(len(one)))
		state = append(state, one...)
	}
	sum := sha256.Sum256(state)
	head, err := json.Marshal(header{
		Mark: p.mark(), Format: format, Partition: p.n, Queues: n, Size: len(state), Digest: hex.EncodeToString(sum[:]),
	})
	if err != nil {
		panic(fmt.Sprintf("encode header of a snapshot: %v", err)) // numbers, texts and a time
	}
	return slices.Concat(head, []byte("\n"), state)
}

// decode reads a snapshot. ErrDamaged: it is cut or was changed. One of another version gives its mark only.
func (p *partition) decode(data []byte) (snapshot, error) {
	line, state, _ := bytes.Cut(data, []byte("\n"))
	var h header
	if err := json.Unmarshal(line, &h); err != nil || h.Sequence == 0 || h.Partition != p.n {
		return snapshot{}, fmt.Errorf("header: %w", errors.Join(snapshots.ErrDamaged, err))
	}
	s := snapshot{Mark: h.Mark, at: place{seq: h.Sequence, id: h.EventID}}
	if sum := sha256.Sum256(state); len(state) != h.Size || hex.EncodeToString(sum[:]) != h.Digest {
		return snapshot{}, fmt.Errorf("state: %w", snapshots.ErrDamaged)
	}
	if h.Format == format && h.Fold == queue.StateVersion {
		n, err := hex.Decode(s.at.chain[:], []byte(h.Chain[:min(len(h.Chain), 2*len(s.at.chain))]))
		if s.queues, s.whole = p.states(h.Queues, state); err != nil || n != len(s.at.chain) {
			s.whole = false
		}
	}
	return s, nil
}

// states reads n queues; whole tells that all of them were read.
func (p *partition) states(n int, state []byte) (queues []*queue.Queue, whole bool) {
	for range n {
		size, used := binary.Uvarint(state)
		if used <= 0 || size > uint64(len(state)-used) {
			return queues, false
		}
		q, err := queue.DecodeState(state[used:used+int(size)], p.d.set.Rules)
		if err != nil {
			return queues, false
		}
		queues, state = append(queues, q), state[used+int(size):]
	}
	return queues, true
}

// snapshots reads those that are kept. What is damaged counts as not there.
func (p *partition) snapshots(ctx context.Context) ([]snapshot, error) {
	if p.d.snapshots == nil {
		return nil, nil
	}
	var out []snapshot
	for slot := range slots {
		data, err := p.d.snapshots.Get(ctx, p.slotName(slot))
		var s snapshot
		if err == nil {
			s, err = p.decode(data)
		}
		switch {
		case err == nil:
			if !s.whole {
				p.d.log.Warn().Stringer("partition", p.n).Int("fold", s.Fold).Msg("a snapshot of another version is passed over")
			}
			s.slot = slot
			out = append(out, s)
		case errors.Is(err, snapshots.ErrNone):
		case errors.Is(err, snapshots.ErrDamaged):
			p.d.log.Error().Err(err).Stringer("partition", p.n).Msg("a damaged snapshot is passed over")
		default:
			return nil, err
		}
	}
	return out, nil
}

// newest gives the newest snapshot that can be begun at; nil when there is none.
func newest(found []snapshot) *snapshot {
	usable := slices.DeleteFunc(slices.Clone(found), func(s snapshot) bool { return !s.whole })
	if len(usable) == 0 {
		return nil
	}
	s := slices.MaxFunc(usable, func(a, b snapshot) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return &s
}

// costShare bounds the time that snapshots take the tail: one part in so many.
const costShare = 100

// snapshotIfDue hands a snapshot to watch, when the keeper's is due and the one before is kept. Called between two batches.
func (p *partition) snapshotIfDue() {
	k := &p.keep
	if p.d.snapshots == nil || !p.serves() || !p.keeper() || len(k.out) > 0 || k.accepted { // it would tell the witness before the log
		return
	}
	if k.when.IsZero() {
		k.when = time.Now()
	}
	events, age := p.keep.at.seq-k.made, time.Since(k.when)
	if events == 0 || age < costShare*k.cost || (events < uint64(p.d.set.SnapshotEvery) && age < p.d.set.SnapshotMaxAge) {
		return
	}
	k.out <- p.next()
}

// next makes the next snapshot.
func (p *partition) next() snapshot {
	k := &p.keep
	began := time.Now()
	s := snapshot{Mark: p.mark(), slot: k.slot, data: p.encode()}
	k.cost, k.made, k.when, k.slot = time.Since(began), s.Sequence, time.Now(), 1-k.slot
	return s
}

// put keeps a snapshot, and the witness with it.
func (p *partition) put(ctx context.Context, s snapshot) {
	began := time.Now()
	err := p.log.Durable(ctx)
	if err == nil {
		err = p.d.snapshots.Put(ctx, p.slotName(s.slot), s.data)
	}
	p.lost = err != nil
	if err != nil {
		p.d.metrics.snapshots.WithLabelValues("failed").Inc()
		p.d.log.Warn().Err(err).Stringer("partition", p.n).Msg("snapshot not kept")
		return
	}
	p.d.metrics.snapshots.WithLabelValues("kept").Inc()
	p.testify(ctx, p.mark(), 0)
	p.d.log.Info().Stringer("partition", p.n).Uint64("sequence", s.Sequence).Int("bytes", len(s.data)).Dur("elapsed", time.Since(began)).Msg("snapshot kept")
}

// finish keeps a last snapshot of an orderly stop. The tail and watch have ended; one that watch was keeping was cut off with it.
func (p *partition) finish(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishLimit)
	defer cancel()
	m := p.mark()
	if !p.keeper() || p.ready() != nil || m.Sequence == 0 {
		return
	}
	if p.d.snapshots != nil && (m.Sequence != p.keep.made || p.lost || len(p.keep.out) > 0) {
		p.put(bounded, p.next())
		return
	}
	p.testify(bounded, m, 0)
}

// finishLimit bounds the last snapshot.
const finishLimit = 5 * time.Second
