package eventlog

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// What is put comes out once and in order, never more at a time than fits, whoever is slow.
func TestInboxKeepsOrderAndBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 40).Draw(rt, "most")
		items := rapid.IntRange(0, 200).Draw(rt, "items")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 8).Draw(rt, "pauses")
		synctest.Test(t, func(*testing.T) {
			in := newInbox(most)
			var putter sync.WaitGroup
			putter.Go(func() {
				for n := range items {
					time.Sleep(time.Duration(pauses[n%len(pauses)]) * time.Millisecond)
					in.put(item{consumer: uint64(n)}, nil)
				}
			})
			var batch []item
			for got, round := 0, 0; got < items; round++ {
				<-in.ready
				batch = in.take(batch)
				if len(batch) > most {
					rt.Errorf("%d items in a box for %d", len(batch), most)
				}
				for _, it := range batch {
					if it.consumer != uint64(got) {
						rt.Errorf("item %d came as number %d", it.consumer, got)
					}
					got++
				}
				time.Sleep(time.Duration(pauses[round%len(pauses)]) * 5 * time.Millisecond)
				batch = in.give(batch, round%2 == 0)
			}
			putter.Wait()
		})
	})
}

func TestInboxLetsAPutterGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		in, done := newInbox(1), make(chan struct{})
		in.put(item{}, done)
		var putter sync.WaitGroup
		putter.Go(func() { in.put(item{}, done) })
		synctest.Wait() // it waits for room
		close(done)
		putter.Wait()
	})
}

func TestInboxHoldsNothingAtRest(t *testing.T) {
	t.Parallel()
	in := newInbox(512)
	fill := func() {
		for range 300 {
			in.put(item{}, nil)
		}
	}
	fill()
	batch := in.take(nil)
	fill()
	if batch = in.give(batch, false); cap(batch) < 300 {
		t.Error("the room is given up between two batches")
	}
	batch = in.give(in.take(batch), true)
	if cap(batch) > small || cap(in.items) > small {
		t.Errorf("room for %d and %d is kept", cap(batch), cap(in.items))
	}
}
