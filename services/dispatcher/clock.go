package dispatcher

import (
	"context"
	"time"

	"pilotstatus.dev/events"
)

// skew is how far this machine's clock was off the stream's when they were last compared.
type skew struct{ off time.Duration }

// lookAtClock compares the stream's clock with ours through a start of this very process: it was stored between our stamp and now.
func (p *partition) lookAtClock(rec events.Recorded) { p.observe(rec.Time, rec.Stored, p.d.set.Now()) }

// askClock compares the clocks by a question that the stream answers with its time. Starts alone would be too late: before the first
// one, and while there is none, ends and look-ups are due by this clock too.
func (p *partition) askClock(ctx context.Context) {
	before := p.d.set.Now()
	at, err := p.log.Clock(ctx, events.EventsStream(p.n))
	if err != nil {
		p.d.log.Debug().Err(err).Stringer("partition", p.n).Msg("ask for the time")
		return
	}
	p.observe(before, at, p.d.set.Now())
}

// observe keeps what a moment of the stream's clock, between two of ours, says; nothing when they are so far apart that an error
// could hide between them.
func (p *partition) observe(before, at, after time.Time) {
	off := max(before.Sub(at), at.Sub(after), 0)
	if off <= p.d.set.MaxClockSkew && after.Sub(before) > p.d.set.MaxClockSkew {
		return
	}
	p.skew.Store(&skew{off: off})
}

// skewed reports that this machine's clock is too far off the stream's to promise anything about deadlines.
func (p *partition) skewed() bool {
	s := p.skew.Load()
	return s != nil && s.off > p.d.set.MaxClockSkew
}

// timeless reports that nothing may be done by this machine's clock: it is off, or was never compared. A log that answers too late
// to compare it may well take an end.
func (p *partition) timeless() bool { return p.skew.Load() == nil || p.skewed() }

// skewed reports that the clock is off that of every partition it was compared with: somebody else had better work. Where it agrees with
// some it is those others' servers whose clocks are off, and this process goes on in the partitions whose clock is its own.
func (d *Dispatcher) skewed() bool {
	off := false
	for _, p := range d.parts {
		if p.skewed() {
			off = true
		} else if !p.timeless() {
			return false
		}
	}
	return off
}
