package dispatcher

import (
	"context"
	"errors"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolution"
)

// numbers remembers what the number check said, per instance. Only the goroutine of run uses it.
type numbers struct {
	ttl  time.Duration
	seen map[string]resolved
}

type resolved struct {
	number string // digits to send to
	jid    string // empty when the check gave none
	at     time.Time
}

// maxNumbers bounds the memory of one instance; when it is full it starts again.
const maxNumbers = 10_000

func newNumbers(ttl time.Duration) *numbers { return &numbers{ttl: ttl, seen: map[string]resolved{}} }

func (n *numbers) get(digits string) (resolved, bool) {
	r, ok := n.seen[recipient.Canonical(digits)]
	return r, ok && time.Since(r.at) < n.ttl
}

func (n *numbers) put(digits string, r resolved) {
	if len(n.seen) >= maxNumbers {
		clear(n.seen)
	}
	n.seen[recipient.Canonical(digits)] = r
}

func (n *numbers) forget(digits string) { delete(n.seen, recipient.Canonical(digits)) }

type numberVerdict uint8

const (
	numberFine    numberVerdict = iota // send to the digits given back
	numberRefused                      // every form of it is not on WhatsApp
	numberNotNow                       // the instance is not connected
)

// number resolves the digits to send to: with or without the ninth digit, as the number check says. A check that gives no
// answer does not hold a message back: the digits are sent as they are.
func (a *actor) number(ctx context.Context, client *evolution.Client, inst events.Instance, digits string) (resolved, numberVerdict) {
	plain := resolved{number: digits}
	if a.p.d.set.SkipNumbers {
		return plain, numberFine
	}
	if r, ok := a.numbers.get(digits); ok {
		return r, numberFine
	}
	answers, err := client.WhatsAppNumbers(ctx, inst.Name, recipient.Variants(digits))
	if err != nil {
		var f *evolution.Failure
		if errors.As(err, &f) && f.Verdict.Code == evolution.CauseConnectionClosed {
			return plain, numberNotNow
		}
		a.log.Debug().Err(err).Msg("number check")
		return plain, numberFine
	}
	refused := 0
	for _, n := range answers {
		switch {
		case n.Exists && recipient.JIDMatches(n.JID, digits):
			got, _ := recipient.JIDDigits(n.JID)
			r := resolved{number: got, jid: n.JID, at: time.Now()}
			a.numbers.put(digits, r)
			return r, numberFine
		case !n.Exists:
			refused++
		}
	}
	if refused > 0 && refused == len(answers) && refused >= len(recipient.Variants(digits)) {
		return plain, numberRefused
	}
	return plain, numberFine
}

// jids gives the addresses a message to the digits may be stored under: the resolved one, else every form of the number.
func (a *actor) jids(ctx context.Context, client *evolution.Client, inst events.Instance, digits string) (jids []string, resolved bool) {
	answers, err := client.WhatsAppNumbers(ctx, inst.Name, recipient.Variants(digits))
	if err == nil {
		for _, n := range answers {
			if n.Exists && recipient.JIDMatches(n.JID, digits) {
				return []string{n.JID}, true
			}
		}
	}
	for _, v := range recipient.Variants(digits) {
		jids = append(jids, v+"@s.whatsapp.net")
	}
	return jids, false
}
