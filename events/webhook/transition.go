package webhook

import (
	"strconv"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// Names lists the customer events of a message in the order in which they usually come.
func Names() []string {
	return []string{
		events.CustomerMessageSent, events.CustomerMessageDelivered, events.CustomerMessageRead, events.CustomerMessageFailed,
	}
}

// Name gives the customer event of a transition to status. ok is false where customers hear nothing: QUEUED, and CANCELED,
// which the customer did itself.
func Name(status events.Status) (name string, ok bool) {
	switch status {
	case events.StatusSent:
		return events.CustomerMessageSent, true
	case events.StatusDelivered:
		return events.CustomerMessageDelivered, true
	case events.StatusRead:
		return events.CustomerMessageRead, true
	case events.StatusFailed:
		return events.CustomerMessageFailed, true
	default:
		return "", false
	}
}

// IDInput is the text whose keyed hash is the webhook-id of one customer event at one endpoint: "<endpoint>|<message>|<status>|<correction>".
// It depends on nothing else, so a repeated receipt, a restart or a replay finds the same id.
func IDInput(endpoint, messageID string, status events.Status, correction int) string {
	return endpoint + "|" + messageID + "|" + string(status) + "|" + strconv.Itoa(correction)
}

// Change is a transition and what was known of the message when it happened.
type Change struct {
	message.Transition
	GatewayID string
}

// At gives the transition that the fact at seq brought, as the log stood then: later facts of the state change nothing.
// ok is false when that fact brought none.
func At(s message.State, seq uint64) (c Change, ok bool) {
	for i, f := range s.Record {
		if f.Seq > seq {
			s.Record = s.Record[:i]
			break
		}
	}
	v := s.View()
	if n := len(v.Transitions); n > 0 && v.Transitions[n-1].Seq == seq {
		return Change{Transition: v.Transitions[n-1], GatewayID: v.GatewayID}, true
	}
	return Change{}, false
}

// Delivery is what is stored for one endpoint of a change of s. ok is false when customers hear nothing of the change, or when
// the accepted message is not known with its body. withContent decides, once and for every try, whether number and content are
// part of the body. FirstAt and Attempt are left to the sender.
func Delivery(endpoint string, s message.State, c Change, withContent bool) (d events.HookDelivery, ok bool) {
	name, ok := Name(c.Status)
	if !ok || s.Queued == nil || s.Queued.Body == nil {
		return events.HookDelivery{}, false
	}
	q := s.Queued
	return events.HookDelivery{
		Endpoint: endpoint, Instance: q.Instance, Event: name, MessageID: s.ID,
		Queued: q.Position, Cause: events.Position{Partition: q.Position.Partition, Sequence: c.Seq},
		Status: c.Status, At: c.At, Correction: c.Correction, GatewayID: c.GatewayID, ErrorCode: c.ErrorCode,
		Environment: q.Body.Environment, CorrelationID: q.Body.CorrelationID, Origin: q.Body.Origin,
		SourceNumber: q.Body.SourceNumber, WithContent: withContent,
	}, true
}
