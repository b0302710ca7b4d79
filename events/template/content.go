package template

import (
	"strings"
	"unicode/utf8"
)

// MaxText is the longest text that is sent, in code points: header, body and
// footer together as Content.Text joins them.
const MaxText = 4096

// Content is what is sent: everything rendered, nothing left to look up. Its JSON
// is sealed when a message is accepted.
type Content struct {
	Header  string           `json:"header,omitempty"`
	Body    string           `json:"body"`
	Footer  string           `json:"footer,omitempty"`
	Buttons []RenderedButton `json:"buttons,omitempty"`
}

// RenderedButton is a button of a content; see Button for what each type uses. A
// COPY_CODE without a label has its code as Text.
type RenderedButton struct {
	Type        ButtonType `json:"type"`
	Text        string     `json:"text"`
	URL         string     `json:"url,omitempty"`
	PhoneNumber string     `json:"phoneNumber,omitempty"`
	Code        string     `json:"code,omitempty"`
}

// Render puts values into the structure. Every value appears as given, whatever
// characters it holds, and is never searched for placeholders. Rendering needs no
// valid structure: rules that came later do not stop older templates.
//
// The error is a *ValuesError for values that Check reports, or Faults for a
// content that cannot be sent: blank, longer than MaxText, or holding U+0000.
func Render(s Structure, values map[string]any) (Content, error) {
	if report := Check(s, values); !report.OK() {
		return Content{}, &ValuesError{Report: report}
	}
	fill := func(text string) string {
		return expand(text, func(name string) string {
			value, _ := values[name].(string)
			return value
		})
	}
	content := Content{Body: fill(s.Body.Text)}
	if s.Header != nil {
		content.Header = fill(s.Header.Text)
	}
	if s.Footer != nil {
		content.Footer = fill(s.Footer.Text)
	}
	content.Buttons = renderButtons(s.Buttons, fill)
	if err := content.faults().Err(); err != nil {
		return Content{}, err
	}
	return content, nil
}

func renderButtons(buttons []Button, fill func(string) string) []RenderedButton {
	var rendered []RenderedButton
	for _, b := range buttons {
		r := RenderedButton{
			Type:        b.Type,
			Text:        fill(b.Text),
			URL:         fill(b.URL),
			PhoneNumber: fill(b.PhoneNumber),
			Code:        fill(b.Example),
		}
		// The gateway shows a button without a label; the code itself is one in
		// every language.
		if Blank(r.Text) {
			r.Text = r.Code
		}
		rendered = append(rendered, r)
	}
	return rendered
}

// Text is the whole message as one plain text: header in WhatsApp's bold, body
// and footer, with a blank line between. Parts that show nothing are left out, and
// so are the buttons.
func (c Content) Text() string {
	var parts []string
	if !Blank(c.Header) {
		parts = append(parts, "*"+c.Header+"*")
	}
	if !Blank(c.Body) {
		parts = append(parts, c.Body)
	}
	if !Blank(c.Footer) {
		parts = append(parts, c.Footer)
	}
	return strings.Join(parts, "\n\n")
}

// Empty reports whether header, body and footer show nothing.
func (c Content) Empty() bool { return Blank(c.Header) && Blank(c.Body) && Blank(c.Footer) }

// faults are the reasons why a content cannot be sent, whatever it was made from.
func (c Content) faults() Faults {
	var faults Faults
	if c.Empty() {
		faults.add("body.text", RuleRequired)
	}
	check := func(field, text string) { faults.characters(field, text) }
	check("header.text", c.Header)
	check("body.text", c.Body)
	check("footer.text", c.Footer)
	for i, b := range c.Buttons {
		check(buttonField(i, "text"), b.Text)
		check(buttonField(i, "url"), b.URL)
		check(buttonField(i, "phone_number"), b.PhoneNumber)
		check(buttonField(i, "example"), b.Code)
	}
	faults.atMost(MaxText, utf8.RuneCountInString(c.Text()), "text", RuleTooLong)
	return faults
}

// characters adds the faults that no text may have.
func (f *Faults) characters(field, text string) {
	if !utf8.ValidString(text) {
		f.add(field, RuleNotUTF8)
	}
	if strings.ContainsRune(text, 0) {
		f.add(field, RuleNUL)
	}
}
