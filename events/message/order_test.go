package message

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

// rung is a step of the order of the fold, and a fact that argues for it.
type rung struct {
	name  string
	stage events.Stage
	code  events.ErrorCode
	fact  func(seq uint64) events.Recorded
	end   bool // an end of the fenced group: of two, which the fence never lets in, the first stands
}

func fact1(f func(uint64, int) events.Recorded, n int) func(uint64) events.Recorded {
	return func(seq uint64) events.Recorded { return f(seq, n) }
}

func ofReceipt(name string) func(uint64) events.Recorded {
	return func(seq uint64) events.Recorded { return receipt(seq, name) }
}

func ofClosed(reason string, code events.ErrorCode) func(uint64) events.Recorded {
	return func(seq uint64) events.Recorded { return closed(seq, reason, code) }
}

// order is the order of the fold from the lowest to the highest (docs/adr/0005).
var order = []rung{
	{"sending 1", events.StageSending, "", fact1(started, 1), false},
	{"unconfirmed 1", events.StageUnconfirmed, "", fact1(unknown, 1), false},
	{"queued 2", events.StageQueued, "", func(seq uint64) events.Recorded { return deferred(seq, 1, true) }, false},
	{"sending 2", events.StageSending, "", fact1(started, 2), false},
	{"unconfirmed 2", events.StageUnconfirmed, "", fact1(unknown, 2), false},
	{"dispatched", events.StageDispatched, "", func(seq uint64) events.Recorded { return accepted(seq, 2, "") }, false},
	{"canceled", events.StageCanceled, "", ofClosed(events.ClosedCanceled, ""), true},
	{"failed, definite", events.StageFailed, events.FailExpired, ofClosed(events.ClosedExpired, events.FailExpired), true},
	{"failed, presumed", events.StageFailed, events.FailDeliveryTimeout, ofClosed(events.ClosedTimeout, events.FailDeliveryTimeout), true},
	{"sent", events.StageSent, "", ofReceipt("sent"), false},
	{"failed by the gateway", events.StageFailed, events.FailGatewayRejected, ofReceipt("failed"), false},
	{"not confirmed", events.StageFailed, events.FailNotConfirmed, notConfirmed, false},
	{"delivered", events.StageDelivered, "", ofReceipt("delivered"), false},
	{"read", events.StageRead, "", ofReceipt("read"), false},
}

func TestOrderOfTheFold(t *testing.T) {
	t.Parallel()
	for i := range order[1:] {
		low, high := order[i], order[i+1]
		for _, c := range []struct {
			name        string
			first, then rung
		}{{low.name + ", " + high.name, low, high}, {high.name + ", " + low.name, high, low}} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				a, b := c.first.fact(queuedAt+1), c.then.fact(queuedAt+2)
				want := high
				if low.end && high.end {
					want = c.first
				}
				for arrival, s := range map[string]State{"in order": fold(queuedEvent(queuedAt), a, b), "reversed": fold(b, a, queuedEvent(queuedAt))} {
					v := s.View()
					if v.Stage != want.stage || v.ErrorCode != want.code {
						t.Errorf("%s: %s %q, want %s %q", arrival, v.Stage, v.ErrorCode, want.stage, want.code)
					}
				}
			})
		}
	}
}

func TestCorrectedOnceIsNeverFailedAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(uint64) events.Recorded{
		"presumed": ofClosed(events.ClosedTimeout, events.FailDeliveryTimeout),
		"expired":  ofClosed(events.ClosedExpired, events.FailExpired),
		"canceled": ofClosed(events.ClosedCanceled, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := fold(queuedEvent(10), started(11, 1), unknown(12, 1), end(13), receipt(14, "sent"), receipt(15, "failed"), notConfirmed(16)).View()
			if v.Stage != events.StageSent || !v.Corrected || v.ErrorCode != "" || v.Presumed {
				t.Errorf("%+v", v)
			}
			if len(v.Transitions) != 2 || v.Transitions[1].Correction != 1 || v.Transitions[1].Seq != 14 {
				t.Errorf("%+v", v.Transitions)
			}
		})
	}
}

