package template

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// nasty draws values that a careless renderer changes.
func nasty() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"$&", "$1", "$$", "{{a}}", "{{b}}", "{{ c }}", "{{", "}}", "{", "}", `\`, `"`, "a}}", "{{a", family, "\n"}),
		rapid.Map(rapid.StringN(0, 20, -1), func(s string) string { return "x" + strings.ReplaceAll(s, "\x00", "") }),
	).Filter(func(s string) bool { return judge(s) == "" })
}

var names = []string{"a", "b", "c", "first_name", "1"}

// pieces draws a text as literals and placeholders in turn.
func pieces(t *rapid.T, label string) (text string, render func(map[string]any) string) {
	type piece struct{ literal, name string }
	var all []piece
	for range rapid.IntRange(1, 6).Draw(t, label) {
		p := piece{literal: rapid.StringMatching(`[a-z $\\."\n😀]{0,5}`).Draw(t, "literal"), name: rapid.SampledFrom(names).Draw(t, "name")}
		space := rapid.SampledFrom([]string{"", " ", "\t "}).Draw(t, "space")
		text += p.literal + "{{" + space + p.name + space + "}}"
		all = append(all, p)
	}
	return text, func(values map[string]any) string {
		var out strings.Builder
		for _, p := range all {
			out.WriteString(p.literal + values[p.name].(string))
		}
		return out.String()
	}
}

func TestRenderingIsConcatenation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		header, wantHeader := pieces(t, "header")
		body, wantBody := pieces(t, "body")
		address, wantAddress := pieces(t, "url")
		values := map[string]any{}
		for _, name := range names {
			values[name] = nasty().Draw(t, "value")
		}
		s := Structure{Header: &Text{header}, Body: Text{body}, Buttons: []Button{{Type: URL, Text: "u", URL: address}}}
		content, err := Render(s, values)
		if err != nil {
			t.Fatal(err)
		}
		// Literally, never scanned again, no placeholder left: all are this equality.
		if content.Header != wantHeader(values) || content.Body != wantBody(values) || content.Buttons[0].URL != wantAddress(values) {
			t.Fatalf("content %+v", content)
		}

		// The order in which a map was filled changes nothing.
		other := map[string]any{}
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(values))) {
			other[name] = values[name]
		}
		again, err := Render(s, other)
		if err != nil || again.Text() != content.Text() {
			t.Fatalf("another order: %v", err)
		}
	})
}

func TestNoPlaceholderSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body, _ := pieces(t, "body")
		values := map[string]any{}
		for _, name := range names {
			values[name] = rapid.StringMatching(`[a-z$]{1,8}`).Draw(t, "value")
		}
		content, err := Render(Structure{Body: Text{body}}, values)
		if err != nil {
			t.Fatal(err)
		}
		if len(placeholders(content.Body)) > 0 || malformed(content.Body) {
			t.Fatalf("left in %q", content.Body)
		}
	})
}

func TestMissingAreExactlyTheVariablesWithoutKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body, _ := pieces(t, "body")
		s := Structure{Body: Text{body}}
		values := map[string]any{}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(t, "given") {
			values[name] = "x"
		}
		var want []string
		for _, name := range Variables(s) {
			if _, ok := values[name]; !ok {
				want = append(want, name)
			}
		}
		if got := Check(s, values); !slices.Equal(got.Missing, want) || len(got.Invalid) > 0 {
			t.Fatalf("report %+v, want missing %q", got, want)
		}
	})
}

func FuzzRender(f *testing.F) {
	f.Add("Hi {{name}}", "pa$&ss")
	f.Add("{{{name}}} {{ a }} {{}}", "{{a}}")
	f.Add("{{a}}{{b}}", family)
	f.Add("\x00\xff{{a}}", "\u200b")
	f.Fuzz(func(t *testing.T, body, value string) {
		s := Structure{Header: &Text{body}, Body: Text{body}}
		values := map[string]any{}
		for _, name := range Variables(s) {
			values[name] = value
		}
		content, err := Render(s, values)
		if err != nil {
			return
		}
		if !utf8.ValidString(content.Text()) || content.Empty() || strings.Contains(content.Text(), "\x00") {
			t.Fatalf("sendable content %+v", content)
		}
		count := len(placeholders(body))
		if got := strings.Count(content.Body, value); value != "" && count > 0 && got == 0 {
			t.Fatalf("value %q is not in %q", value, content.Body)
		}
		length := len(body)
		for _, p := range placeholders(body) {
			length += len(value) - (p.end - p.start)
		}
		if len(content.Body) != length {
			t.Fatalf("body of %d bytes, want %d", len(content.Body), length)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "hi", `"hi"`, `{"body":{"text":"a {{b}} c"}}`, `{"header":{"type":"IMAGE"}}`, `"{\"body\":\"x\"}"`, "{{a}} b", `[]`, `{"buttons":[null]}`,
		`{"body":"B","buttons":[{"type":"URL","url":"https://a.example/{{x}}"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Parse(raw)
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("error %T of Parse(%q)", err, raw)
			}
			return
		}
		if Validate(s) != nil {
			return
		}
		// What is valid survives storage, and renders with any good values.
		stored, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(stored)
		if err != nil || Validate(back) != nil || !slices.Equal(Variables(back), Variables(s)) {
			t.Fatalf("Parse(%q) after storage: %+v, %v", raw, back, err)
		}
		values := map[string]any{}
		for _, name := range Variables(s) {
			values[name] = "v"
		}
		if _, err := Render(s, values); err != nil {
			t.Fatalf("valid structure %q does not render: %v", raw, err)
		}
	})
}
