package template

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Validate checks a structure against every rule of a new template and returns
// all faults, nil when there is none.
func Validate(s Structure) Faults {
	var faults Faults
	if s.Header != nil {
		faults.text("header.text", s.Header.Text, MaxHeader)
		faults.atMost(1, len(placeholders(s.Header.Text)), "header.text", RuleTooManyVariables)
	}
	faults.body(s.Body.Text)
	if s.Footer != nil {
		faults.text("footer.text", s.Footer.Text, MaxFooter)
		if len(placeholders(s.Footer.Text)) > 0 {
			faults.add("footer.text", RuleNoVariables)
		}
	}
	faults.atMost(MaxButtons, len(s.Buttons), "buttons", RuleTooMany)
	faults.buttons(s.Buttons, placeholders)
	for i, b := range s.Buttons {
		for _, part := range []struct{ name, text string }{
			{"text", b.Text},
			{"url", b.URL},
			{"phone_number", b.PhoneNumber},
			{"example", b.Example},
		} {
			faults.characters(buttonField(i, part.name), part.text)
			if malformed(part.text) {
				faults.add(buttonField(i, part.name), RuleMalformedVariable)
			}
		}
	}
	return faults
}

func (f *Faults) body(text string) {
	f.text("body.text", text, MaxBody)
	found := placeholders(text)
	if len(found) == 0 {
		return
	}
	if Blank(text[:found[0].start]) {
		f.add("body.text", RuleStartsWithVariable)
	}
	if Blank(text[found[len(found)-1].end:]) {
		f.add("body.text", RuleEndsWithVariable)
	}
}

// text adds the faults of any text of a template.
func (f *Faults) text(field, text string, limit int) {
	if Blank(text) {
		f.add(field, RuleRequired)
	}
	f.length(field, text, limit)
	f.characters(field, text)
	if malformed(text) {
		f.add(field, RuleMalformedVariable)
	}
}

func (f *Faults) length(field, text string, limit int) {
	f.atMost(limit, utf8.RuneCountInString(text), field, RuleTooLong)
}

// buttons adds the faults of buttons; find tells which parts of a text are
// placeholders.
func (f *Faults) buttons(buttons []Button, find func(string) []placeholder) {
	count := map[ButtonType]int{}
	for i, b := range buttons {
		count[b.Type]++
		switch b.Type {
		case QuickReply:
			f.label(i, b)
		case URL:
			f.label(i, b)
			f.address(buttonField(i, "url"), b.URL, find(b.URL))
		case PhoneNumber:
			f.label(i, b)
			f.phoneNumber(buttonField(i, "phone_number"), b.PhoneNumber, find(b.PhoneNumber))
		case CopyCode:
			f.code(buttonField(i, "example"), b.Example, find(b.Example))
		default:
			f.add(buttonField(i, "type"), RuleUnknownType)
		}
	}
	f.atMost(MaxReplyButtons, count[QuickReply], "buttons", RuleTooMany)
	f.atMost(MaxURLButtons, count[URL], "buttons", RuleTooMany)
	f.atMost(MaxPhoneButtons, count[PhoneNumber], "buttons", RuleTooMany)
	f.atMost(MaxCodeButtons, count[CopyCode], "buttons", RuleTooMany)
	// The gateway answers 400 to a message that mixes them.
	if count[QuickReply] > 0 && count[QuickReply] < len(buttons) {
		f.add("buttons", RuleMixedReplies)
	}
}

func (f *Faults) label(i int, b Button) {
	if Blank(b.Text) {
		f.add(buttonField(i, "text"), RuleRequired)
	}
}

// address checks an http(s) URL (RFC 3986) that may end in one placeholder. Scheme
// and host must be fixed, so that a value cannot lead elsewhere.
func (f *Faults) address(field, text string, found []placeholder) {
	if Blank(text) {
		f.add(field, RuleRequired)
		return
	}
	f.atMost(1, len(found), field, RuleTooManyVariables)
	fixed := text
	if len(found) > 0 {
		last := found[len(found)-1]
		if last.end != len(text) {
			f.add(field, RuleVariableNotLast)
		}
		fixed = text[:found[0].start]
	}
	address, err := url.Parse(fixed)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Hostname() == "" ||
		len(found) > 0 && address.Path == "" && !strings.ContainsAny(fixed, "?#") {
		f.add(field, RuleInvalidURL)
	}
}

func (f *Faults) phoneNumber(field, text string, found []placeholder) {
	const shortest, longest = 8, 15 // digits of an international number, ITU-T E.164
	digits := strings.TrimPrefix(text, "+")
	switch {
	case Blank(text):
		f.add(field, RuleRequired)
	case len(found) > 0:
		f.add(field, RuleNoVariables)
	case len(digits) < shortest || len(digits) > longest || strings.Trim(digits, "0123456789") != "":
		f.add(field, RuleInvalidPhoneNumber)
	}
}

// code checks ASCII letters and digits, or one placeholder, or both together.
func (f *Faults) code(field, text string, found []placeholder) {
	if Blank(text) {
		f.add(field, RuleRequired)
		return
	}
	f.atMost(1, len(found), field, RuleTooManyVariables)
	fixed := text
	if len(found) > 0 {
		fixed = text[:found[0].start] + text[found[len(found)-1].end:]
	}
	f.length(field, fixed, MaxCode)
	for i := range len(fixed) {
		if c := fixed[i] | 0x20; (c < 'a' || c > 'z') && (fixed[i] < '0' || fixed[i] > '9') {
			f.add(field, RuleNotAlphanumeric)
			return
		}
	}
}
