package evolution

import "time"

// Outcome is what an answer, or its absence, proves.
type Outcome string

// Outcomes of a send are Accepted, Refused, Deferred and Unknown; those of any other call Answered and Failed.
const (
	Accepted Outcome = "accepted" // the gateway took it; it may have left
	Refused  Outcome = "refused"  // it did not leave and never will in this form
	Deferred Outcome = "deferred" // it did not leave; try again
	Unknown  Outcome = "unknown"  // it may have left; never send again without proof
	Answered Outcome = "answered" // the call gave what was asked
	Failed   Outcome = "failed"   // the call gave nothing usable
)

// Scope says whose condition the answer describes.
type Scope string

// A condition of the message concerns nothing else; one of the instance or the gateway holds for every message behind it.
const (
	ScopeMessage  Scope = "message"
	ScopeInstance Scope = "instance"
	ScopeGateway  Scope = "gateway"
)

// Verdict is the meaning of one answer.
type Verdict struct {
	Outcome Outcome
	Scope   Scope

	// Code is an errorCode when Outcome is Refused, else a cause in snake_case; empty for a plain acceptance or answer.
	Code string
	// FailCode is the errorCode that ends the message where a dispatcher is set to fail by Code instead of waiting; empty when waiting is
	// the only way.
	FailCode string

	// GatewayID is the key id of an accepted message, at most 100 bytes; receipts carry it. Empty with CauseNoGatewayID.
	GatewayID string
	// RemoteJID is the address the gateway used. It need not spell the number that was sent: compare with recipient.JIDMatches.
	RemoteJID string
	// MessageTimestamp is when the gateway composed the message, in whole seconds; zero when absent or absurd.
	MessageTimestamp time.Time

	// RetryAfter is the wait the answer asks for, within the client's bounds; 0 when it asks for none.
	RetryAfter time.Duration

	// NumberRefused marks the gateway's `exists:false`. This one answer is no end by itself: the gateway looks at one spelling of a
	// Brazilian number, so the caller asks the number check for both ninth-digit forms, and takes the refusal only when both are refused.
	NumberRefused bool

	// Park asks to stop using what Scope names until a probe says that it works again.
	Park bool
	// Alert asks for a person.
	Alert bool
}

func deferred(code string, scope Scope) Verdict {
	return Verdict{Outcome: Deferred, Scope: scope, Code: code}
}

func parked(code string, scope Scope) Verdict {
	return Verdict{Outcome: Deferred, Scope: scope, Code: code, Park: true, Alert: true}
}

func refused(code string) Verdict {
	return Verdict{Outcome: Refused, Scope: ScopeMessage, Code: code, Alert: code == CodeRequestInvalid}
}

func unknown(code string) Verdict {
	return Verdict{Outcome: Unknown, Scope: ScopeMessage, Code: code}
}
