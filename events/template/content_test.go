package template

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const family = "👨\u200d👩\u200d👧\u200d👦"

func TestVariablesInReadingOrder(t *testing.T) {
	t.Parallel()
	s := Structure{
		Header:  &Text{"{{h}}"},
		Body:    Text{"{{b}} {{ h }} {{{c}}} {{\tB_2 }} {{9}} {{no-name}} { {x} }"},
		Footer:  &Text{"{{f}}"},
		Buttons: []Button{{Text: "{{t}}", URL: "{{u}}", PhoneNumber: "{{p}}", Example: "{{e}}"}, {Text: "{{b}}{{z}}"}},
	}
	want := []string{"h", "b", "c", "B_2", "9", "f", "t", "u", "p", "e", "z"}
	if diff := cmp.Diff(want, Variables(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Variables(Structure{}); got == nil || len(got) != 0 {
		t.Errorf("Variables of nothing = %#v", got)
	}
}

func TestCheckReportsEveryValue(t *testing.T) {
	t.Parallel()
	var values map[string]any
	if err := json.Unmarshal([]byte(`{"number":1,"bool":false,"null":null,"list":["a"],"object":{},"empty":"","spaces":" \t\n",
		"zw":"\u200b\u00a0\ufeff\u2060","nul":"a\u0000b","ok":"x","family":"👨‍👩‍👧","unused":7}`), &values); err != nil {
		t.Fatal(err)
	}
	values["bytes"] = "\xff"
	got := Check(Structure{
		Header: &Text{"{{gone}}"},
		Body:   Text{"{{number}}{{bool}}{{null}}{{list}}{{object}}{{empty}}{{spaces}}{{zw}}{{nul}}{{ok}}{{family}}{{bytes}}{{Ok}}{{gone}}"},
	}, values)
	want := Report{
		Missing: []string{"gone", "Ok"},
		Invalid: []Invalid{
			{"number", ReasonNotAString},
			{"bool", ReasonNotAString},
			{"null", ReasonNotAString},
			{"list", ReasonNotAString},
			{"object", ReasonNotAString},
			{"empty", ReasonBlank},
			{"spaces", ReasonBlank},
			{"zw", ReasonBlank},
			{"nul", ReasonNUL},
			{"bytes", ReasonNotUTF8},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.OK() || !Check(Structure{}, nil).OK() {
		t.Error("OK is wrong")
	}
	raw, err := json.Marshal(Report{Missing: []string{"a"}, Invalid: []Invalid{{"b", ReasonBlank}}})
	if err != nil || string(raw) != `{"missingKeys":["a"],"invalidKeys":[{"key":"b","reason":"blank"}]}` {
		t.Errorf("JSON %s, %v", raw, err)
	}
}

func TestRenderIsLiteral(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"pa$&ss", "$$", "$1", "${name}", "{{other}}", "{{v}}", "{{", "}}", `\`, `\n`, `"'` + "`", "a\nb\r\n", "😀", family, "%s %d", "<b>&amp;", " x ", "*_~",
	} {
		values := map[string]any{"v": value, "other": "OTHER"}
		content, err := Render(Structure{
			Header:  &Text{"h{{v}}"},
			Body:    Text{"<{{v}}|{{ other }}|{{v}}>"},
			Footer:  &Text{"{{v}}"},
			Buttons: []Button{{Type: URL, Text: "{{v}}", URL: "https://a.example/{{v}}"}, {Type: CopyCode, Example: "{{v}}"}, {Type: PhoneNumber, Text: "c", PhoneNumber: "+5511988887777"}},
		}, values)
		if err != nil {
			t.Errorf("%q: %v", value, err)
			continue
		}
		want := Content{
			Header: "h" + value,
			Body:   "<" + value + "|OTHER|" + value + ">",
			Footer: value,
			Buttons: []RenderedButton{
				{Type: URL, Text: value, URL: "https://a.example/" + value},
				{Type: CopyCode, Text: value, Code: value},
				{Type: PhoneNumber, Text: "c", PhoneNumber: "+5511988887777"},
			},
		}
		if diff := cmp.Diff(want, content); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	_, err := Render(Structure{Body: Text{"{{a}} {{b}}"}}, map[string]any{"b": nil})
	var values *ValuesError
	if !errors.As(err, &values) || len(values.Report.Missing) != 1 || len(values.Report.Invalid) != 1 {
		t.Fatalf("Render = %v", err)
	}
	if want := "template values: 1 missing, 1 invalid"; err.Error() != want {
		t.Errorf("Error() = %q", err)
	}
	for name, c := range map[string]struct {
		s    Structure
		want Faults
	}{
		"blank":     {Structure{Header: &Text{"\u200b"}, Body: Text{" \u00a0"}}, Faults{{Field: "body.text", Rule: RuleRequired}}},
		"NUL":       {Structure{Body: Text{"a\x00"}, Buttons: []Button{{Text: "t\x00", URL: "\xff"}}}, Faults{{Field: "body.text", Rule: RuleNUL}, {Field: "buttons[0].text", Rule: RuleNUL}, {Field: "buttons[0].url", Rule: RuleNotUTF8}}},
		"too long":  {Structure{Header: &Text{"h"}, Body: Text{strings.Repeat("😀", 4000) + "{{v}}"}}, Faults{{"text", RuleTooLong, 4096, 4105}}},
		"no button": {Structure{Buttons: []Button{{Text: "x"}}}, Faults{{Field: "body.text", Rule: RuleRequired}}},
	} {
		_, err := Render(c.s, map[string]any{"v": strings.Repeat("é", 100)})
		var got Faults
		if !errors.As(err, &got) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTextJoinsWhatShows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content Content
		want    string
		empty   bool
	}{
		{Content{Header: "H", Body: "B\n", Footer: "F"}, "*H*\n\nB\n\n\nF", false},
		{Content{Body: "B"}, "B", false},
		{Content{Header: "\u200b", Body: "B", Footer: " "}, "B", false},
		{Content{Header: "H"}, "*H*", false},
		{Content{Body: "\u200b\u2800\u3164\ufe0f"}, "", true},
		{Content{Buttons: []RenderedButton{{Text: "x"}}}, "", true},
	} {
		if got := c.content.Text(); got != c.want || c.content.Empty() != c.empty {
			t.Errorf("%+v: Text() = %q, Empty() = %v", c.content, got, c.content.Empty())
		}
	}
}

func TestFreeText(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("😀", MaxText)
	replies := []Button{{Type: QuickReply, Text: "A {{x}}"}, {Type: QuickReply, Text: "B"}}
	for _, c := range []struct {
		name, text, header, footer string
		buttons                    []Button
		want                       Faults
	}{
		{name: "plain", text: " {{not}} a $1 template\n"},
		{name: "longest", text: longest},
		{name: "family", text: family},
		{name: "buttons", text: "Pick", header: "H", footer: "F", buttons: replies},
		{name: "address with braces", text: "Go", buttons: []Button{{Type: URL, Text: "u", URL: "https://a.example/?q={{x}}&y=1"}}},
		{name: "too long", text: longest + "x", want: Faults{{"text", RuleTooLong, 4096, 4097}}},
		{name: "long with header", text: longest, header: "H", buttons: replies, want: Faults{{"text", RuleTooLong, 4096, 4101}}},
		{name: "empty", text: "", want: Faults{{Field: "body.text", Rule: RuleRequired}}},
		{name: "invisible", text: "\u200b\n", want: Faults{{Field: "body.text", Rule: RuleRequired}}},
		{name: "only header", header: "H", buttons: replies, want: Faults{{Field: "body.text", Rule: RuleRequired}}},
		{name: "NUL", text: "a\x00b", want: Faults{{Field: "body.text", Rule: RuleNUL}}},
		{name: "no buttons", text: "a", header: "H", footer: strings.Repeat("f", 61), want: Faults{
			{Field: "header.text", Rule: RuleNeedsButtons}, {"footer.text", RuleTooLong, 60, 61}, {Field: "footer.text", Rule: RuleNeedsButtons},
		}},
		{name: "four", text: "a", buttons: append(replies, replies...), want: Faults{{"buttons", RuleTooMany, 3, 4}}},
		{name: "mixed", text: "a", buttons: append([]Button{{Type: CopyCode, Example: "A1"}}, replies...), want: Faults{{Field: "buttons", Rule: RuleMixedReplies}}},
		{name: "code is literal", text: "a", buttons: []Button{{Type: CopyCode, Example: "{{x}}"}}, want: Faults{{Field: "buttons[0].example", Rule: RuleNotAlphanumeric}}},
	} {
		content, err := FreeText(c.text, c.header, c.footer, c.buttons)
		var got Faults
		if err != nil && !errors.As(err, &got) {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if err != nil {
			continue
		}
		if content.Body != c.text || content.Header != c.header || content.Footer != c.footer || len(content.Buttons) != len(c.buttons) {
			t.Errorf("%s: content %+v", c.name, content)
		}
		for i, b := range content.Buttons {
			if b.Text != c.buttons[i].Text || b.URL != c.buttons[i].URL || b.Type != c.buttons[i].Type {
				t.Errorf("%s: button %+v", c.name, b)
			}
		}
	}
}

func TestContentSurvivesJSON(t *testing.T) {
	t.Parallel()
	want := Content{Header: "H", Body: "<" + family + "> \u2028", Footer: "F", Buttons: []RenderedButton{
		{Type: URL, Text: "u", URL: "https://a.example/?a=1&b=2"}, {Type: PhoneNumber, Text: "c", PhoneNumber: "+5511988887777"}, {Type: CopyCode, Text: "A1", Code: "A1"},
	}}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Content
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Sealed contents are read back by later versions: the names are frozen.
	const frozen = `{"header":"H","body":"B","buttons":[{"type":"COPY_CODE","text":"c","url":"u","phoneNumber":"p","code":"A1"}]}`
	raw, err = json.Marshal(Content{Header: "H", Body: "B", Buttons: []RenderedButton{{CopyCode, "c", "u", "p", "A1"}}})
	if err != nil || string(raw) != frozen {
		t.Errorf("JSON %s, %v", raw, err)
	}
}
