package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/template"
)

// Rules of a request body that no other package names (docs/reference/errors.md).
const (
	ruleInvalid      = "invalid"
	ruleJSON         = "json"                 // is no JSON, or stops in the middle
	ruleUTF8         = "not_utf8"             // is no valid UTF-8
	ruleDepth        = "too_deep"             // nested deeper than the limit
	ruleWrongType    = "wrong_type"           // another JSON type is expected
	ruleRequired     = "required"             // nothing was given
	ruleExactlyOne   = "exactly_one"          // of several fields, not one but none or more is given
	ruleOnlyWithText = "only_with_text"       // belongs to free text
	ruleUnknownValue = "unknown_value"        // none of the values of this field
	ruleUnknownField = "unknown_field"        // there is no such field
	ruleDateTime     = "date_time"            // no ISO 8601 time with zone
	ruleTooFar       = "too_far"              // beyond the horizon
	ruleNotFuture    = "not_in_future"        // already over
	ruleNotAfter     = "not_after_deliver_at" // the window would be empty
	ruleWindow       = "window_too_long"      // the window would be longer than allowed
	ruleTooMany      = "too_many"
	ruleTooLong      = "too_long"
)

// Limits of labels.
const (
	MaxLabels = 20 // of one message
	MaxLabel  = 64 // code points of one label
)

// sendRequest is the body of a send, documented and decoded from one struct. Null and the empty string are the same as absent.
type sendRequest struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	DestinationNumber string          `json:"destinationNumber,omitempty" example:"+5511987654321" doc:"International number, E.164 with '+', or the same digits without it. Kept as given."`
	GroupID           string          `json:"groupId,omitempty" doc:"Recognised and refused: GROUP_NOT_SUPPORTED."`
	NewsletterID      string          `json:"newsletterId,omitempty" doc:"Recognised and refused: NEWSLETTER_NOT_SUPPORTED."`
	TemplateID        string          `json:"templateId,omitempty" example:"generic_notification" doc:"Id or name of a template. Either this or text."`
	Variables         map[string]any  `json:"variables,omitempty" doc:"A string that shows something for every placeholder of the template."`
	Text              string          `json:"text,omitempty" doc:"Free text, from a number of your own only. Nothing in it is a placeholder."`
	Category          string          `json:"category,omitempty" enum:"OTP,UTILITY,MARKETING" doc:"Of free text; UTILITY when absent. A template has its own."`
	Header            json.RawMessage `json:"header,omitempty" doc:"Of free text with buttons: a string or {\"text\"}."`
	Footer            json.RawMessage `json:"footer,omitempty" doc:"Of free text with buttons: a string or {\"text\"}."`
	Buttons           json.RawMessage `json:"buttons,omitempty" doc:"Of free text, at most 3."`
	Media             string          `json:"media,omitempty" doc:"Recognised and refused: MEDIA_NOT_SUPPORTED."`
	MediaType         string          `json:"mediaType,omitempty" doc:"Belongs to media."`
	Caption           string          `json:"caption,omitempty" doc:"Belongs to media."`
	DeliverAt         string          `json:"deliverAt,omitempty" format:"date-time" doc:"Not before; a time in the past is now. At most 90 days ahead."`
	DeliverUntil      string          `json:"deliverUntil,omitempty" format:"date-time" doc:"Not after. When absent, from deliverAt: OTP 2 minutes, UTILITY 1 hour, MARKETING 4 hours. At most 7 days after deliverAt."`
	Urgent            bool            `json:"urgent,omitempty" doc:"Goes before the others of its category."`
	Labels            []string        `json:"labels,omitempty" doc:"At most 20, of at most 64 characters. No personal data: they are kept in clear."`
	RejectIfLate      bool            `json:"rejectIfLate,omitempty" doc:"Refuse the message with CANNOT_DELIVER_IN_TIME when it is expected to wait until deliverUntil or longer. What cannot be estimated is accepted."`
	MarketingOptions  map[string]any  `json:"marketingOptions,omitempty" doc:"Accepted, without effect."`
	MarkRead          bool            `json:"markRead,omitempty" doc:"Accepted, without effect."`
}

