package notifier

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what is told to customers. One Metrics serves all components of a process.
type Metrics struct {
	facts    *prometheus.CounterVec
	attempts *prometheus.CounterVec
	seconds  prometheus.Histogram
	disabled *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them; reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		facts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_notifier_facts_total",
			Help: "Events of the log by what they mean for customers: told, silent, unknown, retried.",
		}, []string{"result"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_notifier_attempts_total",
			Help: "Tries of deliveries by result: succeeded, failed, exhausted, postponed.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pilot_notifier_attempt_seconds", Help: "Time that endpoints take to answer.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}),
		disabled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_notifier_endpoints_disabled_total",
			Help: "Endpoints of customers that were switched off, by reason: gone (410), failing (too many deliveries in a row).",
		}, []string{"reason"}),
	}
	if reg != nil {
		reg.MustRegister(m.facts, m.attempts, m.seconds, m.disabled)
	}
	return m
}