// The stage follows the attempts when a late answer is about an older one.
func TestStageOfSeveralAttempts(t *testing.T) {
	t.Parallel()
	begin := []events.Recorded{queuedEvent(10), started(11, 1), unknown(12, 1), absent(13, 1), started(14, 2)}
	for _, c := range []struct {
		name string
		then []events.Recorded
		want events.Stage
	}{
		{"second open", nil, events.StageSending},
		{"first disproved while the second is open", []events.Recorded{disproved(15, 1)}, events.StageSending},
		{"second deferred, first unknown", []events.Recorded{deferred(15, 2, true)}, events.StageUnconfirmed},
		{"second deferred, then first disproved", []events.Recorded{deferred(15, 2, true), disproved(16, 1)}, events.StageQueued},
		{"first disproved, then second deferred", []events.Recorded{disproved(15, 1), deferred(16, 2, true)}, events.StageQueued},
		{"both unknown", []events.Recorded{unknown(15, 2)}, events.StageUnconfirmed},
		{"both unknown, second disproved", []events.Recorded{unknown(15, 2), disproved(16, 2)}, events.StageUnconfirmed},
		{"second refused, first unknown", []events.Recorded{refused(15, 2)}, events.StageFailed},
		{"third open", []events.Recorded{deferred(15, 2, true), disproved(16, 1), started(17, 3)}, events.StageSending},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if v := fold(append(begin[:len(begin):len(begin)], c.then...)...).View(); v.Stage != c.want {
				t.Errorf("%s, want %s", v.Stage, c.want)
			}
		})
	}
}

func TestRefusedIsPresumedWhileAnotherAttemptIsUnknown(t *testing.T) {
	t.Parallel()
	v := fold(queuedEvent(10), started(11, 1), unknown(12, 1), absent(13, 1), started(14, 2), refused(15, 2)).View()
	if v.Stage != events.StageFailed || !v.Presumed || v.ErrorCode != events.FailGatewayRejected {
		t.Errorf("%+v", v)
	}
	v = fold(queuedEvent(10), started(11, 1), refused(12, 1)).View()
	if v.Stage != events.StageFailed || v.Presumed {
		t.Errorf("%+v", v)
	}
}

// Rule R10: the shortest counterexample found when it is taken out.
func TestR10RefusedAfterProvedIsNoEnd(t *testing.T) {
	t.Parallel()
	log := []events.Recorded{queuedEvent(10), started(11, 1), unknown(12, 1), absent(13, 1), started(14, 2), proved(15, 1), refused(16, 2)}
	s := fold(log...)
	if v := s.View(); v.Stage != events.StageDispatched || len(v.Transitions) != 0 || v.ErrorCode != "" {
		t.Errorf("%+v", v)
	}
	if sum := s.Record.Summarize(); sum.End != nil || !sum.Settled() || sum.Attempts[1].State != AttemptRefused {
		t.Errorf("%+v", sum)
	}
}

func TestProvedAfterAnEndChangesNoState(t *testing.T) {
	t.Parallel()
	v := fold(queuedEvent(10), started(11, 1), unknown(12, 1), closed(13, events.ClosedTimeout, events.FailDeliveryTimeout), proved(14, 1)).View()
	if v.Stage != events.StageFailed || !v.Presumed || len(v.Transitions) != 1 {
		t.Errorf("%+v", v)
	}
}

// A receipt may come while the call that brought it has not returned: the slot stays taken (promise P5).
func TestAProofLeavesTheStartOpen(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1} {
		s := fold(queuedEvent(10), started(11, 1), proved(12, n))
		sum := s.Record.Summarize()
		if sum.Open() != 1 || !sum.Settled() || s.View().Stage != events.StageDispatched {
			t.Errorf("attempt %d: %+v", n, sum)
		}
		after := s.Apply(unknown(13, 1)).Record.Summarize()
		if after.Open() != 0 {
			t.Errorf("attempt %d: %+v", n, after)
		}
		if n == 1 && (after.Outstanding() != 0 || after.Attempts[0].State != AttemptProved) {
			t.Errorf("a proved attempt is unknown again: %+v", after)
		}
		if got := s.Apply(accepted(13, 1, "G")).Record.Summarize(); got.Attempts[0].State != AttemptAccepted || got.GatewayID != "G" {
			t.Errorf("attempt %d: %+v", n, got)
		}
	}
}

