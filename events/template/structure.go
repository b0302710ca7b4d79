// Package template turns a message structure and a customer's values into the
// exact text and buttons to send, each value appearing literally and once.
//
// Lengths are counted in Unicode code points everywhere, and nothing is ever cut:
// what is too long is refused with its limit and its length. Formatting is
// WhatsApp's own and passes through unchanged.
package template

// Limits of a structure, in code points for texts and in items for buttons.
// Lengths of a template are those of the text as written, placeholders included.
const (
	MaxHeader = 60
	MaxBody   = 1024
	MaxFooter = 60
	MaxCode   = 15 // of a COPY_CODE

	MaxButtons      = 10
	MaxURLButtons   = 2
	MaxPhoneButtons = 1
	MaxCodeButtons  = 1
	// MaxReplyButtons is the gateway's own limit: it answers 400 to a fourth one.
	MaxReplyButtons = 3
)

// Structure is a message with placeholders {{name}}: what one version of a
// template holds. Its JSON is {"header":{"text"},"body":{"text"},"footer":{"text"},
// "buttons":[…]}; it also reads every form that Parse takes.
type Structure struct {
	Header  *Text    `json:"header,omitempty"`
	Body    Text     `json:"body"`
	Footer  *Text    `json:"footer,omitempty"`
	Buttons []Button `json:"buttons,omitempty"`
}

// Text is a text part of a structure.
type Text struct {
	Text string `json:"text"`
}

// ButtonType says what a button does.
type ButtonType string

// The types of a button.
const (
	QuickReply  ButtonType = "QUICK_REPLY"
	URL         ButtonType = "URL"
	PhoneNumber ButtonType = "PHONE_NUMBER"
	CopyCode    ButtonType = "COPY_CODE"
)

// Button is a button of a structure. Text is its label; beside it each type uses
// one field: URL its address, PHONE_NUMBER the number called, COPY_CODE the code,
// which may be a placeholder. QUICK_REPLY uses none. The label of a COPY_CODE may
// be absent.
type Button struct {
	Type        ButtonType `json:"type"`
	Text        string     `json:"text,omitempty"`
	URL         string     `json:"url,omitempty"`
	PhoneNumber string     `json:"phone_number,omitempty"`
	Example     string     `json:"example,omitempty"`
}

// Variables are the names of all placeholders in the order in which they first
// appear: header, body, footer, then each button's label, address, number and
// code. It is never nil.
func Variables(s Structure) []string {
	names := []string{}
	seen := map[string]bool{}
	s.walk(func(text string) {
		for _, p := range placeholders(text) {
			if !seen[p.name] {
				seen[p.name] = true
				names = append(names, p.name)
			}
		}
	})
	return names
}

// walk visits every text that may hold a placeholder, in reading order.
func (s Structure) walk(visit func(text string)) {
	if s.Header != nil {
		visit(s.Header.Text)
	}
	visit(s.Body.Text)
	if s.Footer != nil {
		visit(s.Footer.Text)
	}
	for _, b := range s.Buttons {
		visit(b.Text)
		visit(b.URL)
		visit(b.PhoneNumber)
		visit(b.Example)
	}
}
