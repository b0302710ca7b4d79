package eventlog

import (
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// place is what a process knows of how far a durable consumer is, so that one made anew goes on without a loss. While every delivery
// came here that is known exactly; what others were given and have not settled shows in the server's own account only, as of the last
// look at it.
type place struct {
	mu      sync.Mutex
	made    time.Time           // the consumer that this is about
	taken   uint64              // deliveries to this process, of any consumer
	last    uint64              // highest sequence delivered here
	counted uint64              // number of the last delivery, in the consumer's count of those to anybody
	open    map[uint64]struct{} // delivered here, neither acknowledged nor terminated here, nor known to be by others
	floor   uint64              // all up to here was acknowledged, by whomever, at the last look
	known   bool                // there was a look
	alone   bool                // nothing that is not acknowledged was delivered to others
}

func (p *place) counts() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// take notes a delivery to this process, and gives what to call when it is settled.
func (p *place) take(at jetstream.SequencePair) (settled func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alone = p.alone && at.Consumer == p.counted+1
	p.counted, p.taken, p.last = at.Consumer, p.taken+1, max(p.last, at.Stream)
	p.open[at.Stream] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, at.Stream)
	}
}

// stands takes in what the server says of the consumer. What this process gave back or left open and another one has acknowledged is
// settled. rest says that nothing is on its way here.
func (p *place) stands(info *jetstream.ConsumerInfo, rest bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !info.Created.Equal(p.made) { // all that is not acknowledged comes again
		p.made, p.last, p.open = info.Created, info.AckFloor.Stream, map[uint64]struct{}{}
		p.alone, p.counted = info.NumAckPending == 0, info.Delivered.Consumer
	}
	p.floor, p.known = info.AckFloor.Stream, true
	maps.DeleteFunc(p.open, func(seq uint64, _ struct{}) bool { return seq <= p.floor })
	if !p.alone || rest && info.Delivered.Consumer != p.counted {
		p.alone, p.counted = info.NumAckPending == 0, info.Delivered.Consumer
	}
}

// lags reports that a look may tell more than what is known, while some deliveries are at work here: of how far others are (not asked
// where no consumer made anew needs it), or of what they settled.
func (p *place) lags(atWork int, others bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return others && !p.alone || len(p.open) > atWork
}

// resume is where a consumer made anew goes on: at the first delivery that is not settled, or, where others were given some, behind what
// all together had acknowledged at the last look: what was since comes twice. 0 when nothing is known. end is the last sequence of the
// stream: one that is shorter than what was acknowledged has lost events, and nobody knows which of the new ones stand in their place.
func (p *place) resume(end uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	believed := p.known && p.floor <= end // else it is of a consumer that was ahead
	if believed && !p.alone {
		return p.floor + 1
	}
	at := p.last + 1
	for seq := range p.open {
		at = min(at, seq)
	}
	if believed {
		return max(at, p.floor+1)
	}
	if p.last == 0 || at > end+1 {
		return 0
	}
	return at
}
