package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
)

// cancelWhatLeft answers as canceled what left.
func cancelWhatLeft(r *recording) {
	for _, l := range r.Ledgers {
		for _, e := range l.Entries {
			i := slices.IndexFunc(r.Accepted, func(a acceptedMessage) bool { return a.Text == marked.FindString(e.Text) })
			r.Cancels = append(r.Cancels, cancelAnswer{ID: r.Accepted[i].ID, Verdict: cancel.Canceled})
			return
		}
	}
}

// dropCancel takes a cancel out of the log.
func dropCancel(r *recording) {
	for p := range r.Log {
		i := slices.IndexFunc(r.Log[p], func(s events.Stored) bool {
			return typeOf(s) == events.TypeDispatchClosed && strings.Contains(string(s.Data), `"`+events.ClosedCanceled+`"`)
		})
		if i >= 0 {
			r.Log[p] = slices.Delete(r.Log[p], i, i+1)
			return
		}
	}
	panic("the short day has no cancel")
}

// answerOtherwise changes each answer to a cancel that was one thing into another.
func answerOtherwise(r *recording, was, becomes cancel.Verdict) {
	found := false
	for i, c := range r.Cancels {
		if c.Verdict == was {
			r.Cancels[i].Verdict, found = becomes, true
		}
	}
	if !found {
		panic("the short day has no answer " + string(was))
	}
}

// disproveWhatLeft makes an operator say that an accepted attempt had no effect.
func disproveWhatLeft(r *recording) {
	for p := range r.Log {
		for i, s := range r.Log[p] {
			if typeOf(s) != events.TypeDispatchAccepted {
				continue
			}
			s.Header = maps.Clone(s.Header)
			s.Header[events.HeaderType] = []string{events.TypeDispatchDisproved}
			s.Subject = strings.Replace(s.Subject, ".accepted", ".disproved", 1)
			s.Data = []byte(`{"by":"` + events.DisprovedOperator + `"}`)
			r.Log[p][i] = s
			return
		}
	}
}

// slowPace allows the shared number at the calm gateway less than it was given.
func slowPace(r *recording) {
	for i, s := range r.Settings {
		if s.Instance == instanceID(sharedCalm) {
			r.Settings[i].Pace.GapMin *= 2
		}
	}
}

// neverTurn takes the turns of a class in the quiet end out of the log.
func neverTurn(r *recording) {
	mine := map[string]bool{}
	for p := range r.Log {
		r.Log[p] = slices.DeleteFunc(r.Log[p], func(s events.Stored) bool {
			addr, err := events.ParseEventSubject(s.Subject)
			if err != nil || addr.Instance != instanceID(sharedCalm) || s.Time.Before(r.Quiet) {
				return false
			}
			id := s.Header[events.HeaderSubject][0]
			mine[id] = mine[id] || addr.Group == events.GroupQueued && addr.Lane.Class == events.ClassOTP
			return mine[id] && typeOf(s) == events.TypeDispatchStarted
		})
	}
}

// readyBefore makes what was accepted last in a busy lane of the quiet end look as if it had been there from its begin.
func readyBefore(r *recording) {
	at := r.Quiet.Add(5 * time.Second)
	for p := range r.Log {
		for i := len(r.Log[p]) - 1; i >= 0; i-- {
			s := r.Log[p][i]
			addr, err := events.ParseEventSubject(s.Subject)
			if err != nil || addr.Instance != instanceID(sharedCalm) || addr.Group != events.GroupQueued || addr.Lane.Class != events.ClassUtility {
				continue
			}
			m := slices.IndexFunc(r.Accepted, func(a acceptedMessage) bool { return a.ID == s.Header[events.HeaderSubject][0] })
			r.Log[p][i].Time, r.Accepted[m].ReadyAt = at, at
			return
		}
	}
}

// askOften asks each gateway a thousand times a minute.
func askOften(r *recording) {
	for g := range r.Asked {
		r.Asked[g] = map[int]int{}
		for m := range r.minute(r.Ended) {
			r.Asked[g][m] = 1000
		}
	}
}

// neverOpened takes every end of a park out of the log.
func neverOpened(r *recording) {
	for _, wire := range []string{events.TypeInstanceOpened, events.TypeInstanceResumed, events.TypeInstanceUnparked} {
		dropAll(r, wire)
	}
}

// dropAll takes every event of a type out of the log.
func dropAll(r *recording, wireType string) {
	for p := range r.Log {
		r.Log[p] = slices.DeleteFunc(r.Log[p], func(s events.Stored) bool { return typeOf(s) == wireType })
	}
}

// firstSilence finds a word about a receipt that did not come.
func firstSilence(r *recording) (p, i int) {
	for p := range r.Log {
		i := slices.IndexFunc(r.Log[p], func(s events.Stored) bool {
			return typeOf(s) == events.TypeEvidenceAckOverdue || typeOf(s) == events.TypeMessageDeliveryUnconfirmed
		})
		if i >= 0 {
			return p, i
		}
	}
	panic("in the short day nothing is silent")
}

func tellEarly(r *recording) {
	p, i := firstSilence(r)
	r.Log[p][i].Time = r.Log[p][i].Time.Add(-30 * time.Minute)
}

func tellTwice(r *recording) {
	p, i := firstSilence(r)
	s := r.Log[p][i]
	s.Position.Sequence = uint64(len(r.Log[p]) + 1)
	r.Log[p] = append(r.Log[p], s)
}

// neverDelivered takes out of the log that anything was delivered, and that it was not.
func neverDelivered(r *recording) {
	for _, wire := range []string{events.TypeReceiptDelivered, events.TypeReceiptRead, events.TypeMessageDeliveryUnconfirmed} {
		dropAll(r, wire)
	}
}

// offTooSoon writes a delivery down as missed by an endpoint that answered well.
func offTooSoon(r *recording) {
	made, err := events.Standard.Decode(r.Hooks[0])
	body, ok := made.Body.(*events.HookDelivery)
	if err != nil || !ok {
		panic(fmt.Sprint("a delivery does not decode: ", err))
	}
	missed, err := events.Standard.Encode(events.Event{
		Envelope: events.Envelope{
			ID: body.TryID(made.ID, 0) + "." + events.HookExhausted, Type: events.TypeHookAttempt, Source: "pilot/notifier", Time: made.Time,
			Subject: made.Subject, TenantID: made.TenantID,
		},
		Address: events.HookLogSubject(body.Endpoint, events.HookExhausted),
		Body:    &events.HookAttempt{Endpoint: body.Endpoint, Event: body.Event, MessageID: body.MessageID, Reason: "endpoint_off", Delivery: body},
	})
	if err != nil {
		panic(err)
	}
	stored := events.Stored{Wire: missed, Position: events.Position{Sequence: 1}, Time: r.Hooks[0].Time}
	r.Hooks, r.HookLog = r.Hooks[1:], append([]events.Stored{stored}, r.HookLog...)
}
