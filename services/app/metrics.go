package app

import (
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/services/dispatcher"
	"pilotstatus.dev/services/notifier"
	"pilotstatus.dev/services/receipts"
	"pilotstatus.dev/services/reconciler"
)

// metrics is the registry of this process and what the roles count in it.
type metrics struct {
	registry *prometheus.Registry
	receipts *receipts.Metrics
	notifier *notifier.Metrics
	dispatch *dispatcher.Metrics
	recon    *reconciler.Metrics
	lag      *prometheus.GaugeVec
	events   *prometheus.CounterVec
	syncs    prometheus.Histogram
	synced   prometheus.Counter
	corrects prometheus.Counter
	stuck    *prometheus.CounterVec
	held     prometheus.Gauge
}

func newMetrics() metrics {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := metrics{
		registry: reg, receipts: receipts.NewMetrics(reg), notifier: notifier.NewMetrics(reg), dispatch: dispatcher.NewMetrics(reg),
		recon: reconciler.NewMetrics(reg),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pilot_projector_lag_seconds", Help: "From when an event was stored until it could be read in the view, of the newest batch.",
		}, []string{"partition"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilot_projector_events_total", Help: "Events projected.",
		}, []string{"partition"}),
		syncs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pilot_log_sync_seconds", Help: "Time of one sync of the log's file system under group commit.",
			Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .05, .25, 1, 5},
		}),
		synced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pilot_log_synced_waits_total", Help: "Appends and reads that waited for a sync under group commit.",
		}),
	}
	m.corrects = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "pilot_quota_corrections_total", Help: "Places by which counters of plans' windows were corrected, up or down.",
	})
	m.stuck = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pilot_log_stuck_readers_total", Help: "Readers of a stream that were begun anew because the server brought nothing of what waited for them.",
	}, []string{"stream"})
	m.held = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pilot_log_held_partitions", Help: "Partitions to which nothing is appended, since their log is not the one that was seen before.",
	})
	reg.MustRegister(m.lag, m.events, m.syncs, m.synced, m.corrects, m.stuck, m.held)
	return m
}

// batch counts what the projector did.
func (m metrics) batch(b projector.Batch) {
	m.lag.WithLabelValues(b.Partition.String()).Set(b.Lag.Seconds())
	m.events.WithLabelValues(b.Partition.String()).Add(float64(b.Events))
}

// sync counts a sync of group commit and who waited for it.
func (m metrics) sync(elapsed time.Duration, waiters int) {
	m.syncs.Observe(elapsed.Seconds())
	m.synced.Add(float64(waiters))
}

// stuckReader counts a reader of a stream that was begun anew.
func (m metrics) stuckReader(stream string) { m.stuck.WithLabelValues(stream).Inc() }

// quota counts a correction of a counter.
func (m metrics) quota(n int64) { m.corrects.Add(math.Abs(float64(n))) }

// handler serves the metrics in Prometheus' text format.
func (m metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
