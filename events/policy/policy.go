// Package policy holds the rules that an entity of the control plane must keep to be recorded: one function for each kind, which
// tells every fault at once by field and rule, never by value.
//
// Each takes the catalog that the change is meant for, the new state, and the state before (nil for a new entity). A rule that
// looks at more than one entity holds only when the change is recorded right behind that catalog: see docs/reference/admin.md.
package policy

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/template"
)

// The rules. The words are stable and shown to operators (docs/reference/errors.md).
const (
	RuleRequired   = "required"     // nothing was given
	RuleToken      = "token"        // not 1 to 40 of a-z, 0-9 and '-'
	RuleTooLong    = "too_long"     // more characters than allowed
	RuleTooMany    = "too_many"     // more items than allowed
	RuleCharacters = "characters"   // holds control characters, or is no UTF-8
	RuleRange      = "out_of_range" // a number below or above what is allowed
	RuleUnknown    = "unknown"      // there is no such entity, or it belongs to another tenant
	RuleValue      = "unknown_value"
	RuleFixed      = "fixed"        // cannot change after creation
	RuleTaken      = "taken"        // another entity has it
	RuleTwice      = "twice"        // given more than once
	RuleForm       = "form"         // not of the documented form
	RuleTimeZone   = "time_zone"    // no time zone of the IANA database
	RuleMonth      = "month"        // no month as "2026-11"
	RuleOrder      = "before_from"  // ends before it begins
	RuleURL        = "url"          // no usable address
	RuleHTTPS      = "https"        // plain http
	RulePort       = "port"         // not 443 (or 80)
	RuleAddress    = "address"      // an address that is not on the public internet
	RuleShared     = "shared_owner" // a shared instance belongs to the platform, an own one to a tenant
)

// Limits of what an entity may hold.
const (
	MaxName           = 100 // characters
	MaxURL            = 2048
	MaxRetentionDays  = 3650
	MaxProfileNumbers = 50
	MaxEvents         = 20
	MaxVersions       = 200
	MaxConcurrency    = 256 // slots of an instance
	MaxRatePerMinute  = 60_000
	MaxCount          = 1_000_000_000 // messages in a limit
	MaxWeight         = 1000
	MaxScopes         = 20
)

// Faults are the broken rules of an entity, in the order of its fields.
type Faults []events.FieldError

// Err gives the faults as one error of events.CodeValidation, nil when there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	texts := make([]string, len(f))
	for i, fault := range f {
		texts[i] = fault.Field + ": " + fault.Rule
	}
	return events.Errorf(events.CodeValidation, "%s", strings.Join(texts, "; ")).WithDetails("errors", []events.FieldError(f))
}

func (f *Faults) add(field, rule string) {
	*f = append(*f, events.FieldError{Field: field, Rule: rule})
}

// when adds a fault when it is so.
func (f *Faults) when(bad bool, field, rule string) {
	if bad {
		f.add(field, rule)
	}
}

func (f *Faults) id(id string) { f.when(!events.ValidToken(id), "id", RuleToken) }

// fixed refuses a change of what cannot change.
func fixed[T comparable](f *Faults, isNew bool, field string, before, after T) {
	f.when(!isNew && before != after, field, RuleFixed)
}

// name checks a text that people read.
func (f *Faults) name(field, text string, required bool) {
	switch {
	case template.Blank(text):
		f.when(required || text != "", field, RuleRequired)
	case !utf8.ValidString(text) || strings.IndexFunc(text, unicode.IsControl) >= 0:
		f.add(field, RuleCharacters)
	case utf8.RuneCountInString(text) > MaxName:
		f.add(field, RuleTooLong)
	}
}

func (f *Faults) count(field string, n, least, most int) {
	f.when(n < least || n > most, field, RuleRange)
}

func (f *Faults) rate(field string, n float64, most float64) {
	f.when(math.IsNaN(n) || n < 0 || n > most, field, RuleRange)
}

// words checks a list of known words.
func (f *Faults) words(field string, list, known []string, most int) {
	f.when(len(list) > most, field, RuleTooMany)
	for i, w := range list[:min(len(list), most)] {
		at := fmt.Sprintf("%s[%d]", field, i)
		f.when(!slices.Contains(known, w), at, RuleValue)
		f.when(slices.Contains(list[:i], w), at, RuleTwice)
	}
}

func (f *Faults) hash(field, text string) {
	raw, err := hex.DecodeString(text)
	f.when(err != nil || len(raw) != 32 || strings.ToLower(text) != text, field, RuleForm)
}

// address checks a URL that is called by us: its form only.
func (f *Faults) address(field, text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	if err == nil && len(text) <= MaxURL && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Fragment == "" {
		return u, true
	}
	f.add(field, RuleURL)
	return nil, false
}

func environment(f *Faults, field string, e events.Environment) {
	f.when(e != events.Live && e != events.Test, field, RuleValue)
}
