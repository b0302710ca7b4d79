package events

import "time"

// Wire names of the fenced group: everything that decides whether a call may follow (rule R1).
const (
	TypeDispatchStarted   = "dispatch.started.v1"
	TypeDispatchAccepted  = "dispatch.accepted.v1"
	TypeDispatchRefused   = "dispatch.refused.v1"
	TypeDispatchDeferred  = "dispatch.deferred.v1"
	TypeDispatchUnknown   = "dispatch.unknown.v1"
	TypeDispatchAbsent    = "dispatch.absent.v1"
	TypeDispatchProved    = "dispatch.proved.v1"
	TypeDispatchDisproved = "dispatch.disproved.v1"
	TypeDispatchClosed    = "dispatch.closed.v1"
	TypeDispatchRestored  = "dispatch.restored.v1"
	TypeDispatchSkipped   = "dispatch.skipped.v1"
)

// ErrorCode says why a message FAILED; customers see it as errorCode (docs/reference/errors.md).
type ErrorCode string

// The error codes of messages.
const (
	FailExpired              ErrorCode = "MESSAGE_EXPIRED"         // deliverUntil passed and no call was ever made
	FailExpiredAfterAttempts ErrorCode = "EXPIRED_AFTER_ATTEMPTS"  // deliverUntil passed after calls without effect
	FailAttemptsExhausted    ErrorCode = "ATTEMPTS_EXHAUSTED"      // every attempt it may have had no effect
	FailDeliveryTimeout      ErrorCode = "DELIVERY_TIMEOUT"        // an attempt stayed unknown: presumed only
	FailNotConfirmed         ErrorCode = "DELIVERED_NOT_CONFIRMED" // no delivery confirmed in the long window
	FailNotOnWhatsApp        ErrorCode = "WHATSAPP_NOT_EXIST"      // the number is not on WhatsApp
	FailGatewayRejected      ErrorCode = "GATEWAY_REJECTED"        // the gateway, or WhatsApp behind it, refused it
	FailRequestInvalid       ErrorCode = "GATEWAY_REQUEST_INVALID" // the gateway found our request invalid
	FailInstanceNotFound     ErrorCode = "LINKED_WHATSAPP_INSTANCE_NOT_FOUND"
	FailDuplicateSuppressed  ErrorCode = "DUPLICATE_SUPPRESSED" // the same last message to the same number
	FailContentErased        ErrorCode = "CONTENT_ERASED"       // its content was erased before it was sent
	FailOptedOut             ErrorCode = "RECIPIENT_OPTED_OUT"  // the recipient opted out after it was accepted
)

// DispatchStarted is the intent: one gateway call may follow within the budget, by the process whose nonce it carries (rules R2, R4).
type DispatchStarted struct {
	Call     string `json:"call"`              // "sendText" or "sendButtons"
	BudgetMS int64  `json:"budgetMs"`          // age after which its owner no longer calls
	LimitMS  int64  `json:"limitMs"`           // age after which no call of its owner can be under way
	JIDHash  string `json:"jidHash,omitempty"` // keyed hash of the resolved jid, when the number check gave one
}

// DispatchAccepted says that the gateway took the message. The key id is in ce-gatewayid; without one a look-up binds it later.
type DispatchAccepted struct {
	HTTPStatus int    `json:"httpStatus"`
	ElapsedMS  int64  `json:"elapsedMs"`
	Timestamp  int64  `json:"timestamp,omitempty"` // the gateway's Unix seconds
	Anomaly    string `json:"anomaly,omitempty"`   // e.g. "jid_mismatch"
}

// DispatchRefused is a definite no: the end of the message, unless it stands after a proof (rule R10).
type DispatchRefused struct {
	Code       ErrorCode `json:"code"`
	Cause      string    `json:"cause"` // our word for the answer (docs/reference/gateway.md)
	HTTPStatus int       `json:"httpStatus,omitempty"`
	ElapsedMS  int64     `json:"elapsedMs"`
}

// DispatchDeferred says that the attempt had no effect and another will follow at ce-dueat (drawn once, stored).
type DispatchDeferred struct {
	Cause      string    `json:"cause"`
	Called     bool      `json:"called"`            // as ce-called
	DueAt      time.Time `json:"dueAt"`             // as ce-dueat
	Park       string    `json:"park,omitempty"`    // "instance" or "gateway" when the sender is unusable
	Limited    bool      `json:"limited,omitempty"` // a limit of the gateway's: waiting for it is not an attempt
	HTTPStatus int       `json:"httpStatus,omitempty"`
	ElapsedMS  int64     `json:"elapsedMs"`
}

// Causes of an unknown attempt that came without an answer (docs/reference/gateway.md has them all).
const (
	UnknownNoAnswer  = "no_answer"         // the limit was reached after bytes were written
	UnknownBroken    = "connection_broken" // the connection ended after bytes were written and before an answer
	UnknownOwnerGone = "owner_gone"        // whoever called is gone and left no outcome
)

