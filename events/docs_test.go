package events_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pilotstatus.dev/events"
)

// The wire reference names every event, with every field of its body, and every header.
func TestDocsNameEverythingOnTheWire(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // wire type → its row
	for line := range strings.Lines(string(raw)) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && strings.HasPrefix(line, "| `") {
			rows[cell] = line
		}
	}
	headers := map[string]bool{events.HeaderMsgID: true}
	for _, s := range events.Standard.Specs() {
		row, ok := rows[s.WireType()]
		if !ok {
			t.Errorf("%s has no row", s.WireType())
			continue
		}
		g, _ := readGolden(t, goldenPath(s.WireType()))
		for h := range g.Headers {
			headers[h] = true
		}
		for _, field := range fields(t, g.Body) {
			if !strings.Contains(row, "`"+field+"`") {
				t.Errorf("the row of %s lacks the field %s", s.WireType(), field)
			}
		}
		delete(rows, s.WireType())
	}
	for cell := range rows {
		if strings.HasSuffix(cell, ".v1") {
			t.Errorf("the row of %s describes no event", cell)
		}
	}
	for h := range headers {
		if !strings.Contains(string(raw), "`"+h+"`") {
			t.Errorf("the header %s is not described", h)
		}
	}
	for _, c := range events.Classes() {
		if !strings.Contains(string(raw), "`"+string(c)+"`") {
			t.Errorf("the class %s is not described", c)
		}
	}
}

// fields lists the keys of a body, and of the entity in a control event.
func fields(t *testing.T, body json.RawMessage) []string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	out := slices.Collect(maps.Keys(m))
	if v, ok := m["value"]; ok {
		out = append(out, fields(t, v)...)
	}
	return out
}
