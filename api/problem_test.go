package api

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

// docs/reference/errors.md lists every code with its status and every errorCode with its text, and no others.
func TestErrorsReference(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z_0-9]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(string(raw), -1) {
		written[m[1]] = strings.TrimSpace(m[2])
	}
	want := map[string]string{}
	for code, k := range problems {
		want[string(code)] = fmt.Sprint(k.status)
	}
	for code, text := range failureTexts {
		want[string(code)] = text
	}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Error(diff)
	}
	for _, rule := range []string{
		ruleInvalid, ruleJSON, ruleUTF8, ruleDepth, ruleWrongType, ruleRequired, ruleExactlyOne, ruleOnlyWithText, ruleUnknownValue,
		ruleDateTime, ruleTooFar, ruleNotFuture, ruleNotAfter, ruleWindow, ruleTooMany, ruleTooLong,
	} {
		if !strings.Contains(string(raw), "`"+rule+"`") {
			t.Errorf("rule %s is not in the reference", rule)
		}
	}
}

// What huma finds by itself becomes one of our problems, without its words and values.
func TestTranslate(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]events.Code{
		400: events.CodeValidation, 422: events.CodeValidation, 415: events.CodeValidation, 404: events.CodeNotFound,
		405: CodeMethodNotAllowed, 408: CodeRequestTimeout, 413: events.CodeTooLarge, 500: events.CodeInternal, 418: events.CodeInternal,
	} {
		p, ok := huma.NewError(status, canary, &huma.ErrorDetail{Message: canary, Location: "query.x", Value: canary}).(*Problem)
		if !ok || p.Code != string(want) || strings.Contains(fmt.Sprint(p), canary) {
			t.Errorf("%d: %+v", status, p)
		}
	}
	p := problemOf(t.Context(), fmt.Errorf("x: %w", errors.New(canary)))
	if p.Status != http.StatusInternalServerError || strings.Contains(p.Detail, canary) {
		t.Errorf("%+v", p)
	}
	p = problemOf(t.Context(), events.Errorf("SOMETHING_NEW", canary))
	if p.Code != "INTERNAL" || strings.Contains(p.Detail, canary) {
		t.Errorf("%+v", p)
	}
}
