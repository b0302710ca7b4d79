package events_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pilotstatus.dev/events"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	err := events.Errorf(events.CodeConflict, "the %s changed", "template").WithDetails("version", 3).WithDetails("kind", "template").WithCause(io.EOF)
	wrapped := fmt.Errorf("append event: %w", err)
	if got := wrapped.Error(); got != "append event: CONFLICT: the template changed: EOF" {
		t.Errorf("%q", got)
	}
	if got := events.Errorf(events.CodeConflict, "x").Error(); got != "CONFLICT: x" {
		t.Errorf("%q", got)
	}
	if !errors.Is(wrapped, &events.Error{Code: events.CodeConflict}) || errors.Is(wrapped, &events.Error{Code: events.CodeFenced}) {
		t.Error("Is compares codes")
	}
	if !errors.Is(wrapped, io.EOF) || errors.Is(wrapped, io.ErrUnexpectedEOF) {
		t.Error("the cause is in the chain")
	}
	var as *events.Error
	if !errors.As(wrapped, &as) || as.Details["version"] != 3 || as.Details["kind"] != "template" || strings.Contains(as.Message, "EOF") {
		t.Errorf("%+v", as)
	}
	for want, in := range map[events.Code]error{
		events.CodeConflict: wrapped,
		events.CodeInternal: io.EOF,
		"":                  nil,
		events.CodeFenced:   events.Errorf(events.CodeFenced, "moved").WithCause(wrapped),
	} {
		if got := events.CodeOf(in); got != want {
			t.Errorf("code of %v: %s, want %s", in, got, want)
		}
	}
}
