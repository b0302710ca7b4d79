package dispatcher

import (
	"context"
	"time"
	"unicode/utf8"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

// How long somebody is seen to type. The gateway holds the request for that time, and cuts it to its limit (presence, 3 s).
const (
	typingLeast = 500 * time.Millisecond
	typingMost  = 2500 * time.Millisecond
	// typingLook is how often a turn that types looks whether something goes before it.
	typingLook = 100 * time.Millisecond
)

// typing shows the recipient that somebody types, where the instance wants that: before the intent, so that it takes nothing of the
// time of a call; best effort, before the first attempt only, and never for a code. false: something of a higher category came
// meanwhile, and this turn gives way. It does not type again then, so that it gives way once; in the guaranteed turn of its class it does not.
func (a *actor) typing(ctx context.Context, client *evolution.Client, inst events.Instance, j job, c content, number string) bool {
	if !inst.Types() || !j.fresh || j.lane.Class.Category() == events.OTP || a.hasTyped(j.id) {
		return true
	}
	d := max(typingLeast, min(typingMost, time.Duration(utf8.RuneCountInString(c.Content.Text()))*a.p.d.set.TypingRune))
	if a.p.d.set.Now().Add(d + time.Second).After(j.deliverUntil) {
		return true
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := client.SendPresence(ctx, inst.Name, number, "composing", d); err != nil {
			a.log.Debug().Err(err).Str("message", j.id).Msg("typing not shown")
		}
	}()
	tick := time.NewTicker(typingLook)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return true
		case <-tick.C:
			a.mu.Lock()
			gives := a.givesWay(j, a.p.d.set.Now())
			a.mu.Unlock()
			if gives {
				stop()
				<-done
				return false
			}
		}
	}
}

// givesWay lets what came of a higher category go before a turn that has no call yet: once a message, and not in the guaranteed turn of
// its class. The caller holds a.mu.
func (a *actor) givesWay(j job, now time.Time) bool {
	if j.claimed || a.gave[j.id] || !a.q.Overtaken(j.id, now) {
		return false
	}
	remember(a.gave, j.id)
	a.q.GiveWay(j.id)
	return true
}

// hasTyped remembers that somebody types for a message, and says whether that was so before.
func (a *actor) hasTyped(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.typed[id] {
		return true
	}
	remember(a.typed, id)
	return false
}

// untype forgets a message whose turn came to a start.
func (a *actor) untype(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.typed, id)
	delete(a.gave, id)
}
