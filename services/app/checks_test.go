package app

import (
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// Every check of readiness of a process with all roles has a row in the runbook that says what red means.
func TestChecksOfReadinessAreInTheRunbook(t *testing.T) {
	t.Parallel()
	runbook, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for line := range strings.Lines(string(runbook)) {
		row, ok := strings.CutPrefix(line, "| `")
		cell, _, _ := strings.Cut(row, "` |")
		for name := range strings.SplitSeq(cell, "`, `") {
			described[name] = described[name] || ok
		}
	}
	cfg, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(postgresDir(t))
	cfg.Partitions, cfg.NATSSync, cfg.AdminAddr = 1, "default", "127.0.0.1:0"
	a, err := Start(t.Context(), cfg, Roles(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"postgres"} // which only the API has
	for _, c := range a.health() {
		names = append(names, c.Name)
	}
	stopNow(t, a)
	for _, name := range names {
		if !described[name] {
			t.Errorf("the runbook says nothing of the check %s", name)
		}
	}
	if len(names) < 21 {
		t.Errorf("only %d checks: %v", len(names), names)
	}
}
