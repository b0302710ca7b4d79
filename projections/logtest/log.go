// Package logtest writes logs for tests of the read side: events that went through the real encoding, with rising
// sequences and fixed times.
package logtest

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
)

// Start is the time of the first event of every log.
var Start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// Log is the log of one partition, in memory. It is safe for concurrent use.
type Log struct {
	Partition events.Partition

	mu     sync.Mutex
	events []events.Recorded
	more   chan struct{} // closed at the next append
}

// New makes an empty log.
func New(p events.Partition) *Log { return &Log{Partition: p, more: make(chan struct{})} }

// ID gives the n-th message id of the partition.
func (l *Log) ID(n int) string {
	u := uuid.UUID{0: 0x01, 1: 0x9a, 6: 0x70, 8: 0x80}
	binary.BigEndian.PutUint32(u[10:], uint32(n))
	return events.MessageID(u, l.Partition)
}

// Append stores an event at the next sequence. ID, time and address are filled in where they are empty.
func (l *Log) Append(t testing.TB, instance string, e events.Event) events.Recorded {
	t.Helper()
	rec, err := l.append(instance, e)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func (l *Log) append(instance string, e events.Event) (events.Recorded, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := uint64(len(l.events) + 1)
	at := Start.Add(time.Duration(seq) * 10 * time.Millisecond)
	if e.Time.IsZero() {
		e.Time = at
	}
	if e.ID == "" {
		e.ID = uuid.NewSHA1(uuid.Nil, []byte(l.Partition.String()+":"+e.Type+":"+at.String())).String()
	}
	e.Source = "pilot/test"
	spec, _, _ := events.Standard.Lookup(e.Type)
	if e.Address == "" {
		group, name, _ := cutType(spec.Name)
		e.Address = events.EventSubject(l.Partition, instance, group, name)
	}
	wire, err := events.Standard.Encode(e)
	if err != nil {
		return events.Recorded{}, err
	}
	rec, err := events.Standard.Decode(events.Stored{
		Wire: wire, Position: events.Position{Partition: l.Partition, Sequence: seq}, Time: at.Add(time.Millisecond),
	})
	if err != nil {
		return events.Recorded{}, err
	}
	l.events = append(l.events, rec)
	close(l.more)
	l.more = make(chan struct{})
	return rec, nil
}

// Queued accepts a message of tenant on instance.
func (l *Log) Queued(t testing.TB, id, tenant, instance string) events.Recorded {
	t.Helper()
	return l.Append(t, instance, Queued(l.Partition, id, tenant, instance))
}

// Queued is an accepted message, with every field set.
func Queued(p events.Partition, id, tenant, instance string) events.Event {
	lane := events.Lane{Instance: instance, Class: events.ClassUtilityUrgent, Tenant: tenant, Slot: 1}
	return events.Event{
		Envelope: events.Envelope{
			ID: id, Type: events.TypeMessageQueued, Subject: id, TenantID: tenant,
			DeliverAt: Start.Add(time.Minute), DeliverUntil: Start.Add(time.Hour),
		},
		Address: events.QueuedSubject(p, lane),
		Body: &events.MessageQueued{
			Project: "project-" + tenant, Environment: events.Live, KeyID: "key-1", Category: events.Utility, Urgent: true,
			TemplateID: "tpl-1", TemplateVersion: 3, Origin: "Shop", SourceNumber: "550000", CorrelationID: "cor_" + id[4:],
			RecipientHash: "h1", RetentionDays: 7, Labels: []string{"a", `b"c`}, RetryOf: "",
			QuotaWindows: []string{"m-2026-11", "d-2026-11-29"},
			Sealed:       events.Sealed{KeyID: "k1", Blob: []byte{0, 1, 2, 255}},
		},
	}
}

// About is an event about one attempt of a message, 0 for none.
func About(wireType, id string, attempt int, body any) events.Event {
	return events.Event{Envelope: events.Envelope{Type: wireType, Subject: id, Attempt: attempt}, Body: body}
}

// All gives the events so far.
func (l *Log) All() []events.Recorded {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[:len(l.events):len(l.events)]
}

// Last gives the sequence of the newest event.
func (l *Log) Last(context.Context, events.Partition) (uint64, error) {
	return uint64(len(l.All())), nil
}

// Tail hands batches of at most 50 events on, and waits for more, until ctx ends or handle fails.
func (l *Log) Tail(ctx context.Context, _ events.Partition, from uint64,
	handle func(context.Context, []events.Recorded, uint64) error,
) error {
	for next := max(from, 1); ; {
		l.mu.Lock()
		all, more := l.events, l.more
		l.mu.Unlock()
		if uint64(len(all)) < next {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-more:
				continue
			}
		}
		batch := all[next-1 : min(uint64(len(all)), next+49)]
		last := batch[len(batch)-1].Position.Sequence
		if err := handle(ctx, batch, last); err != nil {
			return err
		}
		next = last + 1
	}
}

func cutType(name string) (group, event string, ok bool) {
	for i := range name {
		if name[i] == '.' {
			return name[:i], name[i+1:], true
		}
	}
	return name, "", false
}
