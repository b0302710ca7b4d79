package dispatcher

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
)

// BenchmarkStart is a start at a snapshot with a million messages pending, until the dispatcher is ready:
//
//	go test ./dispatcher -run xxx -bench Start -benchtime 3x
func BenchmarkStart(b *testing.B) {
	const messages, instances = 1_000_000, 100
	r := newRig(b)
	store := r.keeps()
	r.witness = nil
	r.instanceEvent(events.TypeInstancePaused, "paused")
	rec, err := r.log.GetLeader(b.Context(), events.EventsStream(r.p), 1)
	if err != nil {
		b.Fatal(err)
	}
	p := r.dispatcherPartition()
	p.keep.at = place{}.next(rec)
	now := time.Now().UTC()
	for i := range instances {
		a := p.actor(fmt.Sprint("inst-", i+1))
		for n := range messages / instances {
			var m events.Recorded
			m.Type, m.Known, m.TenantID = events.TypeMessageQueued, true, fmt.Sprint("t-", n%20)
			m.Subject = fmt.Sprintf("msg_01a2281442%04x%018x", i, n*2654435761)
			m.Time, m.DeliverAt, m.DeliverUntil = now.Add(time.Duration(n)*time.Millisecond), now.Add(time.Hour), now.Add(2*time.Hour)
			m.Address = events.QueuedSubject(r.p, events.Lane{Instance: a.id, Class: events.ClassUtility, Tenant: m.TenantID})
			m.Position = events.Position{Partition: r.p, Sequence: uint64(n*instances + i + 1)}
			a.fold(m)
		}
	}
	began := time.Now()
	data := p.encode()
	b.Logf("written in %s: %d bytes", time.Since(began).Round(time.Millisecond), len(data))
	if err := store.Put(b.Context(), p.slotName(0), data); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		d, stop := r.run(quick())
		eventually(b, "ready", func() bool { return d.Ready() == nil }, nil)
		b.StopTimer()
		pending := 0
		for _, a := range d.parts[r.p].all() {
			pending += a.q.Len()
		}
		if pending != messages {
			b.Fatalf("%d are pending", pending)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
		b.ReportMetric(residentMiB(b), "RSS-MiB")
		stop()
		b.StartTimer()
	}
}

// residentMiB is what the process holds of memory, as the system counts it; 0 where it cannot be read.
func residentMiB(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib float64
	_, line, _ := bytes.Cut(text, []byte("VmRSS:"))
	if _, err := fmt.Sscan(strings.TrimSpace(string(line)), &kib); err != nil {
		b.Log(err)
	}
	return kib / 1024
}
