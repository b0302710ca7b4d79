package heap

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/infra/await/awaittest"
)

const mib = 1 << 20

func TestPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		inUse uint64
		rate  float64
		want  int
	}{
		{"before anything was collected", 0, 10 * mib, 100},
		{"at rest", 100 * mib, 0.2 * mib, 100},
		{"some work", 100 * mib, 20 * mib, 300},
		{"a small heap", 10 * mib, 20 * mib, 3000},
		{"much work: no more than the most", 100 * mib, 1000 * mib, 768},
		{"a large heap does not grow faster than by default", 2000 * mib, 1000 * mib, 100},
	} {
		if got := Percent(c.inUse, c.rate); got != c.want {
			t.Errorf("%s: %d %%, want %d", c.what, got, c.want)
		}
	}
}

// TestKeep makes garbage until the process may hold more of it, and stops: then what it held goes back to the system.
func TestKeep(t *testing.T) { //nolint:paralleltest // it is about the whole process
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { Keep(ctx) })
	defer running.Wait()
	defer cancel()
	var sink []byte
	awaittest.Eventually(t, 30*time.Second, time.Millisecond, "a busy process that seldom collects", func() bool {
		sink = make([]byte, mib)
		return read("/gc/gogc:percent") > 200 && read("/memory/classes/heap/free:bytes")+read("/memory/classes/heap/objects:bytes") > 100*mib
	}, nil)
	_ = sink
	awaittest.Eventually(t, time.Minute, 100*time.Millisecond, "a process at rest that gave back what it held", func() bool {
		return read("/gc/gogc:percent") == least && read("/memory/classes/heap/free:bytes")+read("/memory/classes/heap/objects:bytes") < 20*mib
	}, nil)
}

func read(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
