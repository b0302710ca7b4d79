package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func valid() Structure {
	return Structure{
		Header: &Text{"Order {{id}}"},
		Body:   Text{"Hi {{ name }}, your order {{id}} left."},
		Footer: &Text{"Acme"},
		Buttons: []Button{
			{Type: URL, Text: "Open {{id}}", URL: "https://a.example/o?id={{id}}"},
			{Type: URL, Text: "Site", URL: "http://a.example"},
			{Type: PhoneNumber, Text: "Call", PhoneNumber: "+5511988887777"},
			{Type: CopyCode, Example: "{{code}}"},
		},
	}
}

func TestValidStructuresHaveNoFault(t *testing.T) {
	t.Parallel()
	replies := Structure{Body: Text{"Pick"}, Buttons: []Button{{Type: QuickReply, Text: "A"}, {Type: QuickReply, Text: "B"}, {Type: QuickReply, Text: "{{c}}"}}}
	longest := Structure{
		Header: &Text{strings.Repeat("👨", MaxHeader)},
		Body:   Text{strings.Repeat("é", MaxBody)},
		Footer: &Text{strings.Repeat("x", MaxFooter)},
	}
	for i, s := range []Structure{valid(), replies, longest, {Body: Text{"x"}}, {Body: Text{"a { {b} } {{1}}."}}} {
		if faults := Validate(s); faults != nil {
			t.Errorf("structure %d: %v", i, faults)
		}
		if err := Validate(s).Err(); err != nil {
			t.Errorf("structure %d: Err() = %v", i, err)
		}
	}
}

