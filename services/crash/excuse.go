package crash

import (
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// try names an attempt of a message.
type try struct {
	id string
	n  int
}

// causesOf gives why attempts became unknown.
func causesOf(logs [][]events.Recorded) map[try]string {
	causes := map[try]string{}
	for _, rec := range slices.Concat(logs...) {
		if body, ok := rec.Body.(*events.DispatchUnknown); ok {
			causes[try{rec.Subject, rec.Attempt}] = body.Cause
		}
	}
	return causes
}

// excused reports that a message may have come to nothing: a process was killed while a call of it was under way, the gateway began to refuse
// connections then and broke it, or it is a code, which is not tried again, whose call hung, or whose process was stopped during the call
// while the gateway refused: the refusal was there, and the time of the call over, before the process could read it.
func (d *deployment) excused(text string, s message.State, causes map[try]string) bool {
	code := s.Queued.Class.Category() == events.OTP
	var started time.Time
	for _, f := range s.Record {
		switch f.Kind {
		case message.KindStarted:
			started = f.At
		case message.KindUnknown:
			cause := causes[try{s.ID, f.Attempt}]
			during := func(spans []span) bool {
				return slices.ContainsFunc(spans, func(x span) bool { return !started.After(x.to) && !f.At.Before(x.from) })
			}
			switch cut := during(d.front.refused()); {
			case during(d.kills), cut && (cause == events.UnknownBroken || during(d.stops)), code && during(d.stops) && during(d.refusals),
				code && cause == events.UnknownNoAnswer && strings.Contains(text, " dispatcher.before_absent "):
				return true
			}
		default:
		}
	}
	return false
}

// judgeParks: the gateway works, so nothing is parked.
func (d *deployment) judgeParks(v *verdict, logs [][]events.Recorded) {
	for _, rec := range slices.Concat(logs...) {
		if body, ok := rec.Body.(*events.InstanceChanged); ok && rec.Type == events.TypeInstanceParked {
			v.parks++
			if body.Scope == events.ParkGateway {
				v.wide++
			}
		}
	}
	for _, id := range d.chain.parks() {
		v.say(&v.Unended, "%s is parked, and its gateway works", id)
	}
}
