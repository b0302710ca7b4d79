package queue

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// Bounds of what is remembered of the texts that left: beyond them a repeated message goes out.
const (
	keptSaid = 4096
	keepSaid = time.Hour
)

// saying is a start that told what it would say to whom (ce-texthash).
type saying struct {
	seq      uint64
	at       int64 // Unix nanoseconds
	to, text [8]byte
	id       string
	idle     bool // it had no effect
	failed   bool // a receipt says that it failed after the gateway took it
	arrived  bool // a receipt says that it was delivered or read: stronger than failed, in any order (promise P4)
}

// stands reports whether it counts as said. What failed does not: the customer heard so, and may send it again.
func (s saying) stands() bool { return !s.idle && (!s.failed || s.arrived) }

// TextHash puts the keyed hashes of a recipient and of what is said to them into the form of ce-texthash; "" when they are too short.
func TextHash(recipient, text string) string {
	const digits = 2 * len(saying{}.to)
	if len(recipient) < digits || len(text) < digits {
		return ""
	}
	return recipient[:digits] + "." + text[:digits]
}

func readTextHash(s string) (to, text [8]byte, ok bool) {
	a, b, _ := strings.Cut(s, ".")
	if len(a) != 2*len(to) || len(b) != 2*len(text) {
		return to, text, false
	}
	_, err := hex.Decode(to[:], []byte(a))
	if err == nil {
		_, err = hex.Decode(text[:], []byte(b))
	}
	return to, text, err == nil
}

// noteSaid takes in what a start says, and which starts of the entry had no effect, as its facts tell of them now.
func (q *Queue) noteSaid(e *Entry, rec events.Recorded, kind message.Kind) {
	find := func(seq uint64) (int, bool) {
		return slices.BinarySearchFunc(q.said, seq, func(s saying, seq uint64) int { return cmp.Compare(s.seq, seq) })
	}
	if to, text, ok := readTextHash(rec.TextHash); ok && kind == message.KindStarted {
		s := saying{seq: rec.Position.Sequence, at: rec.Time.UnixNano(), to: to, text: text, id: e.ID}
		if i, found := find(s.seq); !found && (len(q.said) < keptSaid || i > 0) {
			q.said = slices.Insert(q.said, i, s)
			q.said = q.said[max(0, len(q.said)-keptSaid):]
		}
	}
	if len(q.said) == 0 {
		return
	}
	for _, a := range e.sum().Attempts {
		if i, found := find(a.StartSeq); found {
			switch a.State {
			case message.AttemptDeferred, message.AttemptRefused, message.AttemptDisproved:
				q.said[i].idle = true
			default:
				q.said[i].idle = false
			}
		}
	}
}

// noteReceipt takes in what a receipt says of a message whose texts are remembered, also when its entry is gone. It decides nothing else here.
func (q *Queue) noteReceipt(rec events.Recorded) {
	f, ok := message.FactOf(rec)
	if !ok || rec.Subject == "" {
		return
	}
	for i := range q.said {
		if s := &q.said[i]; s.id == rec.Subject {
			s.failed = s.failed || f.Kind == message.KindFailed
			s.arrived = s.arrived || f.Kind == message.KindDelivered || f.Kind == message.KindRead
		}
	}
}

// trimSaid lets go of what is older than any window.
func (q *Queue) trimSaid() {
	oldest := q.latest.Add(-keepSaid).UnixNano()
	n := 0
	for n < len(q.said) && q.said[n].at < oldest {
		n++
	}
	if n > 0 {
		q.said = append([]saying(nil), q.said[n:]...)
	}
}

// Repeats reports whether a message would say to its recipient again what the last one to them said less than Suppress ago. What had no
// effect, or failed after the gateway took it, was not said; what may have left was. A message does not repeat itself.
func (q *Queue) Repeats(id, textHash string, now time.Time) bool {
	to, text, ok := readTextHash(textHash)
	if !ok {
		return false
	}
	for _, s := range slices.Backward(q.said) {
		if s.to == to && s.stands() && s.id != id {
			return s.text == text && now.Sub(time.Unix(0, s.at)) < q.rules.Suppress
		}
	}
	return false
}

func (w *writer) said(all []saying) {
	w.uint(uint64(len(all)))
	var seq uint64
	var at int64
	for _, s := range all {
		w.uint(s.seq - seq)
		d := s.at - at
		w.uint(uint64(d<<1) ^ uint64(d>>63)) // the sign last
		w.b = append(append(w.b, s.to[:]...), s.text[:]...)
		w.text(s.id)
		w.bools(s.idle, false)
		w.bools(s.failed, s.arrived)
		seq, at = s.seq, s.at
	}
}

// minSaying is the least bytes of a saying.
const minSaying = 21

func (r *reader) said() (all []saying) {
	n := r.count(minSaying)
	if n > keptSaid {
		r.bad = true
		return nil
	}
	var s saying
	for i := range n {
		step := r.uint()
		s.seq += step
		z := r.uint()
		s.at += int64(z>>1) ^ -int64(z&1)
		copy(s.to[:], r.take(uint64(len(s.to))))
		copy(s.text[:], r.take(uint64(len(s.text))))
		s.id = r.text()
		s.idle, _ = r.bools()
		s.failed, s.arrived = r.bools()
		if i > 0 && step == 0 {
			r.bad = true
			return nil
		}
		all = append(all, s)
	}
	return all
}
