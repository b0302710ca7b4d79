package keyring

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// cache keeps the most recently used data keys, each for at most ttl, and lets one caller at a time load a key.
type cache struct {
	size int
	ttl  time.Duration

	mu      sync.Mutex
	entries map[string]*list.Element // of *cached
	recent  *list.List               // the last used first
	loads   map[string]*load
}

type cached struct {
	name    string
	key     *dataKey
	expires time.Time
}

// load is one under way; its result is set before done is closed.
type load struct {
	done chan struct{}
	key  *dataKey
	err  error
}

func newCache(size int, ttl time.Duration) *cache {
	return &cache{
		size: size, ttl: ttl,
		entries: make(map[string]*list.Element), recent: list.New(), loads: make(map[string]*load),
	}
}

// get returns the key from memory, or loads it; hit tells which. Who comes while it is being loaded waits for that
// load, and loads again itself only when the loader's own context ended it or the key was missing.
func (c *cache) get(ctx context.Context, name string, from func(context.Context, string) (*dataKey, error)) (key *dataKey, hit bool, err error) {
	for {
		c.mu.Lock()
		if key := c.find(name); key != nil {
			c.mu.Unlock()
			return key, true, nil
		}
		other, busy := c.loads[name]
		if !busy {
			mine := &load{done: make(chan struct{})}
			c.loads[name] = mine
			c.mu.Unlock()
			c.fill(ctx, name, mine, from)
			return mine.key, false, mine.err
		}
		c.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		switch {
		case errors.Is(other.err, context.Canceled), errors.Is(other.err, context.DeadlineExceeded):
			// It gave up for reasons of its own.
		case errors.Is(other.err, ErrKeyMissing):
			// It only looked; this one may make the key.
		default:
			return other.key, false, other.err
		}
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
	}
}

// fill runs a load and keeps its key, unless the name was dropped meanwhile.
func (c *cache) fill(ctx context.Context, name string, l *load, from func(context.Context, string) (*dataKey, error)) {
	l.err = errors.New("load of data key panicked")
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.loads[name] == l {
			delete(c.loads, name)
			if l.err == nil {
				c.keep(name, l.key)
			}
		}
		close(l.done)
	}()
	l.key, l.err = from(ctx, name)
}

// find looks a live key up; the caller holds mu.
func (c *cache) find(name string) *dataKey {
	element, ok := c.entries[name]
	if !ok {
		return nil
	}
	found, _ := element.Value.(*cached)
	if !time.Now().Before(found.expires) {
		c.remove(element)
		return nil
	}
	c.recent.MoveToFront(element)
	return found.key
}

// keep adds a key and drops the least recently used ones beyond the size; the caller holds mu.
func (c *cache) keep(name string, key *dataKey) {
	if element, ok := c.entries[name]; ok {
		c.remove(element)
	}
	c.entries[name] = c.recent.PushFront(&cached{name: name, key: key, expires: time.Now().Add(c.ttl)})
	for c.recent.Len() > c.size {
		c.remove(c.recent.Back())
	}
}

func (c *cache) remove(element *list.Element) {
	gone, _ := c.recent.Remove(element).(*cached)
	delete(c.entries, gone.name)
}

// drop forgets a key, and keeps the result of a load under way out.
func (c *cache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[name]; ok {
		c.remove(element)
	}
	delete(c.loads, name)
}
