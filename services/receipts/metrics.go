package receipts

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what is taken in and what becomes of it. One Metrics serves all components of a process.
type Metrics struct {
	ingested   *prometheus.CounterVec
	observed   *prometheus.CounterVec
	unmatched  *prometheus.GaugeVec
	registered *prometheus.CounterVec
}

// NewMetrics makes the counters and registers them; reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		ingested: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_ingest_webhooks_total",
			Help: "Webhooks of gateways by result: kept, duplicate, ignored, unreadable, oversize, forged, unknown, unavailable.",
		}, []string{"result"}),
		observed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_correlator_observations_total",
			Help: "Observations of gateways by result: bound, repeated, held, unmatched, meaningless, foreign, connection, malformed, retried.",
		}, []string{"result"}),
		unmatched: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pilot_correlator_held_receipts",
			Help: "Receipts in memory that no message is known for.",
		}, []string{"partition"}),
		registered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_registrar_webhooks_total",
			Help: "Registrations of our webhook at gateways by result: done, failed.",
		}, []string{"result"}),
	}
	if reg != nil {
		reg.MustRegister(m.ingested, m.observed, m.unmatched, m.registered)
	}
	return m
}
