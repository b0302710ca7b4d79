package dispatcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
)

// membership says that this process lives, and knows which other dispatchers do. What it says comes back to it by the same way as to
// all others: while its own word comes back, its picture of them is as new as that word. One that hears nothing of itself any more
// takes itself for gone, and so do the others.
type membership struct {
	d    *Dispatcher
	news chan struct{} // there is something new to say

	mu       sync.Mutex
	seen     roster.Roster
	known    bool // who lives was seen once, or could not be
	beat     uint64
	said     map[uint64]time.Time // what was said and not heard yet → just before
	heard    uint64
	unheard  time.Time // since when the server has what was not heard; zero: all is
	until    time.Time // this process is known to live
	rewatch  context.CancelFunc
	withheld bool // it says nothing: its clock is off
}

func newMembership(d *Dispatcher) *membership {
	return &membership{d: d, news: make(chan struct{}, 1), said: map[uint64]time.Time{}}
}

// tell has the membership said at once, with what has changed.
func (m *membership) tell() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// announce says each third of the lease that this process lives and where it serves, and takes that back when ctx ends: whoever
// takes over need not wait for its end.
func (m *membership) announce(ctx context.Context) error {
	began := time.Now()
	tick := time.NewTicker(m.d.set.LeaseTTL / 3)
	defer tick.Stop()
	defer m.withdraw(ctx)
	for {
		if m.d.skewed() {
			m.withhold(ctx)
		} else {
			m.say(ctx)
		}
		m.hearken(began)
		select {
		case <-ctx.Done():
			return nil
		case <-m.news:
		case <-tick.C:
		}
	}
}

// withhold lets others work while this machine's clock is off.
func (m *membership) withhold(ctx context.Context) {
	if !m.withheld {
		m.d.log.Error().Msg("this machine's clock is off the log's: it serves nothing")
		m.withdraw(ctx)
	}
	m.withheld = true
}

func (m *membership) withdraw(ctx context.Context) {
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := m.d.leases.Forget(free, roster.Key(m.d.set.ID)); err != nil {
		m.d.log.Warn().Err(err).Msg("release lease")
	}
}

func (m *membership) say(ctx context.Context) {
	m.withheld = false
	var serves []events.Partition
	if m.lives() { // else it would keep from others what it does not do
		serves = m.d.current()
	}
	at := time.Now()
	m.mu.Lock()
	m.beat++
	me := roster.Member{ID: m.d.set.ID, Beat: m.beat, Serves: serves}
	m.said[me.Beat] = at
	m.mu.Unlock()
	raw, err := me.Encode()
	if err == nil {
		err = m.d.leases.Note(ctx, roster.Key(me.ID), raw, m.d.set.LeaseTTL)
	}
	if err != nil {
		if ctx.Err() == nil {
			m.d.log.Warn().Err(err).Msg("lease")
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.heard < me.Beat && m.unheard.IsZero() {
		m.unheard = time.Now()
	}
}

// hearken begins to watch anew when what was said is not heard, and goes on without knowing the others when they cannot be known: the
// fold is then ready for when they can.
func (m *membership) hearken(began time.Time) {
	m.mu.Lock()
	if again := m.rewatch; again != nil && !m.unheard.IsZero() && time.Since(m.unheard) >= m.d.set.LeaseTTL/3 {
		m.unheard, m.rewatch = time.Time{}, nil
		defer again()
	}
	blind := !m.known && time.Since(began) > m.d.set.LeaseTTL
	m.known = m.known || blind
	m.mu.Unlock()
	m.publish(blind)
}

// watch keeps the picture of who lives until ctx ends.
func (m *membership) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		session, cancel := context.WithCancel(ctx)
		m.mu.Lock()
		m.rewatch, m.unheard = cancel, time.Time{}
		m.mu.Unlock()
		there, whole := map[string]roster.Member{}, false
		err := m.d.leases.Watch(session, roster.Prefix, func(s eventlog.Sight) {
			switch member, err := roster.Decode(s.Value); {
			case s.Key == "":
				whole = true
			case err != nil || roster.Key(member.ID) != s.Key: // gone, or no dispatcher's word
				delete(there, s.Key)
			default:
				there[s.Key] = member
			}
			if whole {
				m.see(there)
			}
		})
		cancel()
		if err != nil && ctx.Err() == nil {
			m.d.log.Warn().Err(err).Msg("dispatchers that live are not known")
			await.Elapsed(ctx, m.d.set.LeaseTTL/6)
		}
	}
	return nil
}

// see takes in who lives.
func (m *membership) see(there map[string]roster.Member) {
	members := make([]roster.Member, 0, len(there))
	for _, member := range there {
		members = append(members, member)
	}
	now := roster.Of(members...)
	m.mu.Lock()
	changed := !m.known || !same(m.seen, now)
	m.seen, m.known = now, true
	me, lives := there[roster.Key(m.d.set.ID)]
	at, mine := m.said[me.Beat]
	switch {
	case !lives:
		changed = changed || !m.until.IsZero()
		m.until = time.Time{}
	case me.Beat == m.heard: // nothing new: another one spoke
	case !mine: // another's word about this process, or one that it said before what was heard
		m.tell()
	default:
		m.heard, m.until, m.unheard = me.Beat, at.Add(m.d.set.LeaseTTL), time.Time{}
		for beat := range m.said {
			if beat <= me.Beat {
				delete(m.said, beat)
			}
		}
	}
	m.mu.Unlock()
	m.publish(changed)
}

// lives reports that this process is known to live.
func (m *membership) lives() bool {
	v := m.d.view.Load()
	return v != nil && v.lives(time.Now())
}

// same reports that two rosters lead to the same decisions.
func same(a, b roster.Roster) bool {
	return slices.EqualFunc(a.Members(), b.Members(), func(x, y roster.Member) bool {
		return x.ID == y.ID && slices.Equal(x.Serves, y.Serves)
	})
}
