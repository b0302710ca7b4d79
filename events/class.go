package events

// Category says what kind of message it is; it decides window, order and retry policy.
type Category string

// The three categories, in order of precedence.
const (
	OTP       Category = "OTP"
	Utility   Category = "UTILITY"
	Marketing Category = "MARKETING"
)

// Categories lists them, in order of precedence.
func Categories() []Category { return []Category{OTP, Utility, Marketing} }

// Valid reports whether c is one of the three categories.
func (c Category) Valid() bool { return c == OTP || c == Utility || c == Marketing }

// Environment of a key and of all it makes.
type Environment string

// The two environments.
const (
	Test Environment = "TEST"
	Live Environment = "LIVE"
)

// Class is a category and whether the message is urgent: the unit of precedence, and a token of the queued subject.
type Class string

// The classes in order of precedence (docs/events.md).
const (
	ClassOTPUrgent       Class = "otp-urgent"
	ClassOTP             Class = "otp"
	ClassUtilityUrgent   Class = "utility-urgent"
	ClassUtility         Class = "utility"
	ClassMarketingUrgent Class = "marketing-urgent"
	ClassMarketing       Class = "marketing"
)

// Classes lists every class, the one that goes first at the front.
func Classes() []Class {
	return []Class{ClassOTPUrgent, ClassOTP, ClassUtilityUrgent, ClassUtility, ClassMarketingUrgent, ClassMarketing}
}

// ClassOf gives the class of a category. An unknown category is treated as MARKETING, the last to go.
func ClassOf(c Category, urgent bool) Class {
	switch {
	case c == OTP && urgent:
		return ClassOTPUrgent
	case c == OTP:
		return ClassOTP
	case c == Utility && urgent:
		return ClassUtilityUrgent
	case c == Utility:
		return ClassUtility
	case urgent:
		return ClassMarketingUrgent
	default:
		return ClassMarketing
	}
}

// Rank is the place of c in the order of precedence, 0 first. An unknown class goes last.
func (c Class) Rank() int {
	for i, k := range Classes() {
		if k == c {
			return i
		}
	}
	return len(Classes())
}

// Category gives the category of a class.
func (c Class) Category() Category {
	switch c {
	case ClassOTPUrgent, ClassOTP:
		return OTP
	case ClassUtilityUrgent, ClassUtility:
		return Utility
	default:
		return Marketing
	}
}

// Valid reports whether c is one of the six classes.
func (c Class) Valid() bool { return c.Rank() < len(Classes()) }

// Status is what customers see of a message (docs/adr/0005).
type Status string

// The six public statuses.
const (
	StatusQueued    Status = "QUEUED"
	StatusSent      Status = "SENT"
	StatusDelivered Status = "DELIVERED"
	StatusRead      Status = "READ"
	StatusFailed    Status = "FAILED"
	StatusCanceled  Status = "CANCELED"
)

// Stage is the inner state of a message; Status folds three of them into QUEUED.
type Stage string

// The nine stages.
const (
	StageQueued      Stage = "QUEUED"
	StageSending     Stage = "SENDING"     // a start is open
	StageUnconfirmed Stage = "UNCONFIRMED" // left? unknown, being verified
	StageDispatched  Stage = "DISPATCHED"  // the gateway took it
	StageSent        Stage = "SENT"        // WhatsApp's server took it
	StageDelivered   Stage = "DELIVERED"
	StageRead        Stage = "READ"
	StageFailed      Stage = "FAILED"
	StageCanceled    Stage = "CANCELED"
)

// Status gives the public status of a stage.
func (s Stage) Status() Status {
	switch s {
	case StageSending, StageUnconfirmed, StageDispatched:
		return StatusQueued
	default:
		return Status(s)
	}
}
