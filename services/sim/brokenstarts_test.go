package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
)

// rewrite makes another event of a stored one: of the same group, about the same.
func rewrite(r *recording, p, i int, wire, data string) {
	s := r.Log[p][i]
	cut := strings.LastIndexByte(s.Subject, '.')
	_, token, _ := strings.Cut(wire, ".")
	token, _, _ = strings.Cut(token, ".")
	s.Header = maps.Clone(s.Header)
	s.Header[events.HeaderType] = []string{wire}
	s.Subject = s.Subject[:cut+1] + token
	if data != "" {
		s.Data = []byte(data)
	}
	r.Log[p][i] = s
}

// findLast finds the last event of the log that is wanted.
func findLast(r *recording, wanted func(events.Stored, events.EventAddress) bool) (p, i int) {
	for p := range r.Log {
		for i := len(r.Log[p]) - 1; i >= 0; i-- {
			if addr, err := events.ParseEventSubject(r.Log[p][i].Subject); err == nil && wanted(r.Log[p][i], addr) {
				return p, i
			}
		}
	}
	panic("the short day has no such event")
}

// wordOf finds the last word of a type about the shared number at the calm gateway. It is resumed last before the quiet end.
func wordOf(r *recording, wire string) (p, i int) {
	return findLast(r, func(s events.Stored, a events.EventAddress) bool {
		return a.Instance == instanceID(sharedCalm) && typeOf(s) == wire
	})
}

func pausedForGood(r *recording) {
	p, i := wordOf(r, events.TypeInstanceResumed)
	rewrite(r, p, i, events.TypeInstancePaused, "")
}

func drainedForGood(r *recording) {
	p, i := wordOf(r, events.TypeInstanceResumed)
	rewrite(r, p, i, events.TypeInstanceDraining, "")
}

// pausedJustBefore pauses it in the moment before its last start.
func pausedJustBefore(r *recording) {
	p, i := wordOf(r, events.TypeInstanceResumed)
	_, j := wordOf(r, events.TypeDispatchStarted)
	rewrite(r, p, i, events.TypeInstancePaused, "")
	r.Log[p][i].Position.Sequence, r.Log[p][i].Time = r.Log[p][j].Position.Sequence-1, r.Log[p][j].Time
}

// denyCall makes the log say that what a gateway took was never called.
func denyCall(r *recording) {
	p, i := wordOf(r, events.TypeDispatchAccepted)
	rewrite(r, p, i, events.TypeDispatchDeferred, `{"cause":"never_called","dueAt":"2000-01-01T00:00:00Z"}`)
}

// acceptedByNobody lets the gateways have taken nothing of all that the log calls accepted, and nobody have said that it was sent.
func acceptedByNobody(r *recording) {
	for _, wire := range []string{events.TypeReceiptSent, events.TypeReceiptDelivered, events.TypeReceiptRead} {
		dropAll(r, wire)
	}
	r.Ledgers = nil
}

// expireQuietly ends a message of the quiet end as expired.
func expireQuietly(r *recording) {
	p, i := findLast(r, func(_ events.Stored, a events.EventAddress) bool {
		return a.Instance == instanceID(sharedCalm) && a.Group == events.GroupQueued
	})
	queued := r.Log[p][i]
	id, at := queued.Header[events.HeaderSubject][0], queued.Time.Add(quietWindow)
	end, err := events.Standard.Encode(events.Event{
		Address:  events.EventSubject(events.Partition(p), instanceID(sharedCalm), events.GroupDispatch, "closed"),
		Envelope: events.Envelope{ID: "end", Type: events.TypeDispatchClosed, Source: "pilot/sim", Time: at, Subject: id, QueuedSeq: queued.Position.Sequence},
		Body: &events.DispatchClosed{
			Reason: events.ClosedExpired, Code: events.FailExpired, Messages: []events.ClosedMessage{{ID: id, QueuedSeq: queued.Position.Sequence}},
		},
	})
	if err != nil {
		panic(err)
	}
	r.Log[p] = append(r.Log[p], events.Stored{
		Wire: end, Time: at, Position: events.Position{Partition: events.Partition(p), Sequence: uint64(len(r.Log[p]) + 1)},
	})
}

// expireBehindAnother lets messages expire half a minute late, while a call of another one of their instance is under way.
func expireBehindAnother(r *recording) {
	const late = 30 * time.Second
	expired := func(s events.Stored) bool {
		return typeOf(s) == events.TypeDispatchClosed && strings.Contains(string(s.Data), `"`+events.ClosedExpired+`"`) &&
			!slices.ContainsFunc(r.Away, func(w span) bool { return w.From.Before(s.Time.Add(late)) && w.To.After(s.Time.Add(-late)) })
	}
	for p := range r.Log {
		for i, s := range r.Log[p] {
			addr, err := events.ParseEventSubject(s.Subject)
			if err != nil || !expired(s) {
				continue
			}
			started := map[string]int{}
			for j, o := range r.Log[p] {
				of, err := events.ParseEventSubject(o.Subject)
				if err != nil || of.Instance != addr.Instance {
					continue
				}
				switch typeOf(o) {
				case events.TypeDispatchStarted:
					started[o.Header[events.HeaderSubject][0]] = j
				case events.TypeDispatchAccepted: // what expired has none
					r.Log[p][started[o.Header[events.HeaderSubject][0]]].Time = s.Time.Add(-late)
					r.Log[p][j].Time, r.Log[p][i].Time = s.Time.Add(late), s.Time.Add(late)
					return
				}
			}
		}
	}
	panic("in the short day nothing expired of an instance that sent")
}
