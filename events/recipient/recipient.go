// Package recipient turns what a customer wrote as a destination into one
// telephone number that can be sent to, compared, counted and logged safely.
//
// A number has three forms. The given form is echoed back to the customer and
// never rewritten. The send form is its digits, because the gateway recognises
// the Brazilian ninth digit only in plain digits. The canonical form is one per
// person, so that hashing, opt-in, limits and lanes see the same recipient
// whether or not the ninth digit was written.
package recipient

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// Length of an international number in digits, country code included. The upper
// bound is that of ITU-T E.164 §6.1; below eight digits no subscriber number
// that WhatsApp accepts exists.
const (
	MinDigits = 8
	MaxDigits = 15
)

// Recipient is a checked telephone number. The zero value is no recipient; make
// one with Parse. It prints masked, so that a number cannot reach a log by a
// formatting verb.
type Recipient struct {
	given       string
	digits      string
	canonical   string
	countryCode string
}

// Parse reads an international number: E.164 with '+' (ITU-T E.164), or the same
// digits without it. Spaces, dashes and parentheses are refused, not stripped.
//
// Nothing is guessed. A number must be valid in its country's numbering plan.
// Without '+' it must also not read as a complete Brazilian number that lacks its
// country code: 81999998888 is a mobile of Recife and, by its digits alone, a
// valid number in Japan, so it is refused with RuleAmbiguous.
//
// The error is always an *Error; it names the broken rule and never the value.
func Parse(s string) (Recipient, error) {
	digits, plus := strings.CutPrefix(s, "+")
	if err := checkShape(s, digits); err != nil {
		return Recipient{}, err
	}
	if !plus && nationalBrazilian(digits) {
		return Recipient{}, &Error{Rule: RuleAmbiguous}
	}

	// Numbering plans no longer list Brazilian mobiles without the ninth digit,
	// though WhatsApp still knows them by it, so the canonical form is checked.
	canonical := Canonical(digits)
	number, err := phonenumbers.Parse("+"+canonical, phonenumbers.UNKNOWN_REGION)
	if err != nil {
		return Recipient{}, &Error{Rule: RuleNumber}
	}
	// The library drops a national trunk prefix (+55 0 11 …) silently; what would
	// be sent then differs from what was checked.
	if !phonenumbers.IsValidNumber(number) || phonenumbers.Format(number, phonenumbers.E164) != "+"+canonical {
		return Recipient{}, &Error{Rule: RuleNumber}
	}
	return Recipient{
		given:       s,
		digits:      digits,
		canonical:   canonical,
		countryCode: strconv.Itoa(int(number.GetCountryCode())),
	}, nil
}

func checkShape(s, digits string) error {
	switch {
	case s == "":
		return &Error{Rule: RuleRequired}
	case KindOf(s) != KindNumber:
		return &Error{Rule: RuleKind}
	case !onlyDigits(digits):
		return &Error{Rule: RuleCharacters}
	case len(digits) < MinDigits || len(digits) > MaxDigits:
		return &Error{Rule: RuleLength}
	case digits[0] == '0':
		return &Error{Rule: RuleCountryCode}
	}
	return nil
}

// Given is the number exactly as the customer wrote it, for echoing back.
func (r Recipient) Given() string { return r.given }

// Digits is the form to send: the given number, digits only.
func (r Recipient) Digits() string { return r.digits }

// Canonical is the one form of this person's number in digits, for hashing,
// opt-in, limits and slots: see the function Canonical.
func (r Recipient) Canonical() string { return r.canonical }

// E164 is the send form with a leading '+' (ITU-T E.164).
func (r Recipient) E164() string {
	if r.IsZero() {
		return ""
	}
	return "+" + r.digits
}

// IsZero reports whether r is no recipient.
func (r Recipient) IsZero() bool { return r.digits == "" }

// Masked is the number for logs: country code, six asterisks whatever the
// length, and the last four digits (two where four would show nearly all).
// Example: "+55******1234".
func (r Recipient) Masked() string {
	if r.IsZero() {
		return ""
	}
	const tail, hiddenAtLeast = 4, 4
	show := tail
	if len(r.digits)-len(r.countryCode)-tail < hiddenAtLeast {
		show = tail / 2
	}
	return "+" + r.countryCode + "******" + r.digits[len(r.digits)-show:]
}

// String is Masked.
func (r Recipient) String() string { return r.Masked() }

// Format prints the masked form under every verb, %+v and %#v included, so that
// the fields cannot be printed by accident.
func (r Recipient) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(r.Masked())) }

// LogValue is the masked form for structured logs.
func (r Recipient) LogValue() slog.Value { return slog.StringValue(r.Masked()) }

func onlyDigits(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
