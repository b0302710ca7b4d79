package evolution

import "pilotstatus.dev/events"

// Codes of an end, as customers see them in a failed message (docs/reference/gateway.md).
const (
	CodeNumberNotOnWhatsApp = "WHATSAPP_NOT_EXIST"                 // the gateway says the number has no WhatsApp account
	CodeRejected            = "GATEWAY_REJECTED"                   // the gateway refuses this content
	CodeRequestInvalid      = "GATEWAY_REQUEST_INVALID"            // the gateway refuses the form of our request: a fault of ours
	CodeInstanceMissing     = "LINKED_WHATSAPP_INSTANCE_NOT_FOUND" // a sender set to `fail` is unknown to the gateway
)

// Causes of a deferred send: nothing left, it will be tried again.
const (
	CauseInstanceNotReady      = "instance_not_ready"         // the instance has no usable WhatsApp socket: never paired, or a QR code is shown
	CauseNotLoaded             = "not_loaded"                 // the instance is in the gateway's database and not in its memory, or never connected
	CauseConnectionClosed      = "connection_closed"          // the instance has lost WhatsApp (also a cause of unknown, by envelope)
	CauseUnauthorized          = "unauthorized"               // the gateway refuses the key
	CauseInstanceUnknown       = "instance_unknown"           // the gateway does not know the instance
	CauseRouteUnknown          = "route_unknown"              // the base URL leads to something that has no such route
	CauseRateLimited           = "rate_limited"               // something before the gateway limits us
	CauseLicenseRequired       = "license_required"           // the gateway waits for its licence
	CauseNumberCheckUnanswered = "number_check_unanswered"    // WhatsApp did not answer the gateway's own check of the number
	CauseNotConnected          = "not_connected_before_write" // no connection, name, TLS or time before the first byte
	CauseStopped               = "stopped_at_check"           // the last check refused the write
)

// Causes of an unknown send: it may have left.
const (
	CauseNoAnswer      = events.UnknownNoAnswer // the limit was reached after bytes were written
	CauseBroken        = events.UnknownBroken   // the connection ended after bytes were written and before an answer
	CauseNotSaved      = "not_saved"            // the gateway's database failed, which happens after the message left
	CauseRedirected    = "redirected"           // a 3xx, which is never followed
	CauseTimeout       = "request_timeout"      // 408
	CauseGatewayError  = "gateway_error"        // a 5xx that is not in the table
	CauseErrorObject   = "error_object"         // the gateway printed an error as [object Object]
	CauseUnrecognised  = "unrecognized_answer"  // anything else that is not in the table
	CauseNoGatewayID   = "gateway_id_unknown"   // accepted without a readable key id: look up, never send again
	CauseUnreadable    = "unreadable_answer"    // a 2xx of another call without the body it should have
	CauseNotOnWhatsApp = "number_not_found"     // the gateway found no such name or number (other calls)
)
