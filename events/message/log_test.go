package message

import (
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

const (
	self     = "msg_self"
	other    = "msg_other"
	queuedAt = 10 // sequence of the accepted message
)

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// rec is an event of the log at seq about a message; a positive attempt is in the envelope.
func rec(seq uint64, typ string, attempt int, body any) events.Recorded {
	_, _, known := events.Standard.Lookup(typ)
	r := events.Recorded{Position: events.Position{Partition: 1, Sequence: seq}, Known: known}
	r.Type, r.Subject, r.Attempt, r.Body, r.QueuedSeq = typ, self, attempt, body, queuedAt
	r.Time = epoch.Add(time.Duration(seq) * time.Second)
	return r
}

func queuedEvent(seq uint64) events.Recorded {
	r := rec(seq, events.TypeMessageQueued, 0, &events.MessageQueued{Category: events.Utility})
	r.Address = events.QueuedSubject(1, events.Lane{Instance: "inst-1", Class: events.ClassUtility, Tenant: "t-1", Slot: 0})
	r.QueuedSeq, r.DeliverUntil, r.TenantID = 0, epoch.Add(time.Hour), "t-1"
	return r
}

func accepted(seq uint64, n int, gateway string) events.Recorded {
	r := rec(seq, events.TypeDispatchAccepted, n, &events.DispatchAccepted{HTTPStatus: 201})
	r.GatewayID = gateway
	return r
}

func started(seq uint64, n int) events.Recorded {
	r := rec(seq, events.TypeDispatchStarted, n, &events.DispatchStarted{Call: "sendText"})
	r.Nonce = "n"
	return r
}

func deferred(seq uint64, n int, called bool) events.Recorded {
	r := rec(seq, events.TypeDispatchDeferred, n, &events.DispatchDeferred{Called: called})
	r.Called, r.DueAt = called, r.Time.Add(5*time.Second)
	return r
}

func refused(seq uint64, n int) events.Recorded {
	return rec(seq, events.TypeDispatchRefused, n, &events.DispatchRefused{Code: events.FailGatewayRejected})
}

func unknown(seq uint64, n int) events.Recorded {
	return rec(seq, events.TypeDispatchUnknown, n, &events.DispatchUnknown{})
}

func absent(seq uint64, n int) events.Recorded {
	return rec(seq, events.TypeDispatchAbsent, n, &events.DispatchAbsent{})
}

func proved(seq uint64, n int) events.Recorded {
	return rec(seq, events.TypeDispatchProved, n, &events.DispatchProved{By: events.ProofReceipt})
}

func disproved(seq uint64, n int) events.Recorded {
	return rec(seq, events.TypeDispatchDisproved, n, &events.DispatchDisproved{By: events.DisprovedLate})
}

func closed(seq uint64, reason string, code events.ErrorCode) events.Recorded {
	return rec(seq, events.TypeDispatchClosed, 0, &events.DispatchClosed{
		Reason: reason, Code: code, Presumed: reason == events.ClosedTimeout, Messages: []events.ClosedMessage{{ID: self, QueuedSeq: queuedAt}},
	})
}

// closedMany ends others in the same append, so ce-subject is empty.
func closedMany(seq uint64, reason string, code events.ErrorCode, ids ...string) events.Recorded {
	b := &events.DispatchClosed{Reason: reason, Code: code, Presumed: reason == events.ClosedTimeout}
	for i, id := range ids {
		b.Messages = append(b.Messages, events.ClosedMessage{ID: id, QueuedSeq: queuedAt + uint64(i)})
	}
	r := rec(seq, events.TypeDispatchClosed, 0, b)
	r.Subject, r.QueuedSeq = "", 0
	return r
}

func receipt(seq uint64, name string) events.Recorded {
	at := epoch.Add(time.Duration(seq)*time.Second - 500*time.Millisecond)
	b := &events.Receipt{GatewayStatus: name, At: at, ReceivedAt: at}
	if name == "failed" {
		b.Code = events.FailGatewayRejected
	}
	return rec(seq, "receipt."+name+".v1", 0, b)
}

func notConfirmed(seq uint64) events.Recorded {
	return rec(seq, events.TypeMessageDeliveryUnconfirmed, 0, &events.MessageDeliveryUnconfirmed{WindowDays: 7})
}

func ackOverdue(seq uint64) events.Recorded {
	return rec(seq, events.TypeEvidenceAckOverdue, 0, &events.EvidenceAckOverdue{AfterMS: 900_000})
}

// stranger draws an event that says nothing of the message: of another message, of an instance, of a type not known here.
func stranger(t *rapid.T, seq uint64) events.Recorded {
	switch rapid.IntRange(0, 6).Draw(t, "stranger") {
	case 0:
		r := receipt(seq, "read")
		r.Subject = other
		return r
	case 1:
		return closedMany(seq, events.ClosedExpired, events.FailExpired, other, "msg_third")
	case 2:
		return rec(seq, "dispatch.delegated.v1", 1, nil)
	case 3:
		return rec(seq, "receipt.read.v9", 0, nil)
	case 4:
		return rec(seq, events.TypeEvidenceAnomaly, 0, &events.EvidenceAnomaly{Kind: events.AnomalyLateWrite})
	case 5:
		return rec(seq, events.TypeEvidenceLate, 1, &events.EvidenceLate{Outcome: "accepted"})
	default:
		r := queuedEvent(seq)
		r.Subject = other
		return r
	}
}

// legalLog draws what the protocol can write about one message: dispatch by the rules, receipts early, late, again and in any
// order, late proofs, ends, and events that say nothing of it.
func legalLog(t *rapid.T) []events.Recorded {
	seq := uint64(queuedAt)
	log := []events.Recorded{queuedEvent(seq)}
	var s Summary
	add := func(r events.Recorded) {
		log = append(log, r)
		if f, ok := FactOf(r); ok {
			s.apply(f)
		}
	}
	for range rapid.IntRange(0, 25).Draw(t, "steps") {
		seq += uint64(rapid.IntRange(1, 3).Draw(t, "gap"))
		n, open := len(s.Attempts), s.Open()
		var may []func()
		can := func(f func() events.Recorded) { may = append(may, func() { add(f()) }) }
		last := s.Last()
		if open == 0 && !s.Settled() && (n == 0 || last.State == AttemptDeferred || last.State == AttemptDisproved || last.Absent) {
			can(func() events.Recorded { return started(seq, n+1) })
			can(func() events.Recorded { return started(seq, n+1) })
		}
		if open > 0 {
			can(func() events.Recorded {
				return accepted(seq, open, rapid.SampledFrom([]string{"", "G1"}).Draw(t, "gateway id"))
			})
			can(func() events.Recorded { return refused(seq, open) })
			can(func() events.Recorded { return deferred(seq, open, rapid.Bool().Draw(t, "called")) })
			can(func() events.Recorded { return unknown(seq, open) })
			can(func() events.Recorded { return unknown(seq, open) })
		}
		for i, a := range s.Attempts {
			if a.State == AttemptUnknown {
				can(func() events.Recorded { return proved(seq, i+1) })
				if s.End == nil && !s.Proved {
					can(func() events.Recorded { return disproved(seq, i+1) })
					can(func() events.Recorded { return absent(seq, i+1) })
				}
			}
		}
		if n > 0 && !s.Accepted {
			can(func() events.Recorded { return proved(seq, rapid.IntRange(0, n).Draw(t, "proved attempt")) })
		}
		if open == 0 && !s.Settled() {
			can(func() events.Recorded {
				reason, code := events.ClosedTimeout, events.FailDeliveryTimeout
				if s.Outstanding() == 0 {
					reason = rapid.SampledFrom([]string{events.ClosedExpired, events.ClosedCanceled, events.ClosedFailed}).Draw(t, "reason")
					code = map[string]events.ErrorCode{
						events.ClosedExpired: events.FailExpired, events.ClosedFailed: events.FailAttemptsExhausted,
					}[reason]
				}
				if rapid.Bool().Draw(t, "of many") {
					return closedMany(seq, reason, code, other, self)
				}
				return closed(seq, reason, code)
			})
		}
		if n > 0 {
			can(func() events.Recorded {
				return receipt(seq, rapid.SampledFrom([]string{"sent", "delivered", "read", "failed"}).Draw(t, "receipt"))
			})
		}
		if s.Accepted || s.Proved {
			can(func() events.Recorded { return notConfirmed(seq) })
			can(func() events.Recorded { return ackOverdue(seq) })
		}
		can(func() events.Recorded { return stranger(t, seq) })
		can(func() events.Recorded { return rec(seq, events.TypeMessageErased, 0, &events.MessageErased{}) })
		can(func() events.Recorded {
			return rec(seq, events.TypeMessageRetryRequested, 0, &events.MessageRetryRequested{})
		})
		rapid.SampledFrom(may).Draw(t, "step")()
	}
	return log
}

// anyLog draws a set of facts no rule has filtered.
func anyLog(t *rapid.T) []events.Recorded {
	log := []events.Recorded{queuedEvent(queuedAt)}
	seq := uint64(queuedAt)
	for range rapid.IntRange(0, 25).Draw(t, "facts") {
		seq += uint64(rapid.IntRange(1, 3).Draw(t, "gap"))
		n := rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3, 4, 65_535}).Draw(t, "attempt")
		fact := rapid.SampledFrom([]func() events.Recorded{
			func() events.Recorded { return started(seq, n) },
			func() events.Recorded { return accepted(seq, n, "G") },
			func() events.Recorded { return refused(seq, n) },
			func() events.Recorded { return deferred(seq, n, true) },
			func() events.Recorded { return unknown(seq, n) },
			func() events.Recorded { return absent(seq, n) },
			func() events.Recorded { return proved(seq, n) },
			func() events.Recorded { return disproved(seq, n) },
			func() events.Recorded { return closed(seq, events.ClosedCanceled, "") },
			func() events.Recorded { return closed(seq, events.ClosedTimeout, events.FailDeliveryTimeout) },
			func() events.Recorded { return closedMany(seq, events.ClosedExpired, events.FailExpired, self, other) },
			func() events.Recorded { return receipt(seq, "sent") },
			func() events.Recorded { return receipt(seq, "delivered") },
			func() events.Recorded { return receipt(seq, "read") },
			func() events.Recorded { return receipt(seq, "failed") },
			func() events.Recorded { return notConfirmed(seq) },
			func() events.Recorded { return ackOverdue(seq) },
			func() events.Recorded { return queuedEvent(seq) },
			func() events.Recorded { return stranger(t, seq) },
		}).Draw(t, "fact")
		log = append(log, fact())
	}
	return log
}

// fold takes the events in, in this order.
func fold(log ...events.Recorded) State {
	s := State{ID: self}
	for _, r := range log {
		s = s.Apply(r)
	}
	return s
}
