package prometheus_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

var (
	figure = regexp.MustCompile(`\bpilot_[a-z_]+`)
	part   = regexp.MustCompile(`_(bucket|count|sum)$`) // of a histogram
	name   = regexp.MustCompile(`^Pilot[A-Za-z]+$`)
	quoted = regexp.MustCompile(`"([^"]+)"$`)
	wanted = regexp.MustCompile("(?m)^\\| `(pilot_[a-z_]+)[^`]*` \\|.*: (?:page|alert)\\b")
)

// Every alert is about figures that are documented (and so, by a test of services/app, exist), says how bad it is, and names a place
// in the runbook.
func TestAlertsAreAboutFiguresThatExist(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("pilot.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file rules
	strict := yaml.NewDecoder(bytes.NewReader(raw))
	strict.KnownFields(true)
	if err := strict.Decode(&file); err != nil {
		t.Fatal(err)
	}
	metrics, runbook := read(t, "../../docs/reference/metrics.md"), read(t, "../../docs/runbook.md")
	seen, n := map[string]bool{}, 0
	for _, g := range file.Groups {
		if g.Name == "" || seen[g.Name] {
			t.Errorf("group %q: each has a name of its own, or Prometheus takes none of them", g.Name)
		}
		seen[g.Name] = true
		for _, r := range g.Rules {
			n++
			if !name.MatchString(r.Alert) || seen[r.Alert] {
				t.Errorf("%s: alerts are Pilot…, each once", r.Alert)
			}
			seen[r.Alert] = true
			figures := figure.FindAllString(r.Expr, -1)
			if len(figures) == 0 {
				t.Errorf("%s is about nothing", r.Alert)
			}
			for _, f := range figures {
				if f = part.ReplaceAllString(f, ""); !strings.Contains(metrics, "`"+f) {
					t.Errorf("%s is about %s, which docs/reference/metrics.md does not know", r.Alert, f)
				}
			}
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: for %q", r.Alert, r.For)
			}
			for _, pair := range []string{"()", "[]", "{}"} {
				if strings.Count(r.Expr, pair[:1]) != strings.Count(r.Expr, pair[1:]) {
					t.Errorf("%s: %s do not match", r.Alert, pair)
				}
			}
			if s := r.Labels["severity"]; s != "warning" && s != "page" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			if place := quoted.FindStringSubmatch(r.Annotations["runbook"]); r.Annotations["summary"] == "" || place == nil || !strings.Contains(runbook, place[1]) {
				t.Errorf("%s: summary %q, place in the runbook %q", r.Alert, r.Annotations["summary"], r.Annotations["runbook"])
			}
		}
	}
	if n == 0 {
		t.Error("no rules")
	}
}

// What the page of metrics calls worth an alert has one.
func TestWhatWantsAnAlertHasOne(t *testing.T) {
	t.Parallel()
	alerts := read(t, "pilot.rules.yml")
	rows := wanted.FindAllStringSubmatch(read(t, "../../docs/reference/metrics.md"), -1)
	for _, row := range rows {
		if !regexp.MustCompile(`(?m)expr: .*\b` + row[1] + `(_count)?\b`).MatchString(alerts) {
			t.Errorf("no alert is about %s", row[1])
		}
	}
	if len(rows) < 5 {
		t.Errorf("only %d figures want an alert", len(rows))
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
