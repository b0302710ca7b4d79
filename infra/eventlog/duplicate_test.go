package eventlog_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
)

// forge answers as many publishes as it is told to as duplicates of a sequence, as a server did that had lost their first copies. It
// gives how many it answered.
func (p *tap) forge(stream string, seq uint64, times int64) (forged *atomic.Int64) {
	forged = &atomic.Int64{}
	p.let(func(m *tapped) bool {
		if !bytes.HasPrefix(m.data, fmt.Appendf(nil, `{"stream":%q,`, stream)) || forged.Load() == times {
			return true
		}
		forged.Add(1)
		m.data = fmt.Appendf(nil, `{"stream":%q,"seq":%d,"duplicate":true}`, stream, seq)
		return true
	})
	return forged
}

func TestC3ADuplicateIsBelievedWhenItIsStored(t *testing.T) {
	t.Parallel()
	stream := events.EventsStream(part)
	for name, seq := range map[string]uint64{"another event's": 1, "none so far": 99, "no": 0} {
		t.Run(name+" sequence", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.append(t, "m1")
			p, _ := w.tapped(t)
			forged := p.forge(stream, seq, 3)
			got, err := w.log.Append(t.Context(), queued("m2"))
			if want := (eventlog.Ack{Sequence: 2, Duplicate: true}); err != nil || got != want {
				t.Errorf("ack = %+v, %v, want %+v", got, err, want)
			}
			all := p.forge(stream, seq, -1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := w.log.Append(ctx, queued("m3"))
				done <- err
			}()
			eventually(t, "it is stored, and its answer asked for again and again", func() bool { return all.Load() > 2 && w.lastSeq(t) == 3 })
			cancel()
			wantCode(t, <-done, events.CodeUnavailable)
			if forged.Load() != 3 || w.lastSeq(t) != 3 {
				t.Errorf("%d answers were forged, last sequence = %d", forged.Load(), w.lastSeq(t))
			}
		})
	}
	t.Run("its own sequence", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.append(t, "m1", "m2")
		asked := w.asks(t, "STREAM.MSG.GET")
		got, err := w.log.Append(t.Context(), queued("m1"))
		if want := (eventlog.Ack{Sequence: 1, Duplicate: true}); err != nil || got != want {
			t.Errorf("ack = %+v, %v, want %+v", got, err, want)
		}
		w.append(t, "m3")
		eventually(t, "the log was read", func() bool { return asked.Load() > 0 })
		if n := asked.Load(); n != 1 {
			t.Errorf("the log was read %d times, want once, for the duplicate", n)
		}
	})
}

// What a work queue no longer holds was done: its duplicate is one.
func TestC3ADuplicateOfWhatAWorkQueueHasDoneIsBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, _ := w.tapped(t)
	stream, endpoint := events.HooksStream(0), endpointOfShard0()
	if _, err := w.log.Append(t.Context(), delivery("d1", endpoint, 1)); err != nil {
		t.Fatal(err)
	}
	k := w.consume(t, eventlog.DurableConfig{Stream: stream, Durable: "hooks", Filters: []string{events.HookSubject(endpoint)}}, ack(t))
	eventually(t, "it is done", func() bool {
		s, err := w.js.Stream(t.Context(), stream)
		return err == nil && s.CachedInfo().State.LastSeq == 1 && s.CachedInfo().State.Msgs == 0
	})
	k.end(t)
	got, err := w.log.Append(t.Context(), delivery("d1", endpoint, 1))
	if want := (eventlog.Ack{Sequence: 1, Duplicate: true}); err != nil || got != want {
		t.Errorf("ack = %+v, %v, want %+v", got, err, want)
	}
	p.forge(stream, 7, -1)
	_, err = w.log.Append(within(t, time.Second), delivery("d2", endpoint, 1))
	wantCode(t, err, events.CodeUnavailable)
}

func TestC3ADuplicateOfAnAppendThatExpectsASequenceIsReadBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, _ := w.tapped(t)
	forged := p.forge(events.StreamControl, 99, 1)
	seq, err := w.log.AppendExpecting(t.Context(), tenant("t1", "a"), 0)
	if err != nil || seq != 1 || forged.Load() != 1 {
		t.Fatalf("sequence = %d, %v after %d forged answers", seq, err, forged.Load())
	}
	p.forge(events.StreamControl, 1, 1) // where another event stands
	if seq, err = w.log.AppendNext(t.Context(), tenant("t2", "b"), 1); err != nil || seq != 2 {
		t.Errorf("sequence = %d, %v, want 2", seq, err)
	}
	forged = p.forge(events.EventsStream(part), 99, 1)
	if seq, err = w.log.AppendFenced(t.Context(), part, instance, started("s1", "n1"), 0); err != nil || seq != 1 || forged.Load() != 1 {
		t.Errorf("sequence = %d, %v after %d forged answers", seq, err, forged.Load())
	}
}

func TestC3ADuplicateAdditionIsBelievedWhenItIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(t, topology.Deployment{Partitions: 1}, events.StreamQuota)
	p, _ := w.tapped(t)
	subject := events.QuotaSubject("acme", "m-2026-11")
	forged := p.forge(events.StreamQuota, 99, 1)
	if got, err := w.log.Count(t.Context(), subject, 1, "a"); got != 1 || err != nil || forged.Load() != 1 {
		t.Errorf("total = %d, %v after %d forged answers", got, err, forged.Load())
	}
	p.forge(events.StreamQuota, 1, -1) // where another addition stands
	_, err := w.log.Count(within(t, time.Second), subject, 1, "b")
	wantCode(t, err, events.CodeUnavailable)
}

// asks counts the questions of a kind that anybody puts to the server.
func (w *world) asks(t *testing.T, api string) *atomic.Int64 {
	t.Helper()
	var n atomic.Int64
	sub, err := w.nc.SubscribeSync("$JS.API." + api + ".>")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := sub.NextMsgWithContext(ctx); err != nil {
				return
			}
			n.Add(1)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return &n
}