func TestSummaryCountsAttempts(t *testing.T) {
	t.Parallel()
	parked := deferred(16, 3, true)
	parked.Body = &events.DispatchDeferred{Called: true, Park: "instance"}
	limited := deferred(18, 4, true)
	limited.Body = &events.DispatchDeferred{Called: true, Limited: true}
	sum := fold(queuedEvent(10), started(11, 1), deferred(12, 1, true), started(13, 2), deferred(14, 2, false),
		started(15, 3), parked, started(17, 4), limited, started(19, 5)).Record.Summarize()
	if sum.Counted() != 2 || !sum.Called() || len(sum.Attempts) != 5 || sum.Last().State != AttemptOpen || !sum.DueAt.IsZero() {
		t.Errorf("counted %d of %+v", sum.Counted(), sum.Attempts)
	}
	if none := (Summary{}); none.Called() || none.Counted() != 0 || none.Last() != (Attempt{}) || none.Open() != 0 {
		t.Error("nothing came of nothing")
	}
	if s := fold(started(11, 1), deferred(12, 1, false)).Record.Summarize(); s.Called() || !s.DueAt.Equal(deferred(12, 1, false).DueAt) {
		t.Errorf("%+v", s)
	}
	if s := fold(started(11, maxAttempts+1)).Record.Summarize(); len(s.Attempts) != 0 {
		t.Errorf("%d attempts", len(s.Attempts))
	}
	word := disproved(13, 1)
	word.Body = &events.DispatchDisproved{By: events.DisprovedOperator}
	if s := fold(started(11, 1), unknown(12, 1), word, started(14, 2), unknown(15, 2), disproved(16, 2)).Record.Summarize(); s.Counted() != 1 || !s.Called() {
		t.Errorf("an operator's word gives back one attempt, a late answer none: counted %d", s.Counted())
	}
	final := disproved(13, 1)
	final.Body = &events.DispatchDisproved{Code: events.FailNotOnWhatsApp}
	if s := fold(started(11, 1), unknown(12, 1), final).Record.Summarize(); s.Final != events.FailNotOnWhatsApp || s.Outstanding() != 0 {
		t.Errorf("%+v", s)
	}
}

func TestStateTakesTheIDOfTheFirstEvent(t *testing.T) {
	t.Parallel()
	var s State
	s = s.Apply(closedMany(9, events.ClosedExpired, events.FailExpired, other, self)) // about nobody yet
	if diff := cmp.Diff(State{}, s); diff != "" {
		t.Error(diff)
	}
	s = s.Apply(started(11, 1)).Apply(queuedEvent(10))
	if s.ID != self || s.Queued == nil || s.Queued.Instance != "inst-1" || s.Queued.Class != events.ClassUtility || len(s.Record) != 1 {
		t.Errorf("%+v", s)
	}
	later := queuedEvent(30) // accepted twice: the first stands
	if got := s.Apply(later); got.Queued.Position.Sequence != 10 {
		t.Errorf("%+v", got.Queued)
	}
	misplaced := queuedEvent(5)
	misplaced.Address = "elsewhere"
	if diff := cmp.Diff(s, s.Apply(misplaced)); diff != "" {
		t.Error(diff)
	}
	nobody := queuedEvent(5)
	nobody.Subject = ""
	if diff := cmp.Diff(State{}, State{}.Apply(nobody)); diff != "" {
		t.Error(diff)
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rec  events.Recorded
		want []events.ClosedMessage
	}{
		{queuedEvent(10), []events.ClosedMessage{{ID: self, QueuedSeq: 10}}},
		{started(11, 1), []events.ClosedMessage{{ID: self, QueuedSeq: queuedAt}}},
		{closedMany(12, "expired", "", "a", "b"), []events.ClosedMessage{{ID: "a", QueuedSeq: 10}, {ID: "b", QueuedSeq: 11}}},
		{events.Recorded{}, nil},
	} {
		if diff := cmp.Diff(c.want, Subjects(c.rec)); diff != "" {
			t.Errorf("%s: %s", c.rec.Type, diff)
		}
	}
}