func TestValidateNamesEachFault(t *testing.T) {
	t.Parallel()
	button := func(b Button) func(*Structure) {
		return func(s *Structure) { s.Buttons = []Button{b} }
	}
	replies := func(n int) []Button {
		var all []Button
		for range n {
			all = append(all, Button{Type: QuickReply, Text: "r"})
		}
		return all
	}
	code := Button{Type: CopyCode, Example: "A1"}
	phone := Button{Type: PhoneNumber, Text: "c", PhoneNumber: "5511988887777"}
	site := Button{Type: URL, Text: "u", URL: "https://a.example"}
	for name, c := range map[string]struct {
		change func(*Structure)
		want   Faults
	}{
		"blank header":     {func(s *Structure) { s.Header.Text = "\u200b" }, Faults{{Field: "header.text", Rule: RuleRequired}}},
		"long header":      {func(s *Structure) { s.Header.Text = strings.Repeat("é", 61) }, Faults{{"header.text", RuleTooLong, 60, 61}}},
		"two in header":    {func(s *Structure) { s.Header.Text = "{{a}}{{a}}" }, Faults{{"header.text", RuleTooManyVariables, 1, 2}}},
		"no body":          {func(s *Structure) { s.Body.Text = "" }, Faults{{Field: "body.text", Rule: RuleRequired}}},
		"long body":        {func(s *Structure) { s.Body.Text = strings.Repeat("😀", 1025) }, Faults{{"body.text", RuleTooLong, 1024, 1025}}},
		"variable first":   {func(s *Structure) { s.Body.Text = " \u200b{{a}} x" }, Faults{{Field: "body.text", Rule: RuleStartsWithVariable}}},
		"variable last":    {func(s *Structure) { s.Body.Text = "x {{a}}\n" }, Faults{{Field: "body.text", Rule: RuleEndsWithVariable}}},
		"only a variable":  {func(s *Structure) { s.Body.Text = "{{a}}" }, Faults{{Field: "body.text", Rule: RuleStartsWithVariable}, {Field: "body.text", Rule: RuleEndsWithVariable}}},
		"bad placeholder":  {func(s *Structure) { s.Body.Text = "a {{first-name}} b" }, Faults{{Field: "body.text", Rule: RuleMalformedVariable}}},
		"empty braces":     {func(s *Structure) { s.Body.Text = "a {{ }} b" }, Faults{{Field: "body.text", Rule: RuleMalformedVariable}}},
		"NUL":              {func(s *Structure) { s.Body.Text = "a\x00b" }, Faults{{Field: "body.text", Rule: RuleNUL}}},
		"not UTF-8":        {func(s *Structure) { s.Body.Text = "a\xff" }, Faults{{Field: "body.text", Rule: RuleNotUTF8}}},
		"long footer":      {func(s *Structure) { s.Footer.Text = strings.Repeat("x", 61) }, Faults{{"footer.text", RuleTooLong, 60, 61}}},
		"footer variable":  {func(s *Structure) { s.Footer.Text = "x {{a}}" }, Faults{{Field: "footer.text", Rule: RuleNoVariables}}},
		"unknown button":   {button(Button{Type: "FLOW", Text: "x"}), Faults{{Field: "buttons[0].type", Rule: RuleUnknownType}}},
		"reply no label":   {button(Button{Type: QuickReply, Text: " "}), Faults{{Field: "buttons[0].text", Rule: RuleRequired}}},
		"button NUL":       {button(Button{Type: QuickReply, Text: "a\x00"}), Faults{{Field: "buttons[0].text", Rule: RuleNUL}}},
		"button malformed": {button(Button{Type: QuickReply, Text: "a {{b c}}"}), Faults{{Field: "buttons[0].text", Rule: RuleMalformedVariable}}},
		"url missing":      {button(Button{Type: URL}), Faults{{Field: "buttons[0].text", Rule: RuleRequired}, {Field: "buttons[0].url", Rule: RuleRequired}}},
		"url scheme":       {button(Button{Type: URL, Text: "u", URL: "javascript:alert(1)"}), Faults{{Field: "buttons[0].url", Rule: RuleInvalidURL}}},
		"url no host":      {button(Button{Type: URL, Text: "u", URL: "https://:80/x"}), Faults{{Field: "buttons[0].url", Rule: RuleInvalidURL}}},
		"url broken":       {button(Button{Type: URL, Text: "u", URL: "https://a b"}), Faults{{Field: "buttons[0].url", Rule: RuleInvalidURL}}},
		"url host open":    {button(Button{Type: URL, Text: "u", URL: "https://a.example{{x}}"}), Faults{{Field: "buttons[0].url", Rule: RuleInvalidURL}}},
		"url variable":     {button(Button{Type: URL, Text: "u", URL: "https://a.example/{{x}}/y"}), Faults{{Field: "buttons[0].url", Rule: RuleVariableNotLast}}},
		"url two":          {button(Button{Type: URL, Text: "u", URL: "https://a.example/{{x}}{{y}}"}), Faults{{"buttons[0].url", RuleTooManyVariables, 1, 2}}},
		"phone missing":    {button(Button{Type: PhoneNumber, Text: "c"}), Faults{{Field: "buttons[0].phone_number", Rule: RuleRequired}}},
		"phone variable":   {button(Button{Type: PhoneNumber, Text: "c", PhoneNumber: "{{p}}"}), Faults{{Field: "buttons[0].phone_number", Rule: RuleNoVariables}}},
		"phone spaces":     {button(Button{Type: PhoneNumber, Text: "c", PhoneNumber: "+55 11 98888"}), Faults{{Field: "buttons[0].phone_number", Rule: RuleInvalidPhoneNumber}}},
		"phone short":      {button(Button{Type: PhoneNumber, Text: "c", PhoneNumber: "+5511"}), Faults{{Field: "buttons[0].phone_number", Rule: RuleInvalidPhoneNumber}}},
		"code missing":     {button(Button{Type: CopyCode}), Faults{{Field: "buttons[0].example", Rule: RuleRequired}}},
		"code long":        {button(Button{Type: CopyCode, Example: "ABCDEFGH12345678"}), Faults{{"buttons[0].example", RuleTooLong, 15, 16}}},
		"code signs":       {button(Button{Type: CopyCode, Example: "A-1"}), Faults{{Field: "buttons[0].example", Rule: RuleNotAlphanumeric}}},
		"code accents":     {button(Button{Type: CopyCode, Example: "Á1"}), Faults{{Field: "buttons[0].example", Rule: RuleNotAlphanumeric}}},
		"code two":         {button(Button{Type: CopyCode, Example: "{{a}}{{b}}"}), Faults{{"buttons[0].example", RuleTooManyVariables, 1, 2}}},
		"four replies":     {func(s *Structure) { s.Buttons = replies(4) }, Faults{{"buttons", RuleTooMany, 3, 4}}},
		"eleven replies":   {func(s *Structure) { s.Buttons = replies(11) }, Faults{{"buttons", RuleTooMany, 10, 11}, {"buttons", RuleTooMany, 3, 11}}},
		"three urls":       {func(s *Structure) { s.Buttons = []Button{site, site, site} }, Faults{{"buttons", RuleTooMany, 2, 3}}},
		"two phones":       {func(s *Structure) { s.Buttons = []Button{phone, phone} }, Faults{{"buttons", RuleTooMany, 1, 2}}},
		"two codes":        {func(s *Structure) { s.Buttons = []Button{code, code} }, Faults{{"buttons", RuleTooMany, 1, 2}}},
		"mixed":            {func(s *Structure) { s.Buttons = append(replies(1), site) }, Faults{{Field: "buttons", Rule: RuleMixedReplies}}},
		"all at once": {func(s *Structure) { s.Header.Text, s.Body.Text, s.Footer.Text = "", "{{a}} x", "{{b}}" }, Faults{
			{Field: "header.text", Rule: RuleRequired}, {Field: "body.text", Rule: RuleStartsWithVariable}, {Field: "footer.text", Rule: RuleNoVariables},
		}},
	} {
		s := valid()
		c.change(&s)
		if diff := cmp.Diff(c.want, Validate(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFaultsAreReadable(t *testing.T) {
	t.Parallel()
	err := Validate(Structure{Header: &Text{strings.Repeat("secret", 11)}}).Err()
	if err == nil {
		t.Fatal("no fault")
	}
	want := "message breaks rules: header.text too_long (limit 60, actual 66), body.text required"
	if err.Error() != want {
		t.Errorf("Error() = %q", err)
	}
}
