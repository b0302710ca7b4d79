package app

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Every metric is in docs/reference/metrics.md.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	m := newMetrics()
	descs := make(chan *prometheus.Desc, 1000)
	m.registry.Describe(descs)
	close(descs)
	seen := 0
	for d := range descs {
		name := metricName.FindStringSubmatch(d.String())
		if name == nil || !strings.HasPrefix(name[1], "pilot_") {
			continue
		}
		seen++
		if !strings.Contains(string(doc), "`"+name[1]) {
			t.Errorf("%s is not documented", name[1])
		}
	}
	if seen < 14 {
		t.Errorf("only %d metrics", seen)
	}
}

var metricName = regexp.MustCompile(`fqName: "([^"]+)"`)
