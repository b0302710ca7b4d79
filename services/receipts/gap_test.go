package receipts

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// C1 17, 18: the gateway takes everything and an instance gets no receipt. It has a figure and a line in the log, until they come.
func TestC1SilentInstanceIsSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reg := prometheus.NewRegistry()
	s := quick
	s.Metrics, s.GapAfter, s.GapSample, s.Prune = NewMetrics(reg), time.Millisecond, 4, 20*time.Millisecond
	for i := range 4 {
		id := fmt.Sprintf("msg_%d", i)
		r.started(id, "")
		r.accepted(id, "K"+id)
	}
	r.receipt("Kmsg_0", "SERVER_ACK")
	r.correlate(r.log, s)
	figure := func() (silent, ratio []float64) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				switch f.GetName() {
				case "pilot_correlator_silent_instances":
					silent = append(silent, m.GetGauge().GetValue())
				case "pilot_correlator_answered_ratio":
					ratio = append(ratio, m.GetGauge().GetValue())
				}
			}
		}
		return silent, ratio
	}
	eventually(t, func() bool {
		silent, ratio := figure()
		return slices.Equal(silent, []float64{1}) && slices.Equal(ratio, []float64{0.25})
	}, func() any { return fmt.Sprint(figure()) })
	r.receipt("Kmsg_1", "READ") // half of them is enough
	eventually(t, func() bool {
		silent, ratio := figure()
		return slices.Equal(silent, []float64{0}) && len(ratio) == 0
	}, func() any { return fmt.Sprint(figure()) })
}

// What is counted are the messages that left in the window, each once, whatever else happened to them.
func TestRatesCountWhatLeftInTheWindow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		b := newBook(1000, 10)
		want := map[string]rate{}
		from, to := now.Add(-75*time.Minute), now.Add(-15*time.Minute)
		ago := 90 * time.Minute
		var seq uint64
		put := func(m int, at time.Time, typ, group, name string) {
			seq++
			var rec events.Recorded
			rec.Position.Sequence, rec.Type, rec.Time, rec.Stored = seq, typ, at, at
			rec.Subject, rec.Known = fmt.Sprintf("msg_%d", m), true
			rec.Address = events.EventSubject(0, []string{"a", "b"}[m%2], group, name)
			b.apply(rec, at)
		}
		for m := range rapid.IntRange(0, 30).Draw(t, "messages") {
			ago -= time.Duration(rapid.IntRange(0, 6).Draw(t, "minutes")) * time.Minute
			at := now.Add(-ago)
			put(m, at, events.TypeDispatchStarted, events.GroupDispatch, "started")
			if !rapid.Bool().Draw(t, "left") {
				continue
			}
			put(m, at, events.TypeDispatchAccepted, events.GroupDispatch, "accepted")
			inside := !at.Before(from) && at.Before(to)
			r := want[[]string{"a", "b"}[m%2]]
			r.instance = []string{"a", "b"}[m%2]
			if inside {
				r.left++
			}
			for range rapid.IntRange(0, 2).Draw(t, "receipts") {
				put(m, now, events.TypeReceiptSent, events.GroupReceipt, "sent")
				if inside {
					r.answer++
					inside = false
				}
			}
			if r.left > 0 {
				want[r.instance] = r
			}
		}
		got := b.rates(from, to)
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for i, r := range want {
			if got[i] != r {
				t.Fatalf("%+v, want %+v", got[i], r)
			}
		}
		for _, g := range (Settings{}).withDefaults().gaps(got) {
			if g.left < 10 || g.ratio() >= 0.5 {
				t.Fatalf("%+v is silent", g)
			}
		}
	})
}
