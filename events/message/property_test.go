package message

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// forLogs checks a property of logs the protocol can write, and of logs it cannot.
func forLogs(t *testing.T, check func(t *rapid.T, log []events.Recorded)) {
	t.Helper()
	t.Run("legal", rapid.MakeCheck(func(t *rapid.T) { check(t, legalLog(t)) }))
	t.Run("any", rapid.MakeCheck(func(t *rapid.T) { check(t, anyLog(t)) }))
}

// Promise P4: any order, split and repetition of the same positioned events gives the same state.
func TestOrderOfArrivalMeansNothing(t *testing.T) {
	t.Parallel()
	forLogs(t, func(t *rapid.T, log []events.Recorded) {
		want := fold(log...)
		arrivals := slices.Concat(log, rapid.SliceOf(rapid.SampledFrom(log)).Draw(t, "repeats"))
		arrivals = rapid.Permutation(arrivals).Draw(t, "arrival")
		cut := rapid.IntRange(0, len(arrivals)).Draw(t, "cut")
		kept := fold(arrivals[:cut]...) // as a projection stores it between two batches
		before := State{ID: kept.ID, Queued: kept.Queued, Record: slices.Clone(kept.Record)}
		got := kept
		for _, r := range arrivals[cut:] {
			got = got.Apply(r)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("state differs (-log order +this order):\n%s", diff)
		}
		if diff := cmp.Diff(want.View(), got.View()); diff != "" {
			t.Fatalf("view differs (-log order +this order):\n%s", diff)
		}
		if diff := cmp.Diff(before, kept); diff != "" {
			t.Fatalf("a state was changed by taking more in:\n%s", diff)
		}
	})
}

