package queue

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// StateVersion is the version of the fold and of the bytes that AppendState writes. It changes with either: a state of
// another version is not read, the log is folded anew.
const StateVersion = 11

// ErrState says that bytes are no state of this version.
var ErrState = errors.New("not a state of a queue of this version")

// Blank reports that the queue remembers nothing: a new one answers the same.
func (q *Queue) Blank() bool {
	return len(q.entries)+len(q.bound)+q.pace.len()+len(q.said) == 0 && q.chain.blank() &&
		max(q.opened, q.closed, q.paused, q.resumed, q.draining, q.parked, q.unparked, q.wide, q.doubt.seq) == 0 &&
		q.left.IsZero()
}

// AppendState appends the state of the queue to b and gives the result. The same state gives the same bytes. Rules, postponed
// and looked up messages and whose turn it is are no part of it.
func (q *Queue) AppendState(b []byte) []byte {
	w := writer{b: b, places: map[string]uint64{}}
	w.uint(StateVersion)
	w.text(q.instance)
	w.base = max(0, q.latest.Unix())
	w.uint(uint64(w.base))
	w.time(q.latest)
	w.time(q.trimmed)
	w.time(q.left)
	for _, n := range []uint64{q.floor, q.opened, q.closed, q.paused, q.resumed, q.draining, q.parked, q.unparked, q.wide} {
		w.uint(n)
	}
	w.uint(q.doubt.upTo)
	w.uint(q.doubt.seq)
	w.time(q.doubt.since)
	w.chain(&q.chain)
	w.pace(&q.pace)
	w.said(q.said)
	ids := make([]string, 0, len(q.bound))
	for id := range q.bound {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	w.uint(uint64(len(ids)))
	for _, id := range ids {
		w.text(id)
		w.time(q.bound[id])
	}
	type keyed struct { // beside its key: sorting a million does not follow as many pointers
		seq uint64
		e   *Entry
	}
	es := make([]keyed, 0, len(q.entries))
	for _, e := range q.entries {
		es = append(es, keyed{e.QueuedSeq, e})
	}
	slices.SortFunc(es, func(x, y keyed) int {
		if x.seq != y.seq {
			return cmp.Compare(x.seq, y.seq)
		}
		return cmp.Compare(x.e.ID, y.e.ID)
	})
	w.b = slices.Grow(w.b, 40*len(es))
	w.uint(uint64(len(es)))
	for _, k := range es {
		w.entry(k.e)
	}
	return w.b
}

// DecodeState gives the queue whose state b holds, and which answers as the one that wrote it. Its error wraps ErrState.
func DecodeState(b []byte, rules Rules) (*Queue, error) {
	r := reader{b: b}
	if v := r.uint(); v != StateVersion {
		return nil, fmt.Errorf("%w: version %d", ErrState, v)
	}
	q := New(r.text(), rules)
	r.base = int64(min(r.uint(), 1<<40))
	q.latest, q.trimmed, q.left = r.time(), r.time(), r.time()
	for _, n := range []*uint64{&q.floor, &q.opened, &q.closed, &q.paused, &q.resumed, &q.draining, &q.parked, &q.unparked, &q.wide} {
		*n = r.uint()
	}
	q.doubt = doubt{upTo: r.uint(), seq: r.uint(), since: r.time()}
	q.chain = r.chain()
	q.pace = r.pace()
	q.said = r.said()
	for range r.count(2) {
		id := r.text()
		q.bound[id] = r.time()
	}
	n := r.count(minEntry)
	q.entries = make(map[string]*Entry, n)
	q.ix.deadlines, q.ix.waiting = make(places, 0, n), make(places, 0, n)
	for range n {
		e := r.entry()
		if r.bad || q.entries[e.ID] != nil {
			return nil, fmt.Errorf("%w: an entry does not decode", ErrState)
		}
		if e.queued {
			e.Lane.Instance = q.instance
		}
		q.entries[e.ID] = e
		q.reindex(e)
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: it is cut or too long", ErrState)
	}
	return q, nil
}

// Instance is whose queue it is.
func (q *Queue) Instance() string { return q.instance }

// writer appends in a compact form: numbers as varints, ids of known shape as their bytes, times to a base, names once.
type writer struct {
	b      []byte
	base   int64  // seconds since 1970
	seq    uint64 // of the entry before
	places map[string]uint64
}

func (w *writer) uint(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *writer) bools(x, y bool) {
	n := uint64(0)
	if x {
		n |= 1
	}
	if y {
		n |= 2
	}
	w.uint(n)
}

// Shapes of a text.
const (
	shapePlain   = iota
	shapeMessage // "msg_" and 32 hex digits
	shapeUUID
)

const messagePrefix = "msg_"

func (w *writer) text(s string) {
	if len(s) == len(messagePrefix)+32 && strings.HasPrefix(s, messagePrefix) {
		if raw, ok := lowerHex(s[len(messagePrefix):]); ok {
			w.uint(shapeMessage)
			w.b = append(w.b, raw[:]...)
			return
		}
	}
	if len(s) == 36 {
		if id, err := uuid.Parse(s); err == nil && id.String() == s {
			w.uint(shapeUUID)
			w.b = append(w.b, id[:]...)
			return
		}
	}
	w.uint(uint64(len(s)) << 2) // shapePlain
	w.b = append(w.b, s...)
}

// lowerHex reads 32 lower-case digits.
func lowerHex(s string) (raw [16]byte, ok bool) {
	digit := func(c byte) byte {
		switch {
		case '0' <= c && c <= '9':
			return c - '0'
		case 'a' <= c && c <= 'f':
			return c - 'a' + 10
		}
		return 0xff
	}
	for i := range raw {
		h, l := digit(s[2*i]), digit(s[2*i+1])
		if h|l > 0xf {
			return raw, false
		}
		raw[i] = h<<4 | l
	}
	return raw, true
}

// name writes a text that comes again and again: whole the first time, then by its number.
func (w *writer) name(s string) {
	if n, ok := w.places[s]; ok {
		w.uint(n)
		return
	}
	w.uint(0)
	w.text(s)
	w.places[s] = uint64(len(w.places)) + 1
}

func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.uint(0)
		return
	}
	d := t.Unix() - w.base
	w.uint(uint64((d<<1)^(d>>63)) + 1) // the sign last
	if ns := uint64(t.Nanosecond()); ns%1_000_000 == 0 {
		w.uint(ns / 1_000_000 << 1)
	} else {
		w.uint(ns<<1 | 1)
	}
}

