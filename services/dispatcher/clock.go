package dispatcher

import (
	"context"
	"time"

	"pilotstatus.dev/events"
)

// skew is how far this machine's clock was off the stream's, and when that was seen.
type skew struct {
	off time.Duration
	at  time.Time
}

// skewValid is how long an observation of the clock counts: then a start is tried again.
const skewValid = 10 * time.Second

// lookAtClock compares the stream's clock with ours through a start of this very process: it was stored between our stamp and now.
func (p *partition) lookAtClock(rec events.Recorded) { p.observe(rec.Time, rec.Stored, p.d.set.Now()) }

// askClock compares the clocks by a question that the stream answers with its time. Starts alone would be too late: before the first
// one, and while there is none, ends and look-ups are due by this clock too.
func (p *partition) askClock(ctx context.Context) {
	before := p.d.set.Now()
	at, err := p.log.Clock(ctx, events.EventsStream(p.n))
	if err != nil { // a log that does not answer takes nothing either
		p.d.log.Debug().Err(err).Stringer("partition", p.n).Msg("ask for the time")
		return
	}
	p.observe(before, at, p.d.set.Now())
}

// observe keeps what a moment of the stream's clock, between two of ours, says.
func (p *partition) observe(before, at, after time.Time) {
	p.skew.Store(&skew{off: max(before.Sub(at), at.Sub(after), 0), at: after})
}

// skewed reports that this machine's clock is too far off the stream's to promise anything about deadlines.
func (p *partition) skewed(now time.Time) bool {
	s := p.skew.Load()
	return s != nil && s.off > p.d.set.MaxClockSkew && now.Sub(s.at) < skewValid
}

// skewed reports that the clock is off that of any partition: somebody else had better lead.
func (d *Dispatcher) skewed() bool {
	for _, p := range d.parts {
		if p.skewed(d.set.Now()) {
			return true
		}
	}
	return false
}
