package template

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseReadsEveryForm(t *testing.T) {
	t.Parallel()
	full := Structure{
		Header:  &Text{Text: "Order {{id}}"},
		Body:    Text{Text: "Hi {{name}}!"},
		Footer:  &Text{Text: "Bye"},
		Buttons: []Button{{Type: URL, Text: "Open", URL: "https://a.example/{{id}}"}, {Type: PhoneNumber, Text: "Call", PhoneNumber: "+5511988887777"}},
	}
	object := `{"header":{"type":"TEXT","text":"Order {{id}}"},"body":{"text":"Hi {{name}}!"},"footer":{"text":"Bye"},
		"buttons":[{"type":"url","text":"Open","url":"https://a.example/{{id}}"},{"type":"PHONE_NUMBER","text":"Call","phone_number":"+5511988887777"}],"unknown":1}`
	quoted, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	body := func(s string) Structure { return Structure{Body: Text{Text: s}} }
	for name, c := range map[string]struct {
		raw  string
		want Structure
	}{
		"object":                  {object, full},
		"object in a string":      {string(quoted), full},
		"spaces around":           {"\n " + object + "\t", full},
		"plain text":              {"Hi {{name}}!\n", body("Hi {{name}}!\n")},
		"plain text in a string":  {`"Hi \"{{name}}\"!"`, body(`Hi "{{name}}"!`)},
		"text that opens braces":  {"{{name}}, hi", body("{{name}}, hi")},
		"broken object is text":   {`{"body":`, body(`{"body":`)},
		"string of a JSON string": {`"\"hi\""`, body(`"hi"`)},
		"string of a number":      {`"42"`, body("42")},
		"nothing":                 {"", body("")},
		"bare strings":            {`{"header":"H","body":"B","footer":"F"}`, Structure{Header: &Text{"H"}, Body: Text{"B"}, Footer: &Text{"F"}}},
		"nulls":                   {`{"header":null,"body":{"text":"B"},"footer":null,"buttons":null}`, body("B")},
		"header none":             {`{"header":{"type":"NONE"},"body":{"text":"B"}}`, body("B")},
		"header format none":      {`{"header":{"format":"none"},"body":{"text":"B"},"buttons":[]}`, body("B")},
		"object without body":     {`{"a":1}`, body("")},
		"emoji and escapes":       {`"ol\u00e1 \ud83d\ude00\n"`, body("olá 😀\n")},
		"copy code":               {`{"body":"B","buttons":[{"type":"COPY_CODE","example":"{{code}}"}]}`, Structure{Body: Text{"B"}, Buttons: []Button{{Type: CopyCode, Example: "{{code}}"}}}},
	} {
		got, err := Parse([]byte(c.raw))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseNamesTheWrongPart(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]Faults{
		`42`:         {{Field: "structure", Rule: RuleWrongType}},
		`null`:       {{Field: "structure", Rule: RuleWrongType}},
		`["a"]`:      {{Field: "structure", Rule: RuleWrongType}},
		`true`:       {{Field: "structure", Rule: RuleWrongType}},
		`{"body":5}`: {{Field: "body", Rule: RuleWrongType}},
		`{"header":{"type":"IMAGE"},"body":{"text":7},"footer":[],"buttons":{}}`: {
			{Field: "header.type", Rule: RuleUnsupported},
			{Field: "body", Rule: RuleWrongType},
			{Field: "footer", Rule: RuleWrongType},
			{Field: "buttons", Rule: RuleWrongType},
		},
		`"{\"body\":\"B\",\"buttons\":[null,{\"type\":\"URL\"},{\"type\":3},\"x\"]}"`: {
			{Field: "buttons[0]", Rule: RuleWrongType},
			{Field: "buttons[2]", Rule: RuleWrongType},
			{Field: "buttons[3]", Rule: RuleWrongType},
		},
	} {
		_, err := Parse([]byte(raw))
		var got Faults
		if !errors.As(err, &got) {
			t.Errorf("Parse(%s): %v", raw, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%s) (-want +got):\n%s", raw, diff)
		}
	}
}

func TestStructureSurvivesJSON(t *testing.T) {
	t.Parallel()
	want := Structure{
		Header:  &Text{"H"},
		Body:    Text{"B {{x}} <&>"},
		Footer:  &Text{"F"},
		Buttons: []Button{{Type: CopyCode, Text: "Copy", Example: "{{x}}"}, {Type: URL, Text: "Go", URL: "https://a.example"}},
	}
	raw, err := json.Marshal(map[string]any{"structure": want})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Structure, Absent Structure }
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Structure); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"structure":null}`), &got); err != nil {
		t.Errorf("null: %v", err)
	}
	var faults Faults
	if err := json.Unmarshal([]byte(`{"structure":{"header":{"type":"VIDEO"}}}`), &got); !errors.As(err, &faults) {
		t.Errorf("media header: %v", err)
	}
}
