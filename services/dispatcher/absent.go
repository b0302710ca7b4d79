package dispatcher

import (
	"context"
	"fmt"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/absence"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/failpoint"
)

// socketWord is what the gateway says of the instance's connection around a look-up.
type socketWord struct {
	asked   bool
	open    bool      // before and after the rows were read
	shut    bool      // it said something else than open
	changed time.Time // when it last told, unasked, that the connection changed; zero when it never did
}

// lookAt asks the gateway about every suspect, and what makes an absence mean something where one may come to be.
func (a *actor) lookAt(ctx context.Context, inst events.Instance, all []suspect) (lookupResult, error) {
	r := lookupResult{asked: all}
	candidates, mature := a.endings(ctx, all)
	if candidates {
		r.socket = a.askSocket(ctx, inst)
	}
	if mature && r.socket.open {
		r.saves = a.savesNow(ctx, inst)
	}
	var err error
	if r.groups, err = a.ask(ctx, inst, all); err != nil {
		r.socket.open = false
		return r, err
	}
	if candidates {
		again := a.askSocket(ctx, inst)
		again.open, again.shut = again.open && r.socket.open, again.shut || r.socket.shut
		r.socket = again
	}
	return r, nil
}

// endings reads how the calls ended of which an absence may be found, and whether any such attempt is old enough for a count.
func (a *actor) endings(ctx context.Context, all []suspect) (candidates, mature bool) {
	now := a.p.d.set.Now()
	for i := range all {
		s := &all[i]
		if s.unknownSeq == 0 {
			continue
		}
		rec, err := a.read(ctx, s.unknownSeq)
		if err != nil {
			a.log.Warn().Err(err).Str("message", s.message.ID).Msg("read how a call ended")
			continue
		}
		if body, ok := rec.Body.(*events.DispatchUnknown); ok {
			s.ended = body
			candidates = candidates || absence.Silent(*body)
			mature = mature || absence.Silent(*body) && now.Sub(s.since) >= a.p.d.set.Absence.After
		}
	}
	return candidates, mature
}

// askSocket asks the gateway for the state of the connection now, and the log of receipts for the last change that it told of: a
// connection that was lost and came back between two questions shows there. No answer is no word.
func (a *actor) askSocket(ctx context.Context, inst events.Instance) socketWord {
	w := socketWord{asked: true}
	client, err := a.p.d.gateways.client(ctx, inst)
	if err != nil {
		return w
	}
	state, err := client.ConnectionState(ctx, inst.Name)
	if err != nil {
		a.log.Debug().Err(err).Msg("connection state for a look-up")
		return w
	}
	if w.shut = state != evolution.StateOpen; w.shut {
		return w
	}
	for _, event := range connectionEvents {
		rec, err := a.p.log.LastBySubject(ctx, events.ReceiptsStream(a.p.n), events.ReceiptSubject(a.p.n, a.id, event))
		switch {
		case events.CodeOf(err) == events.CodeNotFound:
		case err != nil:
			a.log.Debug().Err(err).Msg("last word of the connection for a look-up")
			return w
		case rec.Stored.After(w.changed):
			w.changed = rec.Stored
		}
	}
	w.open = true
	return w
}

// connectionEvents are the gateway's own words for a change of the connection.
var connectionEvents = []string{"connection.update", "status.instance", "logout.instance"}

// savesNow reports whether the gateway shows, now, the message that is known to have left last.
func (a *actor) savesNow(ctx context.Context, inst events.Instance) bool {
	a.mu.Lock()
	known, since := a.q.NewestBound()
	a.mu.Unlock()
	saves, err := a.saves(ctx, inst, known, since)
	if err != nil {
		a.log.Debug().Err(err).Msg("find a known message for a look-up")
	}
	return saves
}

// absentee is an attempt of which the look-ups found nothing, under all conditions.
type absentee struct {
	s    suspect
	body events.DispatchAbsent
}