// DispatchUnknown says that a call may or may not have had an effect, and that no call of ours can be under way (rule R9).
type DispatchUnknown struct {
	Cause      string `json:"cause"`
	HTTPStatus int    `json:"httpStatus,omitempty"`
	ElapsedMS  int64  `json:"elapsedMs"`
}

// DispatchAbsent says that look-ups found no trace of the attempt, under all the conditions that make absence mean something.
type DispatchAbsent struct {
	Count   int   `json:"count"`   // rows that matched, equal in both look-ups
	FirstMS int64 `json:"firstMs"` // age of the attempt at the first look-up
	LastMS  int64 `json:"lastMs"`
}

// Ways a proof came about.
const (
	ProofLookUp  = "lookup"
	ProofLate    = "late_acceptance"
	ProofReceipt = "receipt"
	ProofBinding = "binding" // the key id of an acceptance that came without one
)

// DispatchProved says that the message left: a look-up hit, a late acceptance, a receipt.
type DispatchProved struct {
	By string `json:"by"`
}

// DispatchDisproved is a late definite answer of that very call, or an operator's word, that it had no effect.
// A code that is final for the message makes it end instead of permitting another attempt.
type DispatchDisproved struct {
	By     string    `json:"by"` // DisprovedLate or DisprovedOperator
	Code   ErrorCode `json:"code,omitempty"`
	Who    string    `json:"who,omitempty"`    // the operator, where it is an operator's word
	Reason string    `json:"reason,omitempty"` // what the operator gave
}

// Ways a disproof came about.
const (
	DisprovedLate     = "late_answer" // of that very call
	DisprovedOperator = "operator"    // a person's word; a proof that comes later is stronger
)

// Reasons of DispatchClosed.
const (
	ClosedExpired  = "expired"
	ClosedCanceled = "canceled"
	ClosedFailed   = "failed"
	ClosedTimeout  = "timeout" // presumed
)

// MaxClosed is the most messages one closed event may end.
const MaxClosed = 500

// ClosedMessage names a message that a closed event ends.
type ClosedMessage struct {
	ID        string `json:"id"`
	QueuedSeq uint64 `json:"queuedSeq"`
}

// DispatchClosed ends 1 to MaxClosed messages of one instance in one append. With exactly one message ce-subject names it;
// with more ce-subject is empty and readers of headers fetch the body.
type DispatchClosed struct {
	Reason   string          `json:"reason"`
	Code     ErrorCode       `json:"code,omitempty"`     // empty when canceled
	Presumed bool            `json:"presumed,omitempty"` // an attempt is neither proved nor disproved (rule R7)
	By       string          `json:"by,omitempty"`       // the operator who canceled; empty where it was the customer
	Note     string          `json:"note,omitempty"`     // what the operator gave as reason
	Messages []ClosedMessage `json:"messages"`
}

// DispatchRestored says that an operator accepted a log that had lost events. What was accepted up to UpTo and is not over may have
// left in the part that was lost: none of it starts before a look-up, and a start that stands after this event came after one.
type DispatchRestored struct {
	UpTo   uint64 `json:"upTo"` // last sequence of the log when it was accepted
	By     string `json:"by"`   // role or operator
	Reason string `json:"reason,omitempty"`
}

// DispatchSkipped is an operator's word that the fenced event at a sequence, which cannot be read, means nothing: it holds the
// instance no longer. What can be read is not affected.
type DispatchSkipped struct {
	Sequence uint64 `json:"sequence"`
	By       string `json:"by"`
	Reason   string `json:"reason"`
}

func dispatchSpecs() []Spec {
	fenced := func(name string, mk func() any) Spec {
		return Spec{Name: "dispatch." + name, Version: 1, Fenced: true, New: mk}
	}
	deferred := fenced("deferred", func() any { return new(DispatchDeferred) })
	deferred.Called = true
	// Whether an attempt counts, which messages a closed event ends, the code of a late refusal, how far a restored log reached,
	// and what is skipped are in the body only.
	deferred.NeedsBody = func(Envelope) bool { return true }
	closed := fenced("closed", func() any { return new(DispatchClosed) })
	closed.NeedsBody = func(Envelope) bool { return true }
	disproved := fenced("disproved", func() any { return new(DispatchDisproved) })
	disproved.NeedsBody = func(Envelope) bool { return true }
	restored := fenced("restored", func() any { return new(DispatchRestored) })
	restored.NeedsBody = func(Envelope) bool { return true }
	skipped := fenced("skipped", func() any { return new(DispatchSkipped) })
	skipped.NeedsBody = func(Envelope) bool { return true }
	return []Spec{
		fenced("started", func() any { return new(DispatchStarted) }),
		fenced("accepted", func() any { return new(DispatchAccepted) }),
		fenced("refused", func() any { return new(DispatchRefused) }),
		deferred,
		fenced("unknown", func() any { return new(DispatchUnknown) }),
		fenced("absent", func() any { return new(DispatchAbsent) }),
		fenced("proved", func() any { return new(DispatchProved) }),
		disproved,
		closed,
		restored,
		skipped,
	}
}
