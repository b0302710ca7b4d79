package dispatcher

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
)

// Metrics counts what dispatchers do. One Metrics serves a process.
type Metrics struct {
	attempts *prometheus.CounterVec
	ends     *prometheus.CounterVec
	waited   *prometheus.HistogramVec
	calls    prometheus.Histogram
	held     *prometheus.CounterVec
	faulty   prometheus.Gauge

	foreign    *prometheus.CounterVec
	suppressed prometheus.Counter
	absent     prometheus.Counter
	anomalies  *prometheus.CounterVec

	members prometheus.Gauge
	parts   *prometheus.GaugeVec
	working prometheus.Gauge

	stopped   *prometheus.GaugeVec
	gateways  prometheus.Gauge
	snapshots *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them; reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_dispatcher_attempts_total",
			Help: "Attempts by outcome: accepted, refused, deferred, unknown; and whether a call was made.",
		}, []string{"outcome", "called"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_dispatcher_ends_total",
			Help: "Messages ended without or after attempts by reason: expired, failed, timeout.",
		}, []string{"reason"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pilot_dispatcher_wait_seconds", Help: "From acceptance to the intent of the first attempt.",
			Buckets: []float64{.005, .01, .05, .1, .5, 1, 5, 30, 120, 600, 3600},
		}, []string{"class"}),
		calls: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pilot_dispatcher_call_seconds", Help: "Time that a gateway takes to answer a send.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_dispatcher_faults_total",
			Help: "Instances that were stopped for a fault in their log: broken_chain, unreadable_event.",
		}, []string{"fault"}),
		faulty: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pilot_dispatcher_instances_stopped", Help: "Instances of this process that are stopped now for a fault in their log.",
		}),
		absent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pilot_dispatcher_absent_total",
			Help: "Attempts without an answer of which look-ups found no trace, under all conditions: another may follow, by category.",
		}),
		anomalies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_dispatcher_anomalies_total",
			Help: "What a person should look at: proved_after_end, a message that was ended is at the gateway; late_write, a call was written later than its last check allows.",
		}, []string{"kind"}),
		members: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pilot_dispatcher_members", Help: "Dispatchers that live, as this process sees them; 0 while it sees nobody.",
		}),
		parts: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pilot_dispatcher_partitions",
			Help: "Partitions by what this process is to them: folding, it is one of the two that fold it; serving, it is one of those that work in it.",
		}, []string{"role"}),
		working: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pilot_dispatcher_instances", Help: "Instances that this process has work for just now.",
		}),
		gateways: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pilot_dispatcher_gateways_parked", Help: "Gateways that are unusable: every instance behind them waits.",
		}),
		suppressed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pilot_dispatcher_suppressed_total", Help: "Messages that were not sent because the last one to their recipient said the same.",
		}),
		foreign: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_dispatcher_foreign_numbers_total",
			Help: "Messages whose number a gateway takes for somebody else's: held, not sent; left, it went there.",
		}, []string{"message"}),
		stopped: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pilot_dispatcher_partition_stopped", Help: "1 while nothing is sent because the log cannot be followed or trusted.",
		}, []string{"partition"}),
		snapshots: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_dispatcher_snapshots_total", Help: "Snapshots of the fold by result: kept, failed.",
		}, []string{"result"}),
	}
	for _, message := range []string{"held", "left"} { // the first of a series is no increase: an alert would not see it
		m.foreign.WithLabelValues(message)
	}
	for _, kind := range []string{events.AnomalyProvedAfterEnd, events.AnomalyLateWrite} {
		m.anomalies.WithLabelValues(kind)
	}
	if reg != nil {
		reg.MustRegister(m.attempts, m.ends, m.waited, m.calls, m.held, m.faulty, m.foreign, m.suppressed, m.absent, m.anomalies, m.members, m.parts, m.working, m.gateways, m.stopped, m.snapshots)
	}
	return m
}

// roster shows where this process works.
func (m *Metrics) roster(v *view) {
	folding, serving := 0, 0
	for p := range v.folders {
		if slices.Contains(v.folders[p], v.self) {
			folding++
		}
		if slices.Contains(v.serving[p], v.self) {
			serving++
		}
	}
	m.members.Set(float64(v.members))
	m.parts.WithLabelValues("folding").Set(float64(folding))
	m.parts.WithLabelValues("serving").Set(float64(serving))
}

func (m *Metrics) attempt(j job, s *intent, out outcome) {
	called := "no"
	if out.called {
		called = "yes"
		m.calls.Observe(out.elapsed.Seconds())
	}
	m.attempts.WithLabelValues(string(out.verdict.Outcome), called).Inc()
	if j.attempt == 1 {
		m.waited.WithLabelValues(string(j.lane.Class)).Observe(max(s.begun.Sub(j.acceptedAt), time.Duration(0)).Seconds())
	}
}

func (m *Metrics) ended(reason string, messages int) {
	m.ends.WithLabelValues(reason).Add(float64(messages))
}

// strayed counts a message that went to somebody else's number. A LID may be the recipient's own.
func (m *Metrics) strayed(jid string) {
	if _, ok := recipient.JIDDigits(jid); ok {
		m.foreign.WithLabelValues("left").Inc()
	}
}
