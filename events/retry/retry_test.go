package retry_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	begin = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	until = begin.Add(time.Hour)
)

const budget = 5 // attempts with a call

func fact(k message.Kind, n int) message.Fact {
	return message.Fact{Kind: k, Attempt: n, Called: true, At: begin}
}

func ended(reason string, presumed bool) message.Fact {
	return message.Fact{Kind: message.KindClosed, Reason: reason, Presumed: presumed, At: begin}
}

func record(facts ...message.Fact) (r message.Record) {
	for i, f := range facts {
		f.Seq = uint64(i + 2)
		r = r.With(f)
	}
	return r
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		started, accepted, refused   = message.KindStarted, message.KindAccepted, message.KindRefused
		deferred, unknown, disproved = message.KindDeferred, message.KindUnknown, message.KindDisproved
		proved, absent               = message.KindProved, message.KindAbsent
	)
	final := fact(disproved, 1)
	final.Code = events.FailGatewayRejected
	var spent []message.Fact
	for n := range budget {
		spent = append(spent, fact(started, n+1), fact(deferred, n+1))
	}
	for name, c := range map[string]struct {
		facts     []message.Fact
		doubt     bool
		late      bool
		plain     retry.Action // without force; "" is refused with code
		code      events.Code
		forced    retry.Action
		forceCode events.Code
	}{
		"waits for its turn":       {facts: nil, plain: retry.NextAttempt, forced: retry.NextAttempt},
		"sending":                  {facts: []message.Fact{fact(started, 1)}, code: retry.CodeSending, forceCode: retry.CodeSending},
		"deferred":                 {facts: []message.Fact{fact(started, 1), fact(deferred, 1)}, plain: retry.NextAttempt, forced: retry.NextAttempt},
		"its budget is spent":      {facts: spent, code: retry.CodeEnding, forceCode: retry.CodeEnding},
		"disproved":                {facts: []message.Fact{fact(started, 1), fact(unknown, 1), fact(disproved, 1)}, plain: retry.NextAttempt, forced: retry.NextAttempt},
		"unknown":                  {facts: []message.Fact{fact(started, 1), fact(unknown, 1)}, code: retry.CodeUnconfirmed, forced: retry.Disprove},
		"unknown, nothing found":   {facts: []message.Fact{fact(started, 1), fact(unknown, 1), fact(absent, 1)}, code: retry.CodeUnconfirmed, forced: retry.Disprove},
		"unknown, window over":     {facts: []message.Fact{fact(started, 1), fact(unknown, 1)}, late: true, code: retry.CodeEnding, forceCode: retry.CodeEnding},
		"window over":              {late: true, code: retry.CodeEnding, forceCode: retry.CodeEnding},
		"a final code is known":    {facts: []message.Fact{fact(started, 1), fact(unknown, 1), final}, code: retry.CodeEnding, forceCode: retry.CodeEnding},
		"in doubt":                 {doubt: true, code: retry.CodeUnconfirmed, forceCode: retry.CodeUnconfirmed},
		"accepted":                 {facts: []message.Fact{fact(started, 1), fact(accepted, 1)}, code: retry.CodeSent, forceCode: retry.CodeSent},
		"proved":                   {facts: []message.Fact{fact(started, 1), fact(unknown, 1), fact(proved, 1)}, code: retry.CodeSent, forceCode: retry.CodeSent},
		"delivered":                {facts: []message.Fact{fact(started, 1), fact(accepted, 1), fact(message.KindDelivered, 0)}, code: retry.CodeSent, forceCode: retry.CodeSent},
		"canceled":                 {facts: []message.Fact{ended(events.ClosedCanceled, false)}, plain: retry.Anew, forced: retry.Anew},
		"expired":                  {facts: []message.Fact{ended(events.ClosedExpired, false)}, late: true, plain: retry.Anew, forced: retry.Anew},
		"expired in doubt":         {facts: []message.Fact{ended(events.ClosedExpired, false)}, doubt: true, code: retry.CodeMayHave, forced: retry.Anew},
		"refused":                  {facts: []message.Fact{fact(started, 1), fact(refused, 1)}, plain: retry.Anew, forced: retry.Anew},
		"refused after an unknown": {facts: []message.Fact{fact(started, 1), fact(unknown, 1), fact(started, 2), fact(refused, 2)}, code: retry.CodeMayHave, forced: retry.Anew},
		"exhausted":                {facts: []message.Fact{fact(started, 1), fact(deferred, 1), ended(events.ClosedFailed, false)}, plain: retry.Anew, forced: retry.Anew},
		"presumed":                 {facts: []message.Fact{fact(started, 1), fact(unknown, 1), ended(events.ClosedTimeout, true)}, code: retry.CodeMayHave, forced: retry.Anew},
		"presumed, then found":     {facts: []message.Fact{fact(started, 1), fact(unknown, 1), ended(events.ClosedTimeout, true), fact(proved, 1)}, code: retry.CodeSent, forceCode: retry.CodeSent},
		"presumed, then delivered": {facts: []message.Fact{fact(started, 1), fact(unknown, 1), ended(events.ClosedTimeout, true), fact(message.KindDelivered, 0)}, code: retry.CodeSent, forceCode: retry.CodeSent},
		"error of the gateway":     {facts: []message.Fact{fact(started, 1), fact(accepted, 1), fact(message.KindFailed, 0)}, code: retry.CodeMayHave, forced: retry.Anew},
		"never confirmed":          {facts: []message.Fact{fact(started, 1), fact(accepted, 1), fact(message.KindNotConfirmed, 0)}, code: retry.CodeMayHave, forced: retry.Anew},
	} {
		f := retry.Facts{Record: record(c.facts...), InDoubt: c.doubt, Whole: true, Budget: budget, DeliverUntil: until}
		now := begin.Add(time.Minute)
		if c.late {
			now = until
		}
		for force, want := range map[bool]struct {
			action retry.Action
			code   events.Code
		}{false: {c.plain, c.code}, true: {c.forced, c.forceCode}} {
			d, err := retry.Judge(f, force, now)
			if d.Action != want.action || events.CodeOf(err) != want.code || d.Risk != (force && c.plain == "" && err == nil) {
				t.Errorf("%s, forced %v: %+v %v, want %s %s", name, force, d, err, want.action, want.code)
			}
			var e *events.Error
			if errors.As(err, &e) && e.Details[retry.Forceable] != (!force && c.forced != "") {
				t.Errorf("%s, forced %v: forceable %v", name, force, e.Details)
			}
		}
	}
	if _, err := retry.Judge(retry.Facts{DeliverUntil: until}, true, begin); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("what cannot be read: %v", err)
	}
}

