package template_test

import (
	"fmt"

	"pilotstatus.dev/events/template"
)

func ExampleRender() {
	s, err := template.Parse([]byte(`{"header":{"text":"Order {{id}}"},"body":{"text":"Hi {{name}}, it left."},"footer":{"text":"Acme"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	content, err := template.Render(s, map[string]any{"id": "7", "name": "$1 {{id}}"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(content.Text())
	// Output:
	// *Order 7*
	//
	// Hi $1 {{id}}, it left.
	//
	// Acme
}

func ExampleCheck() {
	s := template.Structure{Body: template.Text{Text: "Hi {{name}}, code {{code}}, until {{hour}}."}}
	report := template.Check(s, map[string]any{"name": " ", "code": 1234})
	fmt.Println(report.Missing, report.Invalid)
	// Output: [hour] [{name blank} {code not_a_string}]
}

func ExampleValidate() {
	s := template.Structure{Body: template.Text{Text: "{{name}}, hi"}, Footer: &template.Text{Text: "by {{shop}}"}}
	for _, fault := range template.Validate(s) {
		fmt.Println(fault.Field, fault.Rule)
	}
	// Output:
	// body.text starts_with_variable
	// footer.text no_variables
}

func ExampleFreeText() {
	_, err := template.FreeText("\u200b", "", "", nil)
	fmt.Println(err)
	// Output: message breaks rules: body.text required
}
