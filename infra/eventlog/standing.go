package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/await"
)

// standing is how a durable consumer stood when it was last asked for. Only the watch of the running session uses it.
type standing struct {
	taken     uint64    // deliveries to this process
	delivered uint64    // deliveries to anybody, repeats too
	floor     uint64    // deliveries up to here are acknowledged
	waits     time.Time // since when something waits; zero while nothing does
	moved     time.Time // since when delivered stands
	settled   time.Time // since when floor stands
	said      time.Time // when somebody was delivered to, or said that it is still at work, by the server's clock
	heard     time.Time // when somebody said so, and nothing was delivered
	clear     uint64    // the stream holds nothing for it up to here, unless it is a work queue
	cuts      int       // sessions that ended since this process was given anything
	atCut     uint64    // delivered, at the last of them
}

// watch ends a session that brings nothing while something waits. Of a consumer that brings, or all of whose handlers are at work,
// nothing is asked.
func (c *consumption) watch(ctx context.Context, cut context.CancelCauseFunc) {
	for await.Elapsed(ctx, c.log.opts.Stuck) {
		if c.stuck(ctx, time.Now()) {
			cut(errStuck)
			return
		}
	}
}

// stuck looks once. Two things are not as they should be: an event waits, more may be delivered, and none is, to nobody; or what was
// delivered is not acknowledged longer than AckWait, is not here, comes no second time, and nobody says that it is still at work. The
// first time the session is to blame. When the next one is brought nothing either and the server has delivered nothing at all, the
// consumer is.
func (c *consumption) stuck(ctx context.Context, now time.Time) bool {
	s := &c.seen
	taken, busy := c.counts(), int(c.busy.Load())
	if taken != s.taken || busy >= c.cfg.Concurrency {
		*s = standing{taken: taken, clear: s.clear, delivered: s.delivered, floor: s.floor}
		c.tidy(ctx, busy)
		return false
	}
	stream, maybe, err := c.mayWait(ctx)
	if err != nil {
		return false // nothing is known
	}
	if !maybe {
		s.waits = time.Time{}
		return false
	}
	info, err := c.info(ctx)
	if err != nil {
		return false // one that is gone is found otherwise
	}
	if info.AckFloor.Stream <= stream.state.LastSeq {
		c.stands(info, true)
	}
	waits, err := c.undelivered(ctx, stream, info)
	if err != nil {
		return false
	}
	s.note(info, now)
	room := info.Config.MaxAckPending <= 0 || info.NumAckPending < info.Config.MaxAckPending
	beyond := c.outlives(ctx, info, stream) // what comes next would be passed over
	var since time.Time
	limit := patience(c.log.opts.Stuck, s.cuts)
	switch {
	case info.Paused:
		s.waits = time.Time{}
		return false
	case waits && room, beyond:
		since = s.moved
	case info.NumAckPending > 0 && busy == 0:
		since = s.settled
		if s.heard.After(since) {
			since = s.heard
		}
		limit += info.Config.AckWait
	default:
		s.waits = time.Time{}
		if !waits && info.NumAckPending == 0 {
			s.clear = stream.state.LastSeq
		}
		return false
	}
	if s.waits.IsZero() {
		s.waits = now
	}
	if s.waits.After(since) {
		since = s.waits
	}
	if now.Sub(since) < limit {
		return false
	}
	if s.cuts > 0 && s.atCut == s.delivered {
		c.doomed = info.Created
	}
	s.cuts, s.atCut, s.waits = s.cuts+1, s.delivered, time.Time{}
	return true
}

// note keeps since when the consumer stands as it does.
func (s *standing) note(info *jetstream.ConsumerInfo, now time.Time) {
	// The server dates a word that work goes on as it does a delivery, and counts none.
	if last := info.Delivered.Last; last != nil && !last.Equal(s.said) {
		if s.said = *last; info.Delivered.Consumer == s.delivered {
			s.heard = now
		}
	}
	if info.Delivered.Consumer != s.delivered || s.moved.IsZero() {
		s.delivered, s.moved = info.Delivered.Consumer, now
	}
	if info.AckFloor.Consumer != s.floor || s.settled.IsZero() {
		s.floor, s.settled = info.AckFloor.Consumer, now
	}
}

