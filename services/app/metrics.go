package app

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pilotstatus.dev/services/notifier"
	"pilotstatus.dev/services/receipts"
)

// metrics is the registry of this process and what the roles count in it.
type metrics struct {
	registry *prometheus.Registry
	receipts *receipts.Metrics
	notifier *notifier.Metrics
}

func newMetrics() metrics {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return metrics{registry: reg, receipts: receipts.NewMetrics(reg), notifier: notifier.NewMetrics(reg)}
}

// handler serves the metrics in Prometheus' text format.
func (m metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
