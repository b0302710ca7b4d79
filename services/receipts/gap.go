package receipts

import (
	"cmp"
	"slices"
	"time"
)

// A gap is an instance whose gateway takes messages and of which most get no receipt: webhooks that do not arrive, a number that is
// restricted, buttons that no phone shows (C1 17, 18). What is measured is what left long enough ago to have one.

// rate is how many messages of an instance left in a window, and how many of them have a receipt.
type rate struct {
	instance     string
	left, answer int
}

func (r rate) ratio() float64 { return float64(r.answer) / float64(r.left) }

// rates counts, by instance, what left from one time to another.
func (b *book) rates(from, to time.Time) map[string]rate {
	out := map[string]rate{}
	for e := b.order.Back(); e != nil; e = e.Prev() {
		m := e.Value.(*tracked)
		if m.since.Before(from.Add(-leavesWithin)) {
			break
		}
		if m.leftAt.IsZero() || m.leftAt.Before(from) || !m.leftAt.Before(to) {
			continue
		}
		r := out[m.instance]
		r.instance = m.instance
		r.left++
		if m.recorded != 0 {
			r.answer++
		}
		out[m.instance] = r
	}
	return out
}

// leavesWithin is how much later than its first event a message may leave and still be counted.
const leavesWithin = 15 * time.Minute

// maxGaps bounds the instances that have a figure of their own.
const maxGaps = 50

// gaps gives the instances of which too few messages have a receipt, the worst first.
func (s Settings) gaps(rates map[string]rate) []rate {
	var out []rate
	for _, r := range rates {
		if r.left >= s.GapSample && r.ratio() < s.GapBelow {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b rate) int {
		return cmp.Or(cmp.Compare(a.ratio(), b.ratio()), cmp.Compare(b.left, a.left), cmp.Compare(a.instance, b.instance))
	})
	return out
}

// lookForGaps measures, and says which instances became silent and which speak again. It belongs to the sweep.
func (c *Correlator) lookForGaps(now time.Time) {
	to := now.Add(-c.settings.GapAfter)
	c.mu.Lock()
	rates := c.book.rates(to.Add(-c.settings.GapWindow), to)
	c.mu.Unlock()
	gaps := c.settings.gaps(rates)
	c.settings.Metrics.silent.WithLabelValues(c.partition.String()).Set(float64(len(gaps)))
	seen := make(map[string]bool, len(gaps))
	for i, g := range gaps {
		seen[g.instance] = true
		if i < maxGaps {
			c.settings.Metrics.answered.WithLabelValues(g.instance).Set(g.ratio())
		}
		if !c.silent[g.instance] {
			c.settings.Logger.Warn().Str("instance", g.instance).Int("left", g.left).Int("with_receipt", g.answer).Msg("most receipts of an instance are missing")
		}
	}
	for instance := range c.silent {
		if !seen[instance] {
			c.settings.Metrics.answered.DeleteLabelValues(instance)
			c.settings.Logger.Info().Str("instance", instance).Msg("receipts of an instance come again, or nothing leaves from it")
		}
	}
	c.silent = seen
}