// sendOrder is a body without faults.
type sendOrder struct {
	sendRequest
	category     events.Category  // of free text
	content      template.Content // of free text
	deliverAt    time.Time        // zero: now
	deliverUntil time.Time        // zero: by category

	members map[string]json.RawMessage // what was given and read: null and the empty string are absent
	late    faults                     // faults that the body had not when it was written: its window is over
}

func (o sendOrder) freeText() bool { return o.TemplateID == "" }

type faults []events.FieldError

func (f *faults) add(field, rule string) {
	*f = append(*f, events.FieldError{Field: field, Rule: rule})
}

// faultsError is the error of a body with faults: all of them, by place and rule, never by value.
func faultsError(f []events.FieldError) error {
	texts := make([]string, len(f))
	for i, fault := range f {
		texts[i] = fault.Field + ": " + fault.Rule
	}
	text := strings.Join(texts, "; ")
	if text == "" {
		text = "The request cannot be read."
	}
	return events.Errorf(events.CodeValidation, "%s", text).WithDetails("errors", append([]events.FieldError{}, f...))
}

// readSend reads a body as of now and finds all its faults at once.
func readSend(raw []byte, maxDepth int, now time.Time) (sendOrder, faults) {
	members, rule := object(raw, maxDepth)
	if rule != "" {
		return sendOrder{}, faults{{Field: "body", Rule: rule}}
	}
	var o sendOrder
	f := o.read(members)
	o.checkDestination(&f)
	o.checkContent(&f)
	o.checkWindow(&f, now)
	o.checkLabels(&f)
	if len(f) > 0 {
		f = append(f, o.late...)
	}
	return o, f
}

// loneSurrogate reports an escape that is half of a character: the decoder would silently put another in its place.
// raw is valid JSON.
func loneSurrogate(raw []byte) bool {
	half := func(i int) (r uint64, ok bool) {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0, false
		}
		r, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		return r, err == nil
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		r, ok := half(i)
		switch {
		case !ok: // another escape, of two characters
			i++
		case r >= 0xD800 && r < 0xDC00:
			if low, ok := half(i + 6); !ok || low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 11
		case r >= 0xDC00 && r <= 0xDFFF:
			return true
		default:
			i += 5
		}
	}
	return false
}

// object splits a JSON object into its members, or names the rule it breaks.
func object(raw []byte, maxDepth int) (map[string]json.RawMessage, string) {
	switch {
	case len(strings.TrimSpace(string(raw))) == 0:
		return nil, ruleRequired
	case !utf8.Valid(raw):
		return nil, ruleUTF8
	case depth(raw) > maxDepth:
		return nil, ruleDepth
	case !json.Valid(raw):
		return nil, ruleJSON
	case loneSurrogate(raw):
		return nil, ruleUTF8
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, ruleWrongType
	}
	return members, ""
}

