package queue

import (
	"fmt"
	"runtime"
	"testing"

	"pilotstatus.dev/events"
)

func pendingTape(n int) *tape {
	p := newTape()
	classes := events.Classes()
	for i := range n {
		p.queued(msg{id: fmt.Sprintf("msg_%032d", i), class: classes[i%6], tenant: fmt.Sprintf("t-%d", i%20), slot: uint8(i % 4)})
	}
	return p
}

// BenchmarkFold is the whole way of messages: queued, started, accepted, with compaction as an owner does it.
func BenchmarkFold(b *testing.B) {
	p := newTape()
	for i := range 10_000 {
		id := fmt.Sprintf("msg_%032d", i)
		p.queued(msg{id: id})
		p.started(id, 1)
		p.accepted(id, 1, "G"+id)
	}
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for b.Loop() {
		q := New(instance, DefaultRules())
		for _, r := range p.log {
			q.Apply(r)
			if n++; n%1000 == 0 {
				q.Compact(r.Position.Sequence, r.Time)
			}
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkTurn is one choice, its start and its acceptance with 100,000 messages pending.
func BenchmarkTurn(b *testing.B) {
	p := pendingTape(100_000)
	q := p.queue(DefaultRules())
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		s, ok := q.Next(p.now)
		if !ok {
			b.StopTimer()
			p = pendingTape(100_000)
			q = p.queue(DefaultRules())
			b.StartTimer()
			continue
		}
		p.started(s.Entry.ID, s.Attempt)
		q.Apply(p.log[len(p.log)-1])
		p.accepted(s.Entry.ID, s.Attempt, "G")
		q.Apply(p.log[len(p.log)-1])
	}
}

// BenchmarkNext is the choice alone with 100,000 messages pending.
func BenchmarkNext(b *testing.B) {
	p := pendingTape(100_000)
	q := p.queue(DefaultRules())
	q.Next(p.now)
	b.ReportAllocs()
	for b.Loop() {
		q.Next(p.now)
	}
}

// BenchmarkNextOverTenants is the choice and its turn with 100,000 messages of one class pending, over so many tenants and slots; held: no
// slot is free for all but the last of them.
func BenchmarkNextOverTenants(b *testing.B) {
	for _, c := range []struct {
		name           string
		tenants, slots int
	}{{"1", 1, 1}, {"50", 50, 4}, {"1000", 1000, 4}} {
		b.Run(c.name, func(b *testing.B) {
			p := newTape()
			for i := range 100_000 {
				p.queued(msg{
					id: fmt.Sprintf("msg_%032d", i), class: events.ClassMarketing, tenant: fmt.Sprintf("t-%d", i%c.tenants),
					slot: uint8(i / c.tenants % c.slots),
				})
			}
			q := p.queue(DefaultRules())
			q.Next(p.now)
			b.ReportAllocs()
			for b.Loop() {
				q.Next(p.now)
			}
		})
	}
	b.Run("1000, all but one held", func(b *testing.B) {
		p := newTape()
		p.queued(msg{id: "open", tenant: "t-0", slot: 1})
		for i := range 100_000 {
			p.queued(msg{id: fmt.Sprintf("msg_%032d", i), class: events.ClassMarketing, tenant: fmt.Sprintf("t-%d", i%1000), slot: 1})
		}
		p.queued(msg{id: "free", class: events.ClassMarketing, tenant: "t-free"})
		p.started("open", 1)
		q := p.queue(concurrent(2))
		q.Next(p.now)
		b.ReportAllocs()
		for b.Loop() {
			if s, ok := q.Next(p.now); !ok || s.Entry.ID != "free" {
				b.Fatal("not the one that is free")
			}
		}
	})
}

// BenchmarkMemory reports what a pending message costs in the fold.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	p := pendingTape(n)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		q := p.queue(DefaultRules())
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(q)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/message")
}
