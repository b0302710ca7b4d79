package queue

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// A state read back answers everything as the queue that wrote it, and goes on as it does: the fold of a state and the rest
// of the log is the fold of the log, wherever it is cut.
func TestStateAndRestAreTheWhole(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(*rapid.T) *tape{"legal": legalTape, "any": anyTape} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				p, rules := draw(t), drawRules(t)
				cut := rapid.IntRange(0, len(p.log)).Draw(t, "cut")
				compacts := rapid.Bool().Draw(t, "compacts")
				fold := func(q *Queue, log []events.Recorded) {
					for _, r := range log {
						q.Apply(r)
						if compacts {
							q.Compact(r.Position.Sequence, r.Time)
						}
					}
				}
				q := New(instance, rules)
				fold(q, p.log[:cut])
				state := q.AppendState(nil)
				if again := q.AppendState([]byte("x")); !bytes.Equal(again[1:], state) {
					t.Fatal("the same state gives other bytes")
				}
				read, err := DecodeState(state, rules)
				if err != nil {
					t.Fatal(err)
				}
				if again := read.AppendState(nil); !bytes.Equal(again, state) {
					t.Fatal("what was read is written as other bytes")
				}
				if q.Blank() != New(instance, rules).same(q) {
					t.Fatalf("blank = %v of %+v", q.Blank(), q)
				}
				now := p.now.Add(time.Duration(rapid.IntRange(-50, 1200).Draw(t, "now")) * time.Second)
				other, _ := DecodeState(state, rules) // looking moves turns
				whole := New(instance, rules)
				fold(whole, p.log[:cut])
				if diff := cmp.Diff(look(whole, now), look(other, now), entries); diff != "" {
					t.Fatalf("(-written +read):\n%s", diff)
				}
				fold(q, p.log[cut:])
				fold(read, p.log[cut:])
				if diff := cmp.Diff(look(q, now), look(read, now), entries); diff != "" {
					t.Fatalf("(-whole +state and rest):\n%s", diff)
				}
			})
		})
	}
}

// same compares all but what Apply moves always.
func (q *Queue) same(o *Queue) bool {
	strip := func(q *Queue) []byte {
		c := *q
		c.floor, c.latest, c.trimmed = 0, time.Time{}, time.Time{}
		return c.AppendState(nil)
	}
	return bytes.Equal(strip(q), strip(o))
}

// Bytes that were cut, or whose version is another, are no state; any bytes are read or refused, never more. What is read is a
// state like any other: it is written as it is, and answers.
func FuzzDecodeState(f *testing.F) {
	p := newTape()
	p.queued(msg{id: "msg_0123456789abcdef0123456789abcdef", deliverAt: after(10.0000001)})
	p.queued(msg{id: "odd"})
	p.started("odd", 1)
	p.accepted("odd", 1, "G-1")
	p.queued(msg{id: "msg_0123456789ABCDEF0123456789abcdef"})
	p.deferred("msg_0123456789ABCDEF0123456789abcdef", 1, 3, events.DispatchDeferred{})
	p.instance("parked")
	state := p.queue(DefaultRules()).AppendState(nil)
	f.Add(state)
	f.Add(state[:len(state)/2])
	f.Add(pendingTape(5).queue(DefaultRules()).AppendState(nil))
	f.Add(append([]byte{StateVersion + 1}, state[1:]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := DecodeState(b, DefaultRules())
		if err != nil && !errors.Is(err, ErrState) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		again := q.AppendState(nil)
		o, err := DecodeState(again, DefaultRules())
		if err != nil {
			t.Fatalf("what was read is written so that it cannot be read: %v", err)
		}
		if !bytes.Equal(again, o.AppendState(nil)) {
			t.Error("what was read changes when it is written and read once more")
		}
		for _, now := range []time.Time{{}, time.Unix(1_800_000_000, 0)} { // answers, whatever they are
			o.Next(now)
			o.Wake(now)
			o.Held(now)
			o.Closes(now, 10)
			o.Pending()
			o.NewestBound()
		}
	})
}

func TestCutOrForeignStateIsRefused(t *testing.T) {
	t.Parallel()
	state := pendingTape(20).queue(DefaultRules()).AppendState(nil)
	for n := range state {
		if _, err := DecodeState(state[:n], DefaultRules()); !errors.Is(err, ErrState) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for _, version := range []byte{StateVersion - 1, StateVersion + 1} {
		if _, err := DecodeState(append([]byte{version}, state[1:]...), DefaultRules()); !errors.Is(err, ErrState) {
			t.Errorf("version %d: %v", version, err)
		}
	}
	if _, err := DecodeState(append(state, 0), DefaultRules()); !errors.Is(err, ErrState) {
		t.Errorf("too long: %v", err)
	}
}

func TestPendingAndNewestBound(t *testing.T) {
	t.Parallel()
	p := newTape()
	for _, id := range []string{"m0", "m1", "m2", "m3"} {
		p.queued(msg{id: id})
	}
	p.started("m1", 1)
	p.accepted("m1", 1, "G-old")
	p.at(5).started("m2", 1)
	p.accepted("m2", 1, "G-new")
	p.ended(events.ClosedCanceled, "m3")
	q := p.queue(DefaultRules())
	var ids []string
	for _, e := range q.Pending() {
		ids = append(ids, e.ID)
	}
	newest, at := q.NewestBound()
	if fmt.Sprint(ids) != "[m0]" || newest != "G-new" || !at.Equal(p.now) || q.Instance() != instance {
		t.Errorf("pending %v, newest %q at %s of %q", ids, newest, at, q.Instance())
	}
	if newest, _ := New(instance, DefaultRules()).NewestBound(); newest != "" {
		t.Error("a queue without a gateway id names one")
	}
}

// BenchmarkState writes and reads a million pending messages with ids as they are.
func BenchmarkState(b *testing.B) {
	const n = 1_000_000
	p := newTape()
	q := New(instance, DefaultRules())
	for i := range n {
		p.log = p.log[:0]
		p.now = p.now.Add(7 * time.Millisecond)
		p.queued(msg{id: fmt.Sprintf("msg_01a2281442%022x", i*2654435761), class: events.Classes()[i%6], tenant: fmt.Sprintf("t-%d", i%20)})
		q.Apply(p.log[0])
	}
	q.Compact(p.seq, p.now)
	var state []byte
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			state = q.AppendState(nil)
		}
		b.ReportMetric(float64(len(state))/n, "B/message")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := DecodeState(state, DefaultRules()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
