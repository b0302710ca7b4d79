package template

import (
	"fmt"
	"slices"
	"strings"
)

// Rule names what a part of a message broke. The words are stable and shown to
// customers.
type Rule string

// The rules of structures and contents.
const (
	RuleRequired           Rule = "required"              // nothing, or nothing but blanks
	RuleTooLong            Rule = "too_long"              // more code points than Limit
	RuleTooMany            Rule = "too_many"              // more items than Limit
	RuleNUL                Rule = "nul_character"         // holds U+0000, which the gateway chokes on after sending
	RuleNotUTF8            Rule = "not_utf8"              // is no valid UTF-8
	RuleWrongType          Rule = "wrong_type"            // another JSON type is expected
	RuleUnsupported        Rule = "unsupported"           // a kind of part that is not sent
	RuleStartsWithVariable Rule = "starts_with_variable"  // a body must start with text
	RuleEndsWithVariable   Rule = "ends_with_variable"    // a body must end with text
	RuleNoVariables        Rule = "no_variables"          // this part takes no placeholder
	RuleTooManyVariables   Rule = "too_many_variables"    // more placeholders than Limit
	RuleVariableNotLast    Rule = "variable_not_last"     // an address takes its placeholder at its end
	RuleMalformedVariable  Rule = "malformed_placeholder" // {{…}} around something that is no name
	RuleUnknownType        Rule = "unknown_type"          // no such type of button
	RuleMixedReplies       Rule = "mixed_with_replies"    // replies and other buttons in one message
	RuleInvalidURL         Rule = "invalid_url"           // no http(s) address with a fixed host
	RuleInvalidPhoneNumber Rule = "invalid_phone_number"  // not '+' (optional) and 8 to 15 digits
	RuleNotAlphanumeric    Rule = "not_alphanumeric"      // a code takes ASCII letters and digits
	RuleNeedsButtons       Rule = "needs_buttons"         // in free text only together with buttons
)

// Fault is one broken rule. Field is a path such as "buttons[0].url". Limit and
// Actual are set for rules that count, in the unit of the rule. It never carries
// the text itself.
type Fault struct {
	Field  string `json:"field"`
	Rule   Rule   `json:"rule"`
	Limit  int    `json:"limit,omitempty"`
	Actual int    `json:"actual,omitempty"`
}

// Faults are all the rules that a message broke, in reading order.
type Faults []Fault

// Error lists the fields and their rules.
func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i, fault := range f {
		texts[i] = fault.Field + " " + string(fault.Rule)
		if fault.Limit > 0 {
			texts[i] += fmt.Sprintf(" (limit %d, actual %d)", fault.Limit, fault.Actual)
		}
	}
	return "message breaks rules: " + strings.Join(texts, ", ")
}

// Err is f as an error, nil when there is no fault.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

func (f *Faults) add(field string, rule Rule) { *f = append(*f, Fault{Field: field, Rule: rule}) }

func (f *Faults) atMost(limit, actual int, field string, rule Rule) {
	fault := Fault{Field: field, Rule: rule, Limit: limit, Actual: actual}
	// Two limits of the same size are one fault to the reader.
	if actual > limit && !slices.Contains(*f, fault) {
		*f = append(*f, fault)
	}
}

func buttonField(i int, name string) string {
	field := fmt.Sprintf("buttons[%d]", i)
	if name != "" {
		field += "." + name
	}
	return field
}
