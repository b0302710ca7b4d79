package template

// MaxFreeButtons is the number of buttons a free-form message may have.
const MaxFreeButtons = 3

// FreeText makes the content of a free-form message. The text is kept as given,
// braces included: nothing in it is a placeholder. Header and footer may be empty;
// they are allowed only together with buttons.
//
// The error is of type Faults, with all faults at once.
func FreeText(text, header, footer string, buttons []Button) (Content, error) {
	content := Content{
		Header:  header,
		Body:    text,
		Footer:  footer,
		Buttons: renderButtons(buttons, func(s string) string { return s }),
	}
	var faults Faults
	if Blank(text) && !content.Empty() {
		faults.add("body.text", RuleRequired)
	}
	faults = append(faults, content.faults()...)
	for _, part := range []struct {
		field, text string
		limit       int
	}{
		{"header.text", header, MaxHeader},
		{"footer.text", footer, MaxFooter},
	} {
		faults.length(part.field, part.text, part.limit)
		if part.text != "" && len(buttons) == 0 {
			faults.add(part.field, RuleNeedsButtons)
		}
	}
	faults.atMost(MaxFreeButtons, len(buttons), "buttons", RuleTooMany)
	faults.buttons(buttons, func(string) []placeholder { return nil })
	if err := faults.Err(); err != nil {
		return Content{}, err
	}
	return content, nil
}