func (w *writer) entry(e *Entry) {
	w.text(e.ID)
	w.bools(e.queued, len(e.Record()) > 0)
	w.uint(e.QueuedSeq - w.seq) // sorted
	w.seq = e.QueuedSeq
	if e.queued {
		w.name(string(e.Lane.Class))
		w.name(e.Lane.Tenant)
		w.uint(uint64(e.Lane.Slot))
		w.time(e.AcceptedAt)
		w.time(e.DeliverAt)
		w.time(e.DeliverUntil)
	}
	if len(e.Record()) == 0 {
		return
	}
	w.uint(uint64(len(e.Record())))
	for _, f := range e.Record() {
		w.uint(uint64(f.Kind))
		w.uint(f.Seq)
		w.uint(uint64(f.Attempt))
		w.bools(f.Called, f.Free)
		w.bools(f.Presumed, false)
		w.time(f.At)
		w.time(f.DueAt)
		w.text(f.Nonce)
		w.text(f.GatewayID)
		w.name(string(f.Code))
		w.name(f.Reason)
	}
}

// The least bytes of an entry and of a fact: they bound what a count may ask for.
const (
	minEntry = 3
	minFact  = 11
)

type reader struct {
	b     []byte
	bad   bool
	base  int64
	seq   uint64
	names []string
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads how many things of at least size bytes follow.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.b)/size) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return make([]byte, min(n, 16))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) bools() (x, y bool) {
	n := r.uint()
	return n&1 != 0, n&2 != 0
}

func (r *reader) text() string {
	switch n := r.uint(); {
	case n&3 == shapePlain:
		return string(r.take(n >> 2))
	case n == shapeMessage:
		return messagePrefix + hex.EncodeToString(r.take(16))
	case n == shapeUUID:
		return uuid.UUID(r.take(16)).String()
	}
	r.bad = true
	return ""
}

func (r *reader) name() string {
	n := r.uint()
	if n == 0 {
		r.names = append(r.names, r.text())
		n = uint64(len(r.names))
	}
	if n > uint64(len(r.names)) {
		r.bad = true
		return ""
	}
	return r.names[n-1]
}

func (r *reader) time() time.Time {
	z := r.uint()
	if z == 0 {
		return time.Time{}
	}
	z--
	ns := r.uint()
	if ns&1 == 0 {
		ns *= 1_000_000
	}
	return time.Unix(r.base+(int64(z>>1)^-int64(z&1)), int64(ns>>1)).UTC()
}

func (r *reader) entry() *Entry {
	e := &Entry{ID: r.text()}
	var more bool
	e.queued, more = r.bools()
	r.seq += r.uint()
	e.QueuedSeq = r.seq
	if e.queued {
		e.Lane.Class, e.Lane.Tenant, e.Lane.Slot = events.Class(r.name()), r.name(), uint8(r.uint())
		e.AcceptedAt, e.DeliverAt, e.DeliverUntil = r.time(), r.time(), r.time()
	}
	if !more {
		return e
	}
	n := r.count(minFact)
	facts := make(message.Record, 0, n)
	for range n {
		f := message.Fact{Kind: message.Kind(r.uint()), Seq: r.uint(), Attempt: int(min(r.uint(), 1<<16))}
		f.Called, f.Free = r.bools()
		f.Presumed, _ = r.bools()
		f.At, f.DueAt, f.Nonce, f.GatewayID = r.time(), r.time(), r.text(), r.text()
		f.Code, f.Reason = events.ErrorCode(r.name()), r.name()
		facts = append(facts, f)
	}
	e.take(facts)
	return e
}
