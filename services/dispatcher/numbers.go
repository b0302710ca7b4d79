package dispatcher

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolution"
)

type numberVerdict uint8

const (
	numberFine    numberVerdict = iota // send to the digits given back
	numberRefused                      // every form of it is not on WhatsApp
	numberNotNow                       // the instance is not connected
	numberForeign                      // it would go to somebody else
	numberUnsaid                       // it may: a gateway can take it for somebody else's, and the check does not say whether it does
)

// number resolves the digits to send to: with or without the ninth digit, as the number check says. A check that gives no
// answer does not hold a message back: the digits are sent as they are. One that names somebody else's number does, and so does no
// answer where it could have named one.
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
	}
	if len(answers) == 0 {
		if recipient.HoldsAnother(digits) {
			return plain, numberUnsaid
		}
		return plain, numberFine
	}
	refused, found := 0, plain
	for _, n := range answers {
		switch {
		case !n.Exists:
			refused++
		case recipient.JIDForeign(n.JID, digits):
			return plain, numberForeign
		case found.jid == "" && recipient.JIDMatches(n.JID, digits):
			got, _ := recipient.JIDDigits(n.JID)
			found = resolved{number: got, jid: n.JID, at: time.Now()}
		}
	}
	if found.jid != "" {
		if !recipient.HoldsAnother(digits) { // else the gateway may take it for another's at any time: it is asked for each time
			a.numbers.put(digits, found)
		}
		return found, numberFine
	}
	if refused > 0 && refused == len(answers) && refused >= len(recipient.Variants(digits)) {
		return plain, numberRefused
	}
	return plain, numberFine
}

// addresses are where a message to a number may be stored at the gateway.
type addresses struct {
	jids []string // every form of the number
	lids []string // other names of the same account, where the gateway told any: nothing is sent to one or bound by one
}

// addresses gives where to look for messages to the digits; resolved is whether the number check knows one of the forms.
func (a *actor) addresses(ctx context.Context, client *evolution.Client, inst events.Instance, digits string) (at addresses, resolved bool) {
	for _, v := range recipient.Variants(digits) {
		at.jids = append(at.jids, v+"@s.whatsapp.net")
	}
	answers, err := client.WhatsAppNumbers(ctx, inst.Name, recipient.Variants(digits))
	if err != nil {
		return at, false
	}
	for _, n := range answers {
		if !n.Exists {
			continue
		}
		if n.LID != "" && !slices.Contains(at.lids, n.LID) {
			at.lids = append(at.lids, n.LID)
		}
		switch {
		case recipient.JIDMatches(n.JID, digits):
			resolved = true
			if !slices.Contains(at.jids, n.JID) {
				at.jids = append(at.jids, n.JID)
			}
		case strings.HasSuffix(n.JID, "@lid") && !slices.Contains(at.lids, n.JID):
			at.lids = append(at.lids, n.JID)
		}
	}
	return at, resolved
}
