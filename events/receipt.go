package events

import "time"

// Wire names of receipts (bound to a message of ours), evidence, and what the gateway said before it is bound.
const (
	TypeReceiptSent        = "receipt.sent.v1"
	TypeReceiptDelivered   = "receipt.delivered.v1"
	TypeReceiptRead        = "receipt.read.v1"
	TypeReceiptFailed      = "receipt.failed.v1"
	TypeEvidenceLate       = "evidence.late.v1"
	TypeEvidenceAnomaly    = "evidence.anomaly.v1"
	TypeEvidenceAckOverdue = "evidence.ack_overdue.v1"
	TypeGatewayObserved    = "gateway.observed.v1"
)

// Receipt says what became of a message after the gateway took it. Its id is "<message>.<state>", so each state is recorded once.
type Receipt struct {
	GatewayStatus string    `json:"gatewayStatus"` // the gateway's own word, e.g. "DELIVERY_ACK"
	At            time.Time `json:"at"`            // when it happened, as far as the gateway says; else when we received it
	ReceivedAt    time.Time `json:"receivedAt"`
	Code          ErrorCode `json:"code,omitempty"` // of failed
}

// receiptTypes are the wire names of receipts by what they are evidence of.
var receiptTypes = map[Status]string{
	StatusSent: TypeReceiptSent, StatusDelivered: TypeReceiptDelivered, StatusRead: TypeReceiptRead, StatusFailed: TypeReceiptFailed,
}

// ReceiptType gives the wire name of the receipt that is evidence of a status; "" when none is.
func ReceiptType(s Status) string { return receiptTypes[s] }

// ReceiptStatus gives the status that a receipt of a wire name, of whatever version, is evidence of; "" when it is no receipt.
func ReceiptStatus(wireType string) Status {
	name := NameOf(wireType)
	for s, t := range receiptTypes {
		if NameOf(t) == name {
			return s
		}
	}
	return ""
}

// EvidenceLate is the outcome of a call that came after the end of its message: it decides nothing.
type EvidenceLate struct {
	Outcome    string `json:"outcome"` // accepted, refused, deferred, unknown
	Cause      string `json:"cause,omitempty"`
	HTTPStatus int    `json:"httpStatus,omitempty"`
}

// Kinds of anomaly.
const (
	AnomalyJIDMismatch     = "jid_mismatch"      // it went to somebody else
	AnomalyForeignNumber   = "foreign_number"    // the gateway would send it to somebody else: it was not sent
	AnomalyProvedAfterEnd  = "proved_after_end"  // a look-up shows what was ended as one that may not have left
	AnomalyReceiptAfterEnd = "receipt_after_end" // a receipt came after the end
	AnomalyLateWrite       = "late_write"        // a pause fell between the last check and the write
)

// EvidenceAnomaly is something a person should look at; it changes no state.
type EvidenceAnomaly struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail,omitempty"` // never personal data
}

// EvidenceAckOverdue says that the gateway took a message and no receipt came in time.
type EvidenceAckOverdue struct {
	AfterMS int64 `json:"afterMs"`
	// Seen is the sequence of the last receipt of the instance that who said so had read, 0 for none: with one behind it the log
	// refused it.
	Seen uint64 `json:"seen,omitempty"`
}

// GatewayObserved is what a gateway said by webhook: allow-listed fields only, stored before we answer (docs/reference/gateway.md).
type GatewayObserved struct {
	Event        string    `json:"event"` // the gateway's name, e.g. "messages.update"
	KeyID        string    `json:"keyId,omitempty"`
	Status       string    `json:"status,omitempty"`
	FromMe       bool      `json:"fromMe,omitempty"`
	State        string    `json:"state,omitempty"`        // of connection.update and status.instance
	StatusReason int       `json:"statusReason,omitempty"` // of connection.update and status.instance
	At           time.Time `json:"at,omitzero"`
	ReceivedAt   time.Time `json:"receivedAt"`
	JIDHash      string    `json:"jidHash,omitempty"`
}

func receiptSpecs() []Spec {
	receipt := func() any { return new(Receipt) }
	return []Spec{
		{Name: "receipt.sent", Version: 1, New: receipt},
		{Name: "receipt.delivered", Version: 1, New: receipt},
		{Name: "receipt.read", Version: 1, New: receipt},
		{Name: "receipt.failed", Version: 1, New: receipt},
		{Name: "evidence.late", Version: 1, New: func() any { return new(EvidenceLate) }},
		{Name: "evidence.anomaly", Version: 1, New: func() any { return new(EvidenceAnomaly) }},
		{Name: "evidence.ack_overdue", Version: 1, New: func() any { return new(EvidenceAckOverdue) }},
		{Name: "gateway.observed", Version: 1, New: func() any { return new(GatewayObserved) }},
	}
}
