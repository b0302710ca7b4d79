package receipts

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what is taken in and what becomes of it. One Metrics serves all components of a process.
type Metrics struct {
	ingested   *prometheus.CounterVec
	observed   *prometheus.CounterVec
	unmatched  *prometheus.GaugeVec
	registered *prometheus.CounterVec
	silent     *prometheus.GaugeVec
	answered   *prometheus.GaugeVec
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
			Help: "Observations of gateways by result: bound, repeated, held, meaningless, foreign, connection, malformed, retried.",
		}, []string{"result"}),
		unmatched: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pilot_correlator_held_receipts",
			Help: "Key ids with receipts in memory that are not recorded: no message is known for them, or they are on their way.",
		}, []string{"partition"}),
		registered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_registrar_webhooks_total",
			Help: "Registrations of our webhook at gateways by result: done, failed.",
		}, []string{"result"}),
		silent: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pilot_correlator_silent_instances",
			Help: "Instances of which most messages that left a while ago have no receipt.",
		}, []string{"partition"}),
		answered: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pilot_correlator_answered_ratio",
			Help: "Share of messages with a receipt, of silent instances only.",
		}, []string{"instance"}),
	}
	if reg != nil {
		reg.MustRegister(m.ingested, m.observed, m.unmatched, m.registered, m.silent, m.answered)
	}
	return m
}
