package sim

import (
	"strings"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/webhook"
	"pilotstatus.dev/services/notifier"
	"pilotstatus.dev/services/receipts"
)

// gatewayKey is what a receipt names.
type gatewayKey struct{ instance, id string }

// checkReceipts: what the gateway said and we answered with 2xx is in the log, once for each message and state.
func (h *history) checkReceipts() {
	bound := map[gatewayKey]*told{}
	for _, m := range h.order {
		seen := map[string]int{}
		for _, r := range m.recs {
			addr, err := events.ParseEventSubject(r.Address)
			if err != nil {
				continue
			}
			switch addr.Group {
			case events.GroupReceipt:
				if seen[r.Type]++; seen[r.Type] > 1 {
					h.broke("receipts", m.ID, "%s is in the log %d times", r.Type, seen[r.Type])
				}
			case events.GroupDispatch:
				if r.GatewayID != "" {
					bound[gatewayKey{m.Instance, r.GatewayID}] = m
				}
			}
		}
	}
	types := map[events.Status]string{
		events.StatusSent: events.TypeReceiptSent, events.StatusDelivered: events.TypeReceiptDelivered,
		events.StatusRead: events.TypeReceiptRead, events.StatusFailed: events.TypeReceiptFailed,
	}
	for _, said := range h.rec.Heard {
		state, means := receipts.StateOf(said.Status)
		m := bound[gatewayKey{said.Instance, said.KeyID}]
		if !means || !said.FromMe || said.Answer != 200 || m == nil {
			continue
		}
		if !hasEvent(m.recs, types[state]) {
			h.broke("receipts", m.ID, "the gateway said %s at %s, and the log does not have it", said.Status, clock(said.At))
		}
	}
}

func hasEvent(recs []events.Recorded, wireType string) bool {
	for _, r := range recs {
		if r.Type == wireType {
			return true
		}
	}
	return false
}

// hookKey is one thing that a customer is told.
type hookKey struct {
	message    string
	status     events.Status
	correction int
}

// checkHooks: customers are told each transition of the fold, by one delivery, and nothing else (P10 up to the delivery in the stream).
func (h *history) checkHooks() {
	want := map[hookKey]bool{}
	for _, m := range h.order {
		for _, f := range m.state.Record {
			if c, ok := webhook.At(m.state, f.Seq); ok {
				if _, tells := webhook.Name(c.Status); tells {
					want[hookKey{m.ID, c.Status, c.Correction}] = true
				}
			}
		}
	}
	ids := map[string]hookKey{}
	for _, s := range h.rec.Hooks {
		r, err := events.Standard.Decode(s)
		body, ok := r.Body.(*events.HookDelivery)
		if err != nil || !ok {
			h.broke("hooks", "", "a delivery does not decode: %v", err)
			continue
		}
		k := hookKey{body.MessageID, body.Status, body.Correction}
		if m := h.messages[body.MessageID]; m == nil || body.Endpoint != "hook-"+m.Tenant {
			h.broke("hooks", body.MessageID, "it is told to %s", body.Endpoint)
		}
		if other, twice := ids[r.ID]; twice && other != k {
			h.broke("hooks", body.MessageID, "%s of %s and %s of %s have one id", k.status, k.message, other.status, other.message)
		}
		ids[r.ID] = k
		if !want[k] {
			h.broke("hooks", body.MessageID, "%s is told, and is no transition", k.status)
		}
		delete(want, k)
	}
	h.missed(want)
	for k := range want {
		h.broke("hooks", k.message, "%s is not told", k.status)
	}
	h.checkTries(ids)
}

// missed takes away what an endpoint did not hear since it was switched off, as is written down for a replay. It is switched off rightly
// only when as many deliveries as it takes had ended without success before, however they lie between those that did not.
func (h *history) missed(want map[hookKey]bool) {
	failed := map[string]int{}
	var notHeard []*events.HookAttempt
	for _, s := range h.rec.HookLog {
		r, err := events.Standard.Decode(s)
		try, ok := r.Body.(*events.HookAttempt)
		if err != nil || !ok {
			h.broke("hooks", "", "a try does not decode: %v", err)
			continue
		}
		switch {
		case try.Attempt > 0 && strings.HasSuffix(s.Subject, "."+events.HookExhausted):
			failed[try.Endpoint]++
		case try.Event == events.CustomerWebhookDisabled:
			if h.off[try.Endpoint] = true; failed[try.Endpoint] < notifier.DisableAfter {
				h.broke("hooks", "", "%s was switched off after %d failures", try.Endpoint, failed[try.Endpoint])
			}
		case try.Attempt == 0 && try.Delivery != nil:
			notHeard = append(notHeard, try)
		}
	}
	for _, try := range notHeard {
		k := hookKey{try.Delivery.MessageID, try.Delivery.Status, try.Delivery.Correction}
		if !h.off[try.Endpoint] {
			h.broke("hooks", k.message, "%s is not told to %s, which was never switched off", k.status, try.Endpoint)
		}
		delete(want, k)
	}
}
