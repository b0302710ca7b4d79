package evolutionsim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// NumberCache says how the gateway remembers numbers that it found on WhatsApp.
type NumberCache string

// The caches. The check of a number and a send use the same one.
const (
	CacheExact NumberCache = "exact" // each number by itself
	// CacheMixed is the one of 2.3.6 and 2.3.7: a number that WhatsApp was asked about takes over the record of another whose spelling
	// ends in one of its own, and the other one then resolves to it.
	CacheMixed NumberCache = "mixed"
	CacheOff   NumberCache = "off" // WhatsApp is asked each time
)

func (c NumberCache) check() error {
	if c != CacheExact && c != CacheMixed && c != CacheOff {
		return fmt.Errorf("unknown cache of numbers %q", c)
	}
	return nil
}

// numbers is the gateway's cache of numbers known to be on WhatsApp, shared by all instances.
type numbers struct {
	mu      sync.RWMutex
	kind    NumberCache
	known   map[string]*numberRecord // digits looked up → record
	records []*numberRecord          // in the order of entry
	limit   int
}

// numberRecord is a row of the cache.
type numberRecord struct {
	jid  string
	keys []string // digits under which it is found
}

func newNumbers(kind NumberCache, limit int) *numbers {
	return &numbers{kind: kind, known: map[string]*numberRecord{}, limit: limit}
}

func (n *numbers) get(digits string) (string, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if r := n.known[digits]; r != nil {
		return r.jid, true
	}
	return "", false
}

// put remembers what WhatsApp said of a number.
func (n *numbers) put(digits, jid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.kind == CacheOff || n.known[digits] != nil:
	case n.kind == CacheMixed:
		n.mix(jid)
	default:
		n.add(&numberRecord{jid: jid, keys: []string{digits}})
	}
}

// mix searches the record as the gateway does, by a part of a spelling, and lets what it finds be the new number's. The caller holds mu.
func (n *numbers) mix(jid string) {
	keys := spellings(jidUser(jid))
	at := slices.IndexFunc(n.records, func(r *numberRecord) bool {
		return slices.ContainsFunc(r.keys, func(old string) bool {
			return slices.ContainsFunc(keys, func(k string) bool { return strings.HasSuffix(old, k) }) // the server's name follows in both
		})
	})
	if at < 0 {
		n.add(&numberRecord{jid: jid, keys: keys})
		return
	}
	r := n.records[at]
	r.jid = jid
	for _, k := range keys {
		if !slices.Contains(r.keys, k) {
			r.keys = append(r.keys, k)
		}
		n.known[k] = r
	}
}

// add lets the oldest go when there are too many. The caller holds mu.
func (n *numbers) add(r *numberRecord) {
	if len(n.records) >= n.limit {
		for _, k := range n.records[0].keys {
			delete(n.known, k)
		}
		n.records[0] = nil
		n.records = n.records[1:]
	}
	n.records = append(n.records, r)
	for _, k := range r.keys {
		n.known[k] = r
	}
}

func (n *numbers) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known, n.records = map[string]*numberRecord{}, nil
}

// become forgets what is known and remembers in another way from now on.
func (n *numbers) become(kind NumberCache) {
	n.clear()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kind = kind
}

// GatewayChange changes the gateway itself, as an upgrade or another setting does. What is nil stays.
type GatewayChange struct {
	Version     *string      `json:"version,omitempty"`
	NumberCache *NumberCache `json:"numberCache,omitempty"` // what it had found is forgotten
	ClockOffMS  *int64       `json:"clockOffMs,omitempty"`  // how far its clock is ahead, milliseconds; negative: behind
}

// ChangeGateway changes the gateway while it runs. Nobody is told.
func (s *Server) ChangeGateway(c GatewayChange) error {
	if c.NumberCache != nil {
		if err := c.NumberCache.check(); err != nil {
			return fmt.Errorf("change gateway: %w", err)
		}
		s.numbers.become(*c.NumberCache)
	}
	if c.ClockOffMS != nil {
		s.clockOff.Store(*c.ClockOffMS)
	}
	if c.Version != nil {
		s.version.Store(c.Version)
	}
	return nil
}
