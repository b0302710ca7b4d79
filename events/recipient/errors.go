package recipient

import "errors"

// Rule names what a destination broke. The words are stable and may be shown to
// customers as the rule of a field error.
type Rule string

// The rules of Parse.
const (
	RuleRequired    Rule = "required"     // nothing was given
	RuleKind        Rule = "kind"         // a group, newsletter or other address, no number
	RuleCharacters  Rule = "characters"   // something besides one leading '+' and digits
	RuleLength      Rule = "length"       // fewer than MinDigits or more than MaxDigits
	RuleCountryCode Rule = "country_code" // starts with 0: no country code does
	RuleAmbiguous   Rule = "ambiguous"    // without '+', reads as Brazilian without 55
	RuleNumber      Rule = "number"       // no valid number of its country
)

// Error says which rule a destination broke. It never carries the destination,
// so it is safe to log.
type Error struct{ Rule Rule }

// Error is a sentence for the customer.
func (e *Error) Error() string {
	switch e.Rule {
	case RuleRequired:
		return "the destination number is empty"
	case RuleKind:
		return "the destination is not a telephone number"
	case RuleCharacters:
		return "the destination number may hold only a leading '+' and digits"
	case RuleLength:
		return "the destination number must have 8 to 15 digits, country code included"
	case RuleCountryCode:
		return "the destination number must start with its country code, which never begins with 0"
	case RuleAmbiguous:
		return "the destination number may lack its country code: write it as E.164, with '+' and the country code"
	case RuleNumber:
		return "the destination number is not a valid international number"
	}
	return "the destination number breaks rule " + string(e.Rule)
}

// Is makes errors.Is match by rule.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Rule == e.Rule
}

// RuleOf is the rule an error of this package names, or "" for any other error.
func RuleOf(err error) Rule {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Rule
	}
	return ""
}
