package receipts

import (
	"container/list"
	"strings"
	"time"

	"pilotstatus.dev/events"
)

// key is what a receipt names: a key id means nothing without its instance.
type key struct{ instance, id string }

// tracked is what the log says of one message, as far as receipts need it.
type tracked struct {
	id, instance, tenant string
	queuedSeq            uint64
	keys                 []key
	since                time.Time // stored time of the first event seen
	left                 bool      // accepted or proved
	leftAt               time.Time // when that was said first; zero for one that the read side knows
	ended                bool      // refused or closed
	open                 int       // number of the attempt under way; 0 when none is
	openedAt             time.Time // when that was first read here
	recorded             states
}

// claim says which attempt of which message has a key id.
type claim struct {
	message *tracked
	attempt int
}

// states is a set of states for which a receipt is in the log.
type states uint8

func bit(state events.Status) states {
	switch state {
	case events.StatusSent:
		return 1
	case events.StatusDelivered:
		return 2
	case events.StatusRead:
		return 4
	case events.StatusFailed:
		return 8
	default:
		return 0
	}
}

func (s states) has(state events.Status) bool { return s&bit(state) != 0 }

// book is the correlator's memory: pure, guarded by its owner, bounded in time and number.
type book struct {
	claims    map[key]claim
	messages  map[string]*list.Element // of *tracked
	order     *list.List               // oldest first
	group     map[string]uint64        // last sequence of an instance's fenced group
	first     uint64                   // first sequence ever seen here
	held      map[key]*list.Element    // of *held
	heldOrder *list.List
	questions questions         // what is held, in the order of asking the Finder
	names     map[string]string // of instances and tenants, each once: messages share them
	maxKept   int
	maxHeld   int
}

func newBook(maxKept, maxHeld int) *book {
	return &book{
		claims: map[key]claim{}, messages: map[string]*list.Element{}, order: list.New(), group: map[string]uint64{},
		held: map[key]*list.Element{}, heldOrder: list.New(), names: map[string]string{}, maxKept: maxKept, maxHeld: maxHeld,
	}
}

// apply takes an event of the log in and gives the keys for which something is held that may be recorded now.
func (b *book) apply(rec events.Recorded, now time.Time) []key {
	addr, err := events.ParseEventSubject(rec.Address)
	if err != nil {
		if instance, fenced := events.FencedInstance(rec.Address); fenced { // a stranger moves the group under any name
			b.group[instance] = max(b.group[instance], rec.Position.Sequence)
		}
		return nil
	}
	if b.first == 0 {
		b.first = rec.Position.Sequence
	}
	if addr.Group == events.GroupDispatch {
		b.group[addr.Instance] = max(b.group[addr.Instance], rec.Position.Sequence)
	}
	if closed, ok := rec.Body.(*events.DispatchClosed); ok {
		for _, m := range closed.Messages {
			if e := b.messages[m.ID]; e != nil {
				m := e.Value.(*tracked)
				m.ended, m.open = true, 0
			}
		}
		return nil
	}
	if rec.Subject == "" || (addr.Group != events.GroupDispatch && addr.Group != events.GroupReceipt) {
		return nil
	}
	m := b.track(rec.Subject, addr.Instance, rec.Stored)
	if rec.TenantID != "" {
		m.tenant = b.name(rec.TenantID)
	}
	if rec.QueuedSeq > 0 {
		m.queuedSeq = rec.QueuedSeq
	}
	switch rec.Type {
	case events.TypeDispatchStarted:
		m.open, m.openedAt = rec.Attempt, now
	case events.TypeDispatchAccepted, events.TypeDispatchProved:
		m.left, m.open = true, 0
		if m.leftAt.IsZero() {
			m.leftAt = rec.Time
		}
	case events.TypeDispatchRefused:
		m.ended, m.open = true, 0
	case events.TypeDispatchDeferred, events.TypeDispatchUnknown, events.TypeDispatchDisproved:
		m.open = 0
	case events.TypeReceiptSent, events.TypeReceiptDelivered, events.TypeReceiptRead, events.TypeReceiptFailed:
		state := events.ReceiptStatus(rec.Type)
		m.recorded |= bit(state)
		b.release(key{addr.Instance, rec.GatewayID}, state)
		for _, k := range m.keys {
			b.release(k, state)
		}
	}
	if rec.GatewayID != "" && addr.Group == events.GroupDispatch {
		b.claim(key{m.instance, rec.GatewayID}, m, rec.Attempt)
	}
	var ready []key
	for _, k := range m.keys {
		if len(b.sightings(k)) > 0 {
			ready = append(ready, k)
		}
	}
	return ready
}

func (b *book) track(id, instance string, since time.Time) *tracked {
	if e := b.messages[id]; e != nil {
		return e.Value.(*tracked)
	}
	id = strings.Clone(id) // it may be a part of something longer
	m := &tracked{id: id, instance: b.name(instance), since: since}
	b.messages[id] = b.order.PushBack(m)
	for b.order.Len() > b.maxKept {
		b.forget(b.order.Front())
	}
	return m
}

// name gives the one copy of a name that many messages have.
func (b *book) name(s string) string {
	if known, ok := b.names[s]; ok {
		return known
	}
	s = strings.Clone(s)
	b.names[s] = s
	return s
}

// claim binds a key id. The first message that has it keeps it: WhatsApp gives each id once.
func (b *book) claim(k key, m *tracked, attempt int) {
	if _, taken := b.claims[k]; !taken {
		k.id = strings.Clone(k.id)
		b.claims[k] = claim{m, attempt}
		m.keys = append(m.keys, k)
	}
}

func (b *book) forget(e *list.Element) {
	m := b.order.Remove(e).(*tracked)
	delete(b.messages, m.id)
	for _, k := range m.keys {
		delete(b.claims, k)
	}
}

// prune forgets messages first seen before kept, and what is held since before unmatched.
func (b *book) prune(kept, unmatched time.Time) {
	for e := b.order.Front(); e != nil && e.Value.(*tracked).since.Before(kept); e = b.order.Front() {
		b.forget(e)
	}
	for e := b.heldOrder.Front(); e != nil && e.Value.(*held).since.Before(unmatched); e = b.heldOrder.Front() {
		b.drop(e)
	}
}