// mayWait tells from what is asked once for all consumers of a stream whether this one has to be asked for.
func (c *consumption) mayWait(ctx context.Context) (streamNow, bool, error) {
	stream, err := c.log.look(ctx, c.cfg.Stream, c.cfg.Among)
	if err != nil {
		return streamNow{}, false, err
	}
	if stream.retention == jetstream.LimitsPolicy {
		return stream, stream.state.LastSeq > c.seen.clear, nil
	}
	if c.cfg.Among == "" || !stream.all {
		return stream, true, nil
	}
	for _, f := range c.cfg.Filters {
		if stream.state.Subjects[f] > 0 {
			return stream, true, nil
		}
	}
	return stream, false, nil
}

// undelivered reports that the stream holds something that the consumer has not delivered, whatever it says itself. In a work queue
// that is also what it takes for acknowledged and is still there.
func (c *consumption) undelivered(ctx context.Context, stream streamNow, info *jetstream.ConsumerInfo) (bool, error) {
	there, err := c.log.standsFrom(ctx, c.cfg.Stream, c.cfg.Filters, info.Delivered.Stream+1)
	if err != nil || there || stream.retention == jetstream.LimitsPolicy {
		return there, err
	}
	first, err := c.log.first(ctx, c.cfg.Stream, c.cfg.Filters)
	return first > 0 && first <= info.AckFloor.Stream, err
}

// outlives reports that the consumer has delivered what the stream never held, or lost in a power cut: it would pass over as many new
// events. asked is a picture of the stream that may be older than that of the consumer.
func (c *consumption) outlives(ctx context.Context, info *jetstream.ConsumerInfo, asked streamNow) bool {
	if info.Delivered.Stream <= asked.state.LastSeq {
		return false
	}
	now, err := c.log.streamNow(ctx, c.cfg.Stream, "")
	return err == nil && info.Delivered.Stream > now.state.LastSeq
}

// discard deletes a consumer that must not be read any more; the error is then jetstream.ErrConsumerNotFound, as if it had never been.
func (c *consumption) discard(ctx context.Context, info *jetstream.ConsumerInfo) error {
	doomed := !c.doomed.IsZero() && info.Created.Equal(c.doomed) // else another process has made it anew
	if !doomed {
		asked, err := c.log.look(ctx, c.cfg.Stream, c.cfg.Among)
		if err != nil || !c.outlives(ctx, info, asked) {
			return nil // what is not known is no reason
		}
		// A leader just elected may know less for a moment than the consumer's.
		if !await.Elapsed(ctx, deletedSettle) || !c.outlives(ctx, info, asked) {
			return ctx.Err()
		}
	}
	c.log.opts.Logger.Warn().Str("durable", c.cfg.Durable).Uint64("delivered", info.Delivered.Stream).
		Uint64("acknowledged", info.AckFloor.Stream).Uint64("pending", info.NumPending).Msg("consumer is deleted and made anew")
	ctx, cancel := c.log.try(ctx)
	defer cancel()
	err := c.log.js.DeleteConsumer(ctx, c.cfg.Stream, c.cfg.Durable)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("delete consumer %s: %w", c.cfg.Durable, err)
	}
	c.had, c.doomed = true, time.Time{}
	return jetstream.ErrConsumerNotFound
}

func (c *consumption) info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	found, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	return found.CachedInfo(), nil
}

// tidy looks while this process is never at rest, where that may tell more than what is known: what others acknowledged, and how far they
// are.
func (c *consumption) tidy(ctx context.Context, busy int) {
	if !c.lags(busy, c.cfg.Among == "") { // a work queue knows by itself what is still to do
		return
	}
	if info, err := c.info(ctx); err == nil { // else at the next look
		c.stands(info, false)
	}
}
