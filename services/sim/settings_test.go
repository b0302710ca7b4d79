package sim

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/services/control"
)

func (w *world) gatewayOf(n int) *gateway { return w.gateways[home(n)] }

// slotOf gives the slot of a message: one for all messages of an instance to the same recipient.
func slotOf(m planned) uint8 {
	_, most := callsOf(m.Instance)
	h := fnv.New32a()
	_, _ = h.Write([]byte(recipient.Canonical(m.Number))) // never fails
	return uint8(h.Sum32() % uint32(most))
}

// drawSettings plans changes of pace and concurrency while messages leave.
func (p *plan) drawSettings(r *rand.Rand) {
	for range 2*int(p.Length/time.Hour) + 3 {
		n := []int{1, 3, 4}[r.IntN(3)]
		_, most := callsOf(n)
		calls, rate := 1+r.IntN(most), []float64{0, 6, 20, 60}[r.IntN(4)]
		p.do(within(r, 0, p.Length), func(w *world) {
			w.set(n, func(in *events.Instance) {
				in.Concurrency = calls
				if n == 3 {
					in.Pace.RatePerMinute = rate
				}
			})
		})
	}
}

// set changes an instance in the control plane. What it was given before holds for a moment longer. Two changes may meet while the
// catalog is behind: as an operator would, the second reads again and repeats its own.
func (w *world) set(n int, change func(*events.Instance)) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*longestOutage)
	defer cancel()
	for {
		var in events.Instance
		var version uint64
		w.feed.Read(func(c *catalog.Catalog) {
			in, _ = c.Instance(instanceID(n))
			version = c.Version(events.KindInstance, instanceID(n))
		})
		change(&in)
		_, err := control.Define(ctx, w.log, events.KindInstance, in.ID, in, control.Author{By: operator}, version)
		switch {
		case err == nil:
			w.rec.hit("settings changed")
			w.noteSetting(in)
			return
		case events.CodeOf(err) != events.CodeConflict || !await.Elapsed(ctx, time.Second):
			w.rec.fail("set instance", err)
			return
		}
	}
}

func (w *world) noteSetting(in events.Instance) {
	w.rec.note(func(r *recording) {
		r.Settings = append(r.Settings, setting{Instance: in.ID, At: time.Now(), Calls: in.CallsAtOnce(), Pace: in.Pacing()})
	})
}
