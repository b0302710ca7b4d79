package dispatcher

import (
	"container/list"
	"sync"
	"time"

	"pilotstatus.dev/events/recipient"
)

// numbers remembers what the number check resolved, per instance, under one canonical form of both spellings. Only what is on WhatsApp is
// remembered: a refusal ends a message for good, so each is asked for.
type numbers struct {
	ttl time.Duration

	mu   sync.Mutex
	seen map[string]*list.Element
	used *list.List // of *resolved, the one used last at the front
}

type resolved struct {
	number string // digits to send to
	jid    string // empty when the check gave none
	at     time.Time
	key    string
}

// maxNumbers bounds the memory of one instance; the number that was not used for longest is let go.
const maxNumbers = 10_000

func newNumbers(ttl time.Duration) *numbers {
	return &numbers{ttl: ttl, seen: map[string]*list.Element{}, used: list.New()}
}

func (n *numbers) get(digits string) (resolved, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.seen[recipient.Canonical(digits)]
	if at == nil {
		return resolved{}, false
	}
	r := at.Value.(*resolved) //nolint:forcetypeassert // only these are put in
	if time.Since(r.at) >= n.ttl {
		n.drop(at)
		return resolved{}, false
	}
	n.used.MoveToFront(at)
	return *r, true
}

func (n *numbers) put(digits string, r resolved) {
	r.key = recipient.Canonical(digits)
	n.mu.Lock()
	defer n.mu.Unlock()
	if at := n.seen[r.key]; at != nil {
		n.drop(at)
	}
	n.seen[r.key] = n.used.PushFront(&r)
	if n.used.Len() > maxNumbers {
		n.drop(n.used.Back())
	}
}

func (n *numbers) forget(digits string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at := n.seen[recipient.Canonical(digits)]; at != nil {
		n.drop(at)
	}
}

// drop lets one go. The caller holds mu.
func (n *numbers) drop(at *list.Element) {
	delete(n.seen, at.Value.(*resolved).key) //nolint:forcetypeassert // only these are put in
	n.used.Remove(at)
}
