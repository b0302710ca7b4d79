package template

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Reason says why a value cannot be used. The words are stable and shown to
// customers.
type Reason string

// The reasons of Check.
const (
	ReasonNotAString Reason = "not_a_string"  // a number, boolean, null, list or object
	ReasonBlank      Reason = "blank"         // nothing but blanks: see Blank
	ReasonNUL        Reason = "nul_character" // holds U+0000
	ReasonNotUTF8    Reason = "not_utf8"
)

// Invalid is a value that cannot be used. It never carries the value.
type Invalid struct {
	Key    string `json:"key"`
	Reason Reason `json:"reason"`
}

// Report is what is wrong with a set of values, in the order in which the
// structure names its variables. Missing belongs to MISSING_TEMPLATE_VARIABLES
// and Invalid to INVALID_TEMPLATE_VARIABLE_VALUE of the public API.
type Report struct {
	Missing []string  `json:"missingKeys,omitempty"`
	Invalid []Invalid `json:"invalidKeys,omitempty"`
}

// OK reports whether the values can be rendered.
func (r Report) OK() bool { return len(r.Missing) == 0 && len(r.Invalid) == 0 }

// Check compares values, as decoded from JSON, with the structure's variables.
// Every variable needs a key and a string that shows something. Values of no
// variable are ignored.
func Check(s Structure, values map[string]any) Report {
	var report Report
	for _, name := range Variables(s) {
		value, given := values[name]
		if !given {
			report.Missing = append(report.Missing, name)
			continue
		}
		if reason := judge(value); reason != "" {
			report.Invalid = append(report.Invalid, Invalid{Key: name, Reason: reason})
		}
	}
	return report
}

func judge(value any) Reason {
	text, isString := value.(string)
	switch {
	case !isString:
		return ReasonNotAString
	case !utf8.ValidString(text):
		return ReasonNotUTF8
	case Blank(text):
		return ReasonBlank
	case strings.ContainsRune(text, 0):
		return ReasonNUL
	}
	return ""
}

// ValuesError is the error of Render for values that Check reports.
type ValuesError struct{ Report Report }

// Error says how many values are wrong.
func (e *ValuesError) Error() string {
	return fmt.Sprintf("template values: %d missing, %d invalid", len(e.Report.Missing), len(e.Report.Invalid))
}
