package receipts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

// Shown is one receipt that a gateway showed when it was asked.
type Shown struct {
	State events.Status
	Word  string // the gateway's own
}

// shownOrder is the order in which receipts are recorded that come without times and in no order.
var shownOrder = []events.Status{events.StatusSent, events.StatusDelivered, events.StatusRead, events.StatusFailed}

// ShownBy gives what the status words mean that a gateway has stored of one message: each state once, in the order of its life. An
// error beside a delivery is left out: whoever has the message was reached (docs/events.md, the order of the fold), and customers
// need not hear of a failure first.
func ShownBy(words []string) []Shown {
	var out []Shown
	reached := false
	for _, state := range shownOrder {
		i := slices.IndexFunc(words, func(w string) bool { s, ok := StateOf(w); return ok && s == state })
		if i < 0 || (state == events.StatusFailed && reached) {
			continue
		}
		reached = reached || state == events.StatusDelivered || state == events.StatusRead
		out = append(out, Shown{state, words[i]})
	}
	return out
}

// Observation makes the event of RECEIPTS that says what a gateway showed of the message with a key id. The correlator takes it as
// it takes a webhook, so a webhook's copy of it, before or after, records nothing twice.
func (s Shown) Observation(p events.Partition, instance, keyID string, now time.Time) events.Event {
	sum := sha256.Sum256([]byte(strings.Join([]string{instance, keyID, s.Word}, "|")))
	return events.Event{
		Envelope: events.Envelope{
			ID: "ask-" + hex.EncodeToString(sum[:16]), Type: events.TypeGatewayObserved, Source: "pilot/reconciler", Time: now,
		},
		Address: events.ReceiptSubject(p, instance, EventMessagesUpdate),
		Body:    &events.GatewayObserved{Event: EventMessagesUpdate, KeyID: keyID, Status: s.Word, FromMe: true, ReceivedAt: now},
	}
}

// Statuses asks the gateway of an instance which status words it has stored of a message, in no order.
func (g Gateways) Statuses(ctx context.Context, in events.Instance, keyID string) ([]string, error) {
	client, err := g.client(ctx, in)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	words, err := client.FindStatuses(ctx, in.Name, keyID)
	if err != nil {
		return nil, fmt.Errorf("ask for receipts: %w", err)
	}
	for i, w := range words { // as a webhook's: free text may be personal
		words[i] = statusWord(w)
	}
	return words, nil
}

func (g Gateways) client(ctx context.Context, in events.Instance) (*evolution.Client, error) {
	apiKey, err := g.Secrets.Open(ctx, in.ID, in.GatewayKey)
	if err != nil {
		return nil, fmt.Errorf("open gateway key: %w", err)
	}
	cfg := g.Config
	cfg.BaseURL, cfg.APIKey = in.GatewayURL, string(apiKey)
	client, err := evolution.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("reach gateway: %w", err)
	}
	return client, nil
}
