package dispatcher

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/failpoint"
)

// outcome is what one attempt came to, before the log has it.
type outcome struct {
	verdict evolution.Verdict
	result  evolution.Result
	called  bool
	late    string        // where its write ended later than its last check allows: by how much; else empty
	connect time.Duration // what a new connection could take
	elapsed time.Duration
	dueAt   time.Time // drawn once
	alert   bool
	cause   string // of a refusal that is one by setting only
}

// call makes the gateway call of an intent. The HTTP limit counts from the intent.
func (a *actor) call(ctx context.Context, client *evolution.Client, inst events.Instance, s *intent, c content, number string) outcome {
	j := s.job
	defer a.p.d.courtesy.Left(j.id)
	limited, cancel := context.WithTimeout(ctx, a.p.d.set.CallLimit-s.age(a.p.d.set.Now()))
	defer cancel()
	sending := failpoint.Wrote(limited, "dispatcher.during_post")
	var asked atomic.Pointer[time.Time] // the last check
	check := func() error {
		now := a.p.d.set.Now()
		asked.Store(&now)
		return a.check(j, s)
	}
	// A connection that comes later would be refused by the last check: without one in time the gateway is out of reach. It goes on being
	// made, and is there for the next try.
	connect := max(a.p.d.set.Budget-s.age(a.p.d.set.Now()), time.Millisecond)
	at := time.Now()
	var res evolution.Result
	if callOf(c) == evolution.CallSendButtons {
		title, description := titled(c.Content)
		res = client.SendButtons(sending, evolution.Buttons{
			Instance: inst.Name, Number: number, Title: title, Description: description, Footer: c.Content.Footer,
			Buttons: buttons(c.Content), TraceParent: c.trace, Connect: connect, Check: check,
		})
	} else {
		res = client.SendText(sending, evolution.Text{
			Instance: inst.Name, Number: number, Text: c.Content.Text(), LinkPreview: c.LinkPreview && j.lane.Class.Category() != events.OTP, MessageID: s.chosen, TraceParent: c.trace, Connect: connect, Check: check,
		})
	}
	out := outcome{verdict: res.Verdict, result: res, called: res.Wrote, connect: connect, elapsed: time.Since(at), alert: res.Alert}
	if at := asked.Load(); at != nil && res.Wrote {
		out.late = lateWrite(s.age(*at), j.deliverUntil.Sub(*at), res.Pause, a.p.d.set.Budget)
	}
	if res.NumberRefused {
		a.secondForm(limited, client, inst, c.Digits, number, &out)
	}
	if res.ForeignJID { // what was resolved may no longer be so
		a.numbers.forget(c.Digits)
	}
	a.p.d.set.fail(&out)
	out.dueAt = a.dueAt(j, out)
	return out
}

// fail ends the message where the dispatcher is set to, instead of waiting for the sender or its gateway to be usable again.
func (s Settings) fail(out *outcome) {
	v := &out.verdict
	if v.Outcome != evolution.Deferred || v.FailCode == "" || !slices.Contains(s.FailOn, v.Code) {
		return
	}
	out.cause = v.Code
	v.Outcome, v.Scope, v.Code, v.Park = evolution.Refused, evolution.ScopeMessage, v.FailCode, false
}

// secondForm takes the gateway's word that a number does not exist only when the number check refuses both ninth-digit forms.
func (a *actor) secondForm(ctx context.Context, client *evolution.Client, inst events.Instance, digits, tried string, out *outcome) {
	a.numbers.forget(digits)
	again, verdict := a.number(ctx, client, inst, digits)
	switch {
	case verdict == numberRefused: // the refusal stands
	case verdict == numberFine && again.number == tried && again.jid != "":
		// The check says that this form exists and the send says it does not: it stays to be tried again.
		out.verdict = evolution.Verdict{Outcome: evolution.Deferred, Scope: evolution.ScopeMessage, Code: causeNumberDisputed}
	default:
		out.verdict = evolution.Verdict{Outcome: evolution.Deferred, Scope: evolution.ScopeMessage, Code: causeNumberForm}
	}
}

// Causes of a deferred attempt that are ours, beside those of the gateway's answers.
const (
	causeStopped        = "stopped_at_last_check"
	causeNeverCalled    = "start_not_confirmed"
	causeNumberForm     = "other_number_form"
	causeNumberDisputed = "number_check_disagrees"
)

// dueAt draws when the attempt after this one is due, should it be deferred.
func (a *actor) dueAt(j job, out outcome) time.Time {
	now := a.p.d.set.Now().UTC()
	switch {
	case out.result.Stopped != nil:
		return now.Add(notCalledDelay)
	case out.verdict.RetryAfter > 0:
		return now.Add(out.verdict.RetryAfter)
	}
	n := j.counted + 1
	if !out.called || out.verdict.Park || out.verdict.Code == evolution.CauseRateLimited { // it uses up no budget, so its own number drives the backoff
		n = j.attempt
	}
	return a.p.d.set.Rules.RetryAt(j.lane.Class.Category(), n, a.p.d.draw(), now, j.deliverUntil)
}

// notCalledDelay is the wait after a start that was stopped before its call.
const notCalledDelay = 250 * time.Millisecond
