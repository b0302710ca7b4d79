package eventlog

import "sync"

// inbox holds what the connection's goroutine has decoded until the handler is free: it grows to what a batch may hold, and its reader lets
// go of what it grew to when it has read all there is, so that the many tails of a process at rest hold nothing.
type inbox struct {
	most        int
	ready, room chan struct{} // one token each

	mu    sync.Mutex
	items []item
}

// small is how many items a buffer may have room for that is kept at rest.
const small = 16

func newInbox(most int) *inbox {
	return &inbox{most: most, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds an item; while the inbox is full it waits, until done. One goroutine puts.
func (b *inbox) put(it item, done <-chan struct{}) {
	for {
		b.mu.Lock()
		fits := len(b.items) < b.most
		if fits {
			b.items = append(b.items, it)
		}
		b.mu.Unlock()
		if fits {
			signal(b.ready)
			return
		}
		select {
		case <-b.room:
		case <-done:
			return
		}
	}
}

// take gives all there is, in order, and keeps spare, which take gave before and give cleared, for what comes.
func (b *inbox) take(spare []item) []item {
	b.mu.Lock()
	got := b.items
	b.items = spare[:0]
	b.mu.Unlock()
	signal(b.room)
	return got
}

// give ends the use of what take gave: its events are let go, and with rest also the room that it and the next one have.
func (b *inbox) give(batch []item, rest bool) []item {
	clear(batch)
	if !rest {
		return batch
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 && cap(b.items) > small {
		b.items = nil
	}
	if cap(batch) > small {
		return nil
	}
	return batch
}

// signal leaves a token, if none is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
