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
	fades = 0.9             // what is left of a rate from look to look, so that a short pause in the work does not end what was learned
	rest  = 5               // looks in a row that found so little work that the default would do
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

// Keep sets GOGC of the process as it works until ctx ends: a busy one seldom stops to collect, a large heap does not double for it, and
// one that comes to rest gives back to the system what it no longer uses. A memory limit (GOMEMLIMIT) has the last word.
func Keep(ctx context.Context) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	made, set, rate, calm := samples[1].Value.Uint64(), -1, 0.0, 0
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(samples)
		inUse, sofar := samples[0].Value.Uint64(), samples[1].Value.Uint64()
		now := float64(sofar-made) / every.Seconds()
		rate, made = max(now, rate*fades), sofar
		if calm++; Percent(inUse, now) > least {
			calm = 0
		}
		if calm >= rest {
			rate = 0
		}
		p := Percent(inUse, rate)
		if p == set || p > least && math.Abs(float64(p-set)) <= 0.1*float64(set) { // each change stops the world
			continue
		}
		debug.SetGCPercent(p)
		if p == least && set > least {
			debug.FreeOSMemory() // else the runtime takes its time, and a part of a processor, to do so
		}
		set = p
	}
}