// Whatever the log says: without force nothing is tried again that may have had an effect; forced, nothing that is known to have left
// and not to have failed since, and nothing beside a call that may be under way. A disproof is only ever of the newest attempt.
func TestNothingThatMayHaveHadAnEffectIsRetriedUnforced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var facts []message.Fact
		for range rapid.IntRange(0, 8).Draw(t, "facts") {
			f := fact(message.Kind(rapid.IntRange(int(message.KindStarted), int(message.KindRetryRequested)).Draw(t, "kind")), rapid.IntRange(1, 3).Draw(t, "attempt"))
			if f.Kind == message.KindClosed {
				f.Reason, f.Presumed = rapid.SampledFrom([]string{events.ClosedExpired, events.ClosedCanceled, events.ClosedTimeout}).Draw(t, "reason"), rapid.Bool().Draw(t, "presumed")
			}
			facts = append(facts, f)
		}
		r := record(facts...)
		s := r.Summarize()
		stage := (message.State{Record: r}).View().Stage
		force, doubt, budget := rapid.Bool().Draw(t, "force"), rapid.Bool().Draw(t, "in doubt"), rapid.IntRange(1, 4).Draw(t, "budget")
		d, err := retry.Judge(retry.Facts{Record: r, InDoubt: doubt, Whole: true, Budget: budget, DeliverUntil: until}, force, begin)
		if err != nil {
			if d != (retry.Decision{}) {
				t.Fatalf("refused, and %+v", d)
			}
			return
		}
		left := s.Proved || s.Accepted
		switch {
		case s.Open() > 0:
			t.Fatalf("%s beside a call", d.Action)
		case d.Risk && !force:
			t.Fatalf("%s at a risk that nobody took", d.Action)
		case d.Action == retry.Anew && stage != events.StageFailed && stage != events.StageCanceled,
			d.Action != retry.Anew && (s.End != nil || left || doubt):
			t.Fatalf("%s of a message that is %s", d.Action, stage)
		case d.Action == retry.Anew && !d.Risk && (left || doubt || s.Outstanding() > 0 || s.End == nil || s.End.Presumed):
			t.Fatalf("anew without a risk: %+v", s)
		case d.Action == retry.NextAttempt && s.Counted() >= budget:
			t.Fatalf("another attempt after %d of %d", s.Counted(), budget)
		case d.Action == retry.Disprove && (d.Attempt != len(s.Attempts) || s.Last().State != message.AttemptUnknown):
			t.Fatalf("disproof of attempt %d of %+v", d.Attempt, s)
		}
		for _, k := range []message.Kind{message.KindSent, message.KindDelivered, message.KindRead} {
			for _, f := range r {
				if f.Kind == k && stage != events.StageFailed && stage != events.StageCanceled {
					t.Fatalf("%s after %v", d.Action, f)
				}
			}
		}
	})
}