// observe takes what a look-up saw into the counts of the attempts of a group, and gives those that are absent now. The caller holds
// a.mu.
func (a *actor) observe(r lookupResult, g *sameText, free int) (gone []absentee) {
	rules := a.p.d.set.Absence
	strangers := a.unexplained(g)
	for _, s := range g.suspects {
		l := a.lookups[s.message.ID]
		if s.ended == nil || l == nil || l.attempt != s.attempt {
			continue
		}
		if l.counts == nil {
			c := absence.New(s.since, absence.Silent(*s.ended))
			l.counts = &c
		}
		l.counts.Add(rules, absence.Observation{
			From: g.from, To: g.to, Rows: len(g.rows), Free: free, Strangers: strangers, Others: g.others(s.message.ID),
			// The gateway's database refuses a NUL: such a message is sent and has no row.
			Complete: g.complete && !strings.ContainsRune(g.text, 0), Saves: r.saves, Socket: a.socket(r.socket, s),
		})
		if body, ok := l.counts.Absent(rules); ok {
			gone = append(gone, absentee{s, body})
			continue
		}
		if at, ok := l.counts.Next(rules); ok {
			now := a.p.d.set.Now()
			if !at.After(now) { // what spoilt the count may be over by then
				at = now.Add(rules.Apart)
			}
			if at.Before(l.next) {
				l.next = at
			}
		}
	}
	return gone
}

// unexplained counts the rows that prove nothing and are not known to be another message's. The caller holds a.mu.
func (a *actor) unexplained(g *sameText) (n int) {
	for _, row := range g.strangers {
		if !a.q.Bound(row.KeyID) {
			n++
		}
	}
	return n
}

// elsewhere reports that an attempt may have gone to another gateway than the instance's present one, or left under another name: no look-up
// here shows it. Who had not read of the move yet went on there for a while.
func (a *actor) elsewhere(s suspect) (yes bool) {
	a.p.d.catalog.Read(func(c *catalog.Catalog) { yes = c.MovedAt(a.id).After(s.since.Add(-time.Minute)) })
	return yes
}

// socket judges the connection since the intent of s. The caller holds a.mu.
func (a *actor) socket(w socketWord, s suspect) absence.Socket {
	switch {
	case a.elsewhere(s): // it is another connection
		return absence.SocketShut
	case w.shut, w.changed.After(s.since.Add(-lookSlack)), a.q.ConnectionSeq() > s.startSeq:
		return absence.SocketShut
	case w.open:
		return absence.SocketOpen
	}
	return absence.SocketUnsaid
}

// absent appends that an attempt is absent, unless something was learned of it since: then it is looked up on.
func (a *actor) absent(ctx context.Context, x absentee) {
	failpoint.Hit("dispatcher.before_absent")
	s := x.s
	appended := false
	err := a.decide(ctx, func(q *queue.Queue, _ time.Time) decision {
		appended = false
		e, ok := q.Entry(s.message.ID)
		if !ok || e.Summary().Settled() || e.NextAttempt() != s.attempt+1 || q.ConnectionSeq() > s.startSeq || a.elsewhere(s) {
			return decision{}
		}
		if at := attemptOf(e, s.attempt); at.State != message.AttemptUnknown || at.Absent || at.Nonce != s.nonce {
			return decision{}
		}
		appended = true
		ev := a.event(events.TypeDispatchAbsent, "absent", s.message, s.tenant, s.attempt, &x.body)
		return decision{fenced: &ev}
	})
	switch {
	case err != nil:
		a.log.Warn().Err(err).Str("message", s.message.ID).Msg("absence not confirmed")
	case appended:
		a.p.d.metrics.absent.Inc()
		a.log.Warn().Str("message", s.message.ID).Int("attempt", s.attempt).Str("first", fmt.Sprintf("%d ms", x.body.FirstMS)).
			Str("last", fmt.Sprintf("%d ms", x.body.LastMS)).Msg("absent: the gateway shows no trace of it")
	}
}
