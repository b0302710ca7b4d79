// Package heap decides how much garbage may pile up between two collections of a process.
package heap

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// apart is the time that should lie between two collections: while one lasts, all that is done waits for a processor.
	apart = 15 * time.Second
	// most is how many bytes of garbage may lie around for that, beside the share of the heap that always may.
	most = 768 << 20
	// least is the percentage of what is in use that always may be garbage (the default of GOGC).
	least = 100

	every = 2 * time.Second // how often it is looked at
	fades = 0.9             // what is left of a rate from look to look, so that a pause in the work does not end what was learned
)

// Percent is the share of what is in use, in percent, that may be garbage before it is collected: as much as is made in the time that
// should lie between two collections. inUse is in bytes, rate in bytes a second.
func Percent(inUse uint64, rate float64) int {
	if inUse == 0 {
		return least
	}
	garbage := min(rate*apart.Seconds(), most)
	return max(least, int(math.Round(100*garbage/float64(inUse))))
}

// Keep sets GOGC of the process as it works until ctx ends: a process at rest stays small, a busy one seldom stops to collect, and a
// large heap does not double for it. A memory limit (GOMEMLIMIT) has the last word.
func Keep(ctx context.Context) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	made, set, rate := samples[1].Value.Uint64(), -1, 0.0
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(samples)
		now := samples[1].Value.Uint64()
		rate, made = max(float64(now-made)/every.Seconds(), rate*fades), now
		if p := Percent(samples[0].Value.Uint64(), rate); math.Abs(float64(p-set)) > 0.1*float64(set) { // each change stops the world
			debug.SetGCPercent(p)
			set = p
		}
	}
}
