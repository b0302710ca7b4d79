package eventlog_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"pilotstatus.dev/infra/eventlog"
)

// cpu is what this process has used of the processors: server and client are in it.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What a lease for each busy instance would cost, against one for each dispatcher (docs/adr/0008): a round is what falls due each second.
func BenchmarkLeaseRound(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("leases=%d", n), func(b *testing.B) {
			w := newWorld(b)
			s := newLeases(w)
			leases := make([]*eventlog.Lease, n)
			for i := range leases {
				l, err := s.Acquire(b.Context(), fmt.Sprintf("inst.acme-%d", i), "d1", time.Minute)
				if err != nil {
					b.Fatal(err)
				}
				leases[i] = l
			}
			began := cpu(b)
			for b.Loop() {
				for _, l := range leases {
					if err := l.Renew(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N)/1000, "cpu-ms/round")
		})
	}
}

// What an instance that begins to work would wait for, and what is done again when it rests.
func BenchmarkLeaseTakenAndGivenBack(b *testing.B) {
	w := newWorld(b)
	s := newLeases(w)
	began := cpu(b)
	for b.Loop() {
		l, err := s.Acquire(b.Context(), "inst.acme-1", "d1", time.Minute)
		if err == nil {
			err = l.Release(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N), "cpu-us/op")
}