// depth is how deep objects and lists are nested. It must hold for what is no JSON, too: it runs before the parser.
func depth(raw []byte) int {
	deepest, level, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// read fills the request from the members it knows; the others are ignored.
func (o *sendOrder) read(members map[string]json.RawMessage) faults {
	var f faults
	o.members = map[string]json.RawMessage{}
	for _, m := range []struct {
		name string
		into any
	}{
		{"destinationNumber", &o.DestinationNumber},
		{"groupId", &o.GroupID},
		{"newsletterId", &o.NewsletterID},
		{"templateId", &o.TemplateID},
		{"variables", &o.Variables},
		{"text", &o.Text},
		{"category", &o.Category},
		{"header", &o.Header},
		{"footer", &o.Footer},
		{"buttons", &o.Buttons},
		{"media", &o.Media},
		{"mediaType", &o.MediaType},
		{"caption", &o.Caption},
		{"deliverAt", &o.DeliverAt},
		{"deliverUntil", &o.DeliverUntil},
		{"urgent", &o.Urgent},
		{"rejectIfLate", &o.RejectIfLate},
		{"labels", &o.Labels},
		{"marketingOptions", &o.MarketingOptions},
		{"markRead", &o.MarkRead},
	} {
		raw, given := members[m.name]
		if !given || string(raw) == "null" || string(raw) == `""` {
			continue
		}
		o.members[m.name] = raw
		if err := json.Unmarshal(raw, m.into); err != nil {
			f.add(m.name, ruleWrongType)
		}
	}
	return f
}

// had reports whether a field was given, if only with a value of the wrong type.
func (f faults) had(value, field string) bool {
	for _, fault := range f {
		if fault.Field == field {
			return true
		}
	}
	return value != ""
}

func (o *sendOrder) checkDestination(f *faults) {
	n := 0
	for _, d := range []struct{ field, value string }{
		{"destinationNumber", o.DestinationNumber}, {"groupId", o.GroupID}, {"newsletterId", o.NewsletterID},
	} {
		if f.had(d.value, d.field) {
			n++
		}
	}
	switch {
	case n == 0:
		f.add("destinationNumber", ruleRequired)
	case n > 1:
		f.add("destinationNumber", ruleExactlyOne)
	}
}

func (o *sendOrder) checkContent(f *faults) {
	isTemplate, isText := f.had(o.TemplateID, "templateId"), f.had(o.Text, "text")
	isMedia := f.had(o.Media, "media")
	if isTemplate && isText || !isTemplate && !isText && !isMedia || isText && isMedia {
		f.add("templateId", ruleExactlyOne)
	}
	o.category = events.Utility
	if o.Category != "" {
		o.category = events.Category(o.Category)
		if !o.category.Valid() {
			f.add("category", ruleUnknownValue)
		}
	}
	if isText && !isTemplate && !isMedia {
		o.checkFreeText(f)
		return
	}
	for _, p := range []struct{ field, value string }{
		{"header", string(o.Header)},
		{"footer", string(o.Footer)},
		{"buttons", string(o.Buttons)},
		{"category", o.Category},
	} {
		if p.value != "" && p.value != "[]" && isTemplate && !isText {
			f.add(p.field, ruleOnlyWithText)
		}
	}
}

func (o *sendOrder) checkFreeText(f *faults) {
	parts, err := json.Marshal(map[string]json.RawMessage{"header": o.Header, "footer": o.Footer, "buttons": o.Buttons})
	if err != nil { // a part came from valid JSON
		f.add("body", ruleJSON)
		return
	}
	s, err := template.Parse(parts)
	f.structure(err)
	if err != nil || f.has("text") {
		return
	}
	var header, footer string
	if s.Header != nil {
		header = s.Header.Text
	}
	if s.Footer != nil {
		footer = s.Footer.Text
	}
	o.content, err = template.FreeText(o.Text, header, footer, s.Buttons)
	f.structure(err)
}

func (f faults) has(field string) bool { return f.had("", field) }

// structure takes over the faults of a content, under the names of the body.
func (f *faults) structure(err error) {
	var found template.Faults
	if !asFaults(err, &found) {
		return
	}
	for _, fault := range found {
		field := fault.Field
		switch field {
		case "body.text":
			field = "text"
		case "header.text", "footer.text":
			field = strings.TrimSuffix(field, ".text")
		}
		f.add(field, string(fault.Rule))
	}
}

func (o *sendOrder) checkLabels(f *faults) {
	if len(o.Labels) > MaxLabels {
		f.add("labels", ruleTooMany)
		return
	}
	for i, l := range o.Labels {
		field := fmt.Sprintf("labels[%d]", i)
		switch {
		case template.Blank(l):
			f.add(field, ruleRequired)
		case utf8.RuneCountInString(l) > MaxLabel:
			f.add(field, ruleTooLong)
		}
	}
}

// unsupported refuses what is understood and not built, by name.
func (o *sendOrder) unsupported() error {
	switch {
	case o.GroupID != "":
		return errGroup()
	case o.NewsletterID != "":
		return errNewsletter()
	case o.Media != "":
		return events.Errorf(CodeMediaNotSupported, "Media cannot be sent.")
	}
	return nil
}

func errGroup() error {
	return events.Errorf(CodeGroupNotSupported, "Groups cannot be sent to.")
}

func errNewsletter() error {
	return events.Errorf(CodeNewsletterNotSupported, "Newsletters cannot be sent to.")
}
