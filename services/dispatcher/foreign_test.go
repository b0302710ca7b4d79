package dispatcher

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// Two numbers that the gateway's cache takes for one: the eight last digits are the same, and 551988887777 is the end of 5551988887777.
const (
	ours, ourJID        = "5551988887777", "555188887777@s.whatsapp.net"
	another, anotherJID = "5519988887777", "5519988887777@s.whatsapp.net"
)

// mixedRig has a gateway whose cache takes the one number for the other: to both was sent before.
func mixedRig(t *testing.T, set Settings) (*rig, *Dispatcher) {
	t.Helper()
	r := newRigWith(t, func(o *evolutionsim.Options) { o.NumberCache = evolutionsim.CacheMixed })
	d, _ := r.run(set)
	r.awaitStage(r.accept(order{text: "before", number: ours}), events.StageDispatched)
	r.awaitStage(r.accept(order{text: "for another", number: another}), events.StageDispatched)
	return r, d
}

// toStrangers lists what went to the other number beside its own messages.
func (r *rig) toStrangers() (texts []string) {
	for _, e := range r.sim.Ledger(evolutionsim.Filter{}).Entries {
		if e.JID == anotherJID && e.Text != "for another" {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// Cross-delivery: the check shows that a code would go to somebody else. It does not leave, whatever was found before; a person hears of it
// once; others leave meanwhile, also to the other number. When the gateway's cache is right again the code leaves, to the right one.
func TestCrossDeliveryIsSeenBeforeItHappens(t *testing.T) {
	t.Parallel()
	set := quick()
	set.ForeignWait = 50 * time.Millisecond
	r, d := mixedRig(t, set)
	before := r.sim.Stats().Requests
	code := r.accept(order{text: "your code", number: ours})
	eventually(t, "checks", func() bool { return r.sim.Stats().Requests >= before+4 }, func() string { return r.story(code) })
	r.awaitStage(r.accept(order{text: "for another", number: another, class: events.ClassMarketing}), events.StageDispatched)
	r.awaitStage(r.accept(order{text: "for a third"}), events.StageDispatched)
	if n := r.count(code, events.TypeDispatchStarted); n != 0 || r.ledger("your code") != 0 {
		t.Fatalf("begun %d times\n%s", n, r.story(code))
	}
	if n := r.count(code, events.TypeEvidenceAnomaly); n != 1 || testutil.ToFloat64(d.metrics.foreign.WithLabelValues("held")) != 1 {
		t.Errorf("%d anomalies\n%s", n, r.story(code))
	}
	off := evolutionsim.CacheOff
	if err := r.sim.ChangeGateway(evolutionsim.GatewayChange{NumberCache: &off}); err != nil {
		t.Fatal(err)
	}
	r.awaitStage(code, events.StageDispatched)
	if e := r.sim.Ledger(evolutionsim.Filter{Text: "your code"}).Entries; len(e) != 1 || e[0].JID != ourJID {
		t.Errorf("left as %+v", e)
	}
	if s := r.toStrangers(); len(s) != 0 {
		t.Errorf("went to somebody else: %v", s)
	}
	if n := r.count(code, events.TypeEvidenceAnomaly); n != 1 {
		t.Errorf("%d anomalies", n)
	}
}

// It ends at its deadline like anything that could not leave, refunded; its checks come at growing waits.
func TestCrossDeliveryEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	set := quick()
	set.ForeignWait = 200 * time.Millisecond
	r, _ := mixedRig(t, set)
	before := r.sim.Stats().Requests
	code := r.accept(order{text: "your code", number: ours, window: 4 * time.Second})
	v := r.awaitStage(code, events.StageFailed)
	if v.ErrorCode != events.FailExpired || v.Attempts != 0 || !v.Refunded || r.count(code, events.TypeEvidenceAnomaly) != 1 {
		t.Errorf("%+v\n%s", v, r.story(code))
	}
	// 0.1 to 0.2 s, 0.2 to 0.4 s and so on: six in 4 s at least wait that long, and one more a second before the end. A machine that
	// stands still asks less often.
	if n := r.sim.Stats().Requests - before; n < 2 || n > 8 {
		t.Errorf("asked %d times in 4 s", n)
	}
	if s := r.toStrangers(); len(s) != 0 {
		t.Errorf("went to somebody else: %v", s)
	}
}

// A check that gives no answer says nothing of whose the number would be: where it could be another's, the message waits for one that does.
func TestCrossDeliveryIsNotRiskedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	silence := evolutionsim.Fault{Kind: "answer", Call: "whatsappNumbers", Status: 502, Body: `<html>`, ContentType: "text/html"}
	for name, named := range map[string]bool{"before a check named another": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := quick()
			set.ForeignWait = 50 * time.Millisecond
			r, d := mixedRig(t, set)
			var code string
			if named {
				code = r.accept(order{text: "your code", number: ours})
				eventually(t, "held", func() bool { return testutil.ToFloat64(d.metrics.foreign.WithLabelValues("held")) == 1 }, nil)
				r.fault(silence)
			} else {
				r.fault(silence)
				code = r.accept(order{text: "your code", number: ours})
			}
			before := r.sim.Stats().Requests
			eventually(t, "checks", func() bool { return r.sim.Stats().Requests >= before+3 }, func() string { return r.story(code) })
			r.awaitStage(r.accept(order{text: "for a third"}), events.StageDispatched) // whose number cannot be taken for another's
			if n := r.count(code, events.TypeDispatchStarted); n != 0 {
				t.Errorf("begun %d times\n%s", n, r.story(code))
			}
			off := evolutionsim.CacheOff
			if err := r.sim.ChangeGateway(evolutionsim.GatewayChange{NumberCache: &off}); err != nil {
				t.Fatal(err)
			}
			r.healed()
			r.awaitStage(code, events.StageDispatched)
			if e := r.sim.Ledger(evolutionsim.Filter{Text: "your code"}).Entries; len(e) != 1 || e[0].JID != ourJID {
				t.Errorf("left as %+v", e)
			}
			want := 0
			if named {
				want = 1
			}
			if n := r.count(code, events.TypeEvidenceAnomaly); n != want {
				t.Errorf("%d anomalies, want %d", n, want)
			}
		})
	}
}
