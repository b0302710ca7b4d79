package reconciler

import (
	"github.com/prometheus/client_golang/prometheus"

	"pilotstatus.dev/events/silence"
)

// What the reconciler does, as the label of its counter.
const (
	actEnded   = "ended"
	actUnknown = "unknown"
	actDropped = "dropped"
)

var acts = map[silence.Step]string{silence.Overdue: "ack_overdue", silence.Unconfirmed: "delivery_unconfirmed"}

// Metrics counts what is found and done. One Metrics serves one process.
type Metrics struct {
	acts    *prometheus.CounterVec
	asks    *prometheus.CounterVec
	overdue prometheus.Gauge
	leading prometheus.Gauge
	round   prometheus.Gauge
}

// NewMetrics makes the metrics and registers them; reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		acts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_reconciler_acts_total",
			Help: "Acts of the reconciler: ack_overdue, delivery_unconfirmed, ended, unknown; dropped where the picture had changed.",
		}, []string{"act"}),
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_reconciler_asks_total",
			Help: "Questions to gateways for receipts that did not come, by result: found, nothing, failed.",
		}, []string{"result"}),
		overdue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pilot_reconciler_overdue_messages", Help: "Messages that a gateway took and of which a receipt is overdue.",
		}),
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pilot_reconciler_leading", Help: "1 while this process holds the lease of reconciling.",
		}),
		round: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pilot_reconciler_last_round_timestamp_seconds", Help: "When the last round ended that could read views and log, in Unix seconds.",
		}),
	}
	for _, a := range []string{acts[silence.Overdue], acts[silence.Unconfirmed], actEnded, actUnknown, actDropped} {
		m.acts.WithLabelValues(a) // an alert on a first increase needs the zero before it
	}
	if reg != nil {
		reg.MustRegister(m.acts, m.asks, m.overdue, m.leading, m.round)
	}
	return m
}
