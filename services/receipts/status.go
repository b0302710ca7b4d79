package receipts

import (
	"time"

	"pilotstatus.dev/events"
)

// StateOf gives the public status that a gateway's status word is evidence of (docs/reference/gateway.md). ok is false for every
// word that says nothing about delivery, DELETED and PENDING among them: such a word never moves a message.
func StateOf(gatewayStatus string) (state events.Status, ok bool) {
	switch gatewayStatus {
	case "SERVER_ACK", "SENT":
		return events.StatusSent, true
	case "DELIVERY_ACK", "DELIVERED":
		return events.StatusDelivered, true
	case "READ", "PLAYED":
		return events.StatusRead, true
	case "ERROR", "FAILED":
		return events.StatusFailed, true
	default:
		return "", false
	}
}

// Connection is what an observation says about an instance.
type Connection string

// What an instance may be said to be. A lost connection is only ever "connecting", which changes nothing: the gateway says
// "close" when a new pairing is needed.
const (
	ConnectionOpen   Connection = "open"
	ConnectionClosed Connection = "closed"
	ConnectionSame   Connection = ""
)

// ConnectionOf reads an observation of KindConnection.
func ConnectionOf(o events.GatewayObserved) Connection {
	switch o.Event {
	case EventLogoutInstance:
		return ConnectionClosed
	case EventConnectionUpdate, EventStatusInstance:
		switch o.State {
		case "open":
			return ConnectionOpen
		case "close", "closed", "refused":
			return ConnectionClosed
		}
	}
	return ConnectionSame
}

// How far the gateway's clock may be off, and how late its last retry may come.
const (
	clockAhead  = 2 * time.Minute
	lastRetry   = 40 * time.Minute
	zoneStep    = time.Hour
	largestZone = 14 * time.Hour
)

// HappenedAt judges the gateway's time of an event: it prints its local time as if it were UTC, so a time that is off by whole
// hours is brought back. A time that cannot be right gives the time of receipt.
func HappenedAt(said, received time.Time) time.Time {
	if said.IsZero() {
		return received
	}
	late := received.Sub(said)
	if late > largestZone+lastRetry || late < -largestZone-clockAhead {
		return received
	}
	for late < -clockAhead {
		late += zoneStep
	}
	for late >= zoneStep-clockAhead {
		late -= zoneStep
	}
	if late > lastRetry {
		return received
	}
	return received.Add(-late)
}