func TestStrangersChangeNothing(t *testing.T) {
	t.Parallel()
	forLogs(t, func(t *rapid.T, log []events.Recorded) {
		want := fold(log...)
		got := want
		for i := range rapid.IntRange(1, 8).Draw(t, "strangers") {
			got = got.Apply(stranger(t, uint64(1000+i)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// next lists, for each public status, the ones it may become; a correction is marked.
var next = map[events.Status]map[events.Status]bool{
	events.StatusQueued: {
		events.StatusSent: false, events.StatusDelivered: false, events.StatusRead: false, events.StatusFailed: false, events.StatusCanceled: false,
	},
	events.StatusSent:      {events.StatusDelivered: false, events.StatusRead: false, events.StatusFailed: false},
	events.StatusDelivered: {events.StatusRead: false},
	events.StatusRead:      {},
	events.StatusCanceled:  {events.StatusFailed: false, events.StatusSent: true, events.StatusDelivered: true, events.StatusRead: true},
	events.StatusFailed:    {events.StatusSent: true, events.StatusDelivered: true, events.StatusRead: true},
}

func TestStatusNeverGoesBackwards(t *testing.T) {
	t.Parallel()
	forLogs(t, func(t *rapid.T, log []events.Recorded) {
		status, corrections := events.StatusQueued, 0
		var told []Transition
		for i := range log {
			v := fold(log[:i+1]...).View()
			if after := v.Status(); after != status {
				correction, ok := next[status][after]
				if !ok {
					t.Fatalf("%s became %s by %s", status, after, log[i].Type)
				}
				if correction {
					corrections++
				}
				if after == events.StatusFailed && corrections > 0 {
					t.Fatalf("corrected, then FAILED by %s", log[i].Type)
				}
				status = after
			}
			if len(v.Transitions) < len(told) || !cmp.Equal(told, slices.Clip(v.Transitions[:len(told)])) && len(told) > 0 {
				t.Fatalf("what was told before changed: %+v, then %+v", told, v.Transitions)
			}
			told = v.Transitions
			if v.Corrected != (corrections > 0) || corrections > 1 {
				t.Fatalf("%d corrections, Corrected %v", corrections, v.Corrected)
			}
		}
	})
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	forLogs(t, func(t *rapid.T, log []events.Recorded) {
		s := fold(log...)
		v := s.View()
		status, last, corrections := events.StatusQueued, uint64(0), 0
		seen := map[events.Status]bool{events.StatusQueued: true}
		for _, x := range v.Transitions {
			i := slices.IndexFunc(s.Record, func(f Fact) bool { return f.Seq == x.Seq })
			if i < 0 || x.Seq <= last || !s.Record[i].At.Equal(x.At) {
				t.Fatalf("transition %+v is at no fact of its own", x)
			}
			if seen[x.Status] {
				t.Fatalf("%s was reported twice: %+v", x.Status, v.Transitions)
			}
			if want := next[status][x.Status]; want != (x.Correction == 1) || x.Correction > 1 {
				t.Fatalf("from %s: %+v", status, x)
			}
			if (x.Status == events.StatusFailed) != (x.ErrorCode != "") {
				t.Fatalf("%+v", x)
			}
			seen[x.Status], last, status = true, x.Seq, x.Status
			corrections += x.Correction
		}
		if corrections > 1 || status != v.Status() {
			t.Fatalf("%d corrections; %s by transitions, %s by the view", corrections, status, v.Status())
		}
		if (v.Status() == events.StatusFailed) != (v.ErrorCode != "") || (v.Presumed && v.Status() != events.StatusFailed) {
			t.Fatalf("%s with code %q, presumed %v", v.Status(), v.ErrorCode, v.Presumed)
		}
	})
}

// Times come from facts: none is invented for a step that was skipped, and the first of repeats is kept.
func TestNoTimeIsInvented(t *testing.T) {
	t.Parallel()
	forLogs(t, func(t *rapid.T, log []events.Recorded) {
		s := fold(log...)
		v := s.View()
		first := func(k Kind) time.Time {
			for _, f := range s.Record {
				if f.Kind == k {
					return f.At
				}
			}
			return time.Time{}
		}
		for name, pair := range map[string][2]time.Time{
			"sent":      {v.SentAt, first(KindSent)},
			"delivered": {v.DeliveredAt, first(KindDelivered)},
			"read":      {v.ReadAt, first(KindRead)},
		} {
			if !pair[0].Equal(pair[1]) {
				t.Fatalf("%s at %v, the first fact says %v", name, pair[0], pair[1])
			}
		}
		if v.Erased != (!first(KindErased).IsZero()) {
			t.Fatalf("erased %v", v.Erased)
		}
	})
}

// What a customer is told agrees with what the log allows to be concluded.
func TestLegalLogsDoNotLie(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := legalLog(t)
		s := fold(log...)
		v, sum := s.View(), s.Record.Summarize()
		receipts := slices.ContainsFunc(s.Record, func(f Fact) bool { return f.Kind >= KindSent && f.Kind <= KindNotConfirmed })
		if receipts {
			return
		}
		want := events.StageQueued
		switch {
		case sum.End != nil && sum.End.Reason == events.ClosedCanceled:
			want = events.StageCanceled
		case sum.End != nil:
			want = events.StageFailed
		case sum.Proved || sum.Accepted:
			want = events.StageDispatched
		case sum.Open() > 0:
			want = events.StageSending
		case sum.Outstanding() > 0:
			want = events.StageUnconfirmed
		}
		if v.Stage != want {
			t.Fatalf("stage %s, the summary says %s: %+v", v.Stage, want, sum)
		}
		if v.Presumed != (sum.End != nil && sum.End.Presumed) {
			t.Fatalf("presumed %v, end %+v", v.Presumed, sum.End)
		}
		if v.Attempts != len(sum.Attempts) || v.GatewayID != sum.GatewayID || !v.DispatchedAt.Equal(sum.LeftAt) {
			t.Fatalf("view %+v, summary %+v", v, sum)
		}
	})
}

// P11: what is refunded cannot have had an effect: it ended for certain, and nothing of it was accepted, proved or is unknown.
func TestP11OnlyWhatHadNoEffectIsRefunded(t *testing.T) {
	t.Parallel()
	forLogs(t, func(t *rapid.T, log []events.Recorded) {
		s := fold(log...)
		view, sum := s.View(), s.Record.Summarize()
		if view.Refunded && (view.Presumed || sum.Outstanding() > 0 || sum.Accepted || sum.Proved || sum.Open() > 0 ||
			(view.Stage != events.StageFailed && view.Stage != events.StageCanceled)) {
			t.Fatalf("refunded: %+v of %+v", view, sum)
		}
	})
}

func TestP11Refunds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log  []events.Recorded
		want bool
	}{
		"never attempted":              {[]events.Recorded{queuedEvent(1), closed(2, events.ClosedExpired, events.FailExpired)}, true},
		"canceled":                     {[]events.Recorded{queuedEvent(1), closed(2, events.ClosedCanceled, "")}, true},
		"refused":                      {[]events.Recorded{queuedEvent(1), started(2, 1), refused(3, 1)}, true},
		"deferred, then expired":       {[]events.Recorded{queuedEvent(1), started(2, 1), deferred(3, 1, true), closed(4, events.ClosedExpired, events.FailExpired)}, true},
		"disproved, then expired":      {[]events.Recorded{queuedEvent(1), started(2, 1), unknown(3, 1), disproved(4, 1), closed(5, events.ClosedExpired, events.FailExpired)}, true},
		"waiting":                      {[]events.Recorded{queuedEvent(1)}, false},
		"accepted":                     {[]events.Recorded{queuedEvent(1), started(2, 1), accepted(3, 1, "g")}, false},
		"unknown, then refused":        {[]events.Recorded{queuedEvent(1), started(2, 1), unknown(3, 1), absent(4, 1), started(5, 2), refused(6, 2)}, false},
		"refused, then a receipt":      {[]events.Recorded{queuedEvent(1), started(2, 1), refused(3, 1), receipt(4, "delivered")}, false},
		"accepted, then gateway error": {[]events.Recorded{queuedEvent(1), started(2, 1), accepted(3, 1, "g"), receipt(4, "failed")}, false},
	} {
		if got := fold(c.log...).View().Refunded; got != c.want {
			t.Errorf("%s: refunded %v", name, got)
		}
	}
}
