package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/template"
)

// Case 68: a value with the signs of other template languages is sent as it was given.
func TestCase68ValuesAreLiteral(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	for _, value := range []string{"pa$&ss", "$$", "$1", "{{name}}", `\1`, "%s", "${x}"} {
		before := len(f.events())
		r := f.send(liveKey, fmt.Sprintf(`{"destinationNumber":"+5511987650123","templateId":"generic_notification","variables":{"name":%q,"message":%q}}`, value, value))
		if r.status != http.StatusAccepted {
			t.Fatalf("%q: %d %s", value, r.status, r.body)
		}
		if got := payloadOf(t, f, f.events()[before]).Content.Body; got != "Hi "+value+": "+value+"!" {
			t.Errorf("%q became %q", value, got)
		}
	}
}

// Case 70: lengths are counted in characters, one more than allowed is refused and nothing is cut; what shows nothing is
// nothing. It is 400, as every fault of a body.
func TestCase70LengthsAndBlanks(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	longest, family := strings.Repeat("ã", template.MaxText), "👨‍👩‍👧‍👦"
	emoji := strings.Repeat("😀", 234)
	for _, c := range []struct{ text, rule string }{
		{longest, ""},
		{longest + "a", "too_long"},
		{emoji, ""},
		{family, ""},
		{"\u200b", "required"},
		{" \n\t", "required"},
		{strings.Repeat("😀", template.MaxText) + family, "too_long"},
	} {
		before := len(f.events())
		r := f.send(ownKey, fmt.Sprintf(`{"destinationNumber":"+5511987650123","text":"%s"}`, strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(c.text)))
		if c.rule == "" {
			if r.status != http.StatusAccepted || payloadOf(t, f, f.events()[before]).Content.Body != c.text {
				t.Errorf("%.20q: %d %s", c.text, r.status, r.body)
			}
			continue
		}
		wantCode(t, r, events.CodeValidation)
		details, _ := r.member(t, "details").(map[string]any)
		if diff := cmp.Diff([]any{map[string]any{"field": "text", "rule": c.rule}}, details["errors"]); diff != "" || r.status != http.StatusBadRequest {
			t.Errorf("%.20q: %s", c.text, diff)
		}
	}
	r := f.send(liveKey, `{"destinationNumber":"+5511987650123","templateId":"code","variables":{"code":"\u200b"}}`)
	wantCode(t, r, events.CodeInvalidVariable)
}
