package crash

import (
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// endMargin is how long after its deadline a message may wait for its end: a dispatcher may be down, its lease not run out.
const endMargin = presumedAfter + 10*time.Second

// judgeEnds: every 202 is in the log (P1), and everything in the log ends in time (P3). A message has ended when it is final or
// the log says that it left; one that is QUEUED, SENDING or UNCONFIRMED waits, and all deadlines have passed.
func (d *deployment) judgeEnds(v *verdict, states map[string]message.State, faults int) {
	for id := range d.load.promised() {
		if _, ok := states[id]; !ok {
			v.say(&v.Lost, "%s was answered with a 202 and is not in the log", id)
		}
	}
	ended := d.chain.ends()
	open := 0
	for id, s := range states {
		late := ended[id].Sub(s.Queued.DeliverUntil)
		switch {
		case !hasEnded(s):
			v.say(&v.Unended, "%s is still %s", id, s.View().Stage)
		case late > endMargin:
			v.say(&v.Unended, "%s waited %s beyond its deadline before it was %s", id, late, s.View().Stage)
		default:
			v.latest = max(v.latest, late)
		}
		if wasOpen(s) {
			open++
		}
	}
	faults += len(d.front.refused())
	if most := faults * callsInAll(); open > most {
		v.say(&v.Illegal, "%d attempts became unknown by %d faults, with %d calls at once", open, faults, callsInAll())
	}
}

// wasOpen reports a message of which a call was under way, or may have been, when its process was lost.
func wasOpen(s message.State) bool {
	return slices.ContainsFunc(s.Record, func(f message.Fact) bool { return f.Kind == message.KindUnknown })
}

// judgeWord: what is told of a message agrees with how often it left. Only an end that says it is presumed may be of one that did.
func (v *verdict) judgeWord(text, id string, told message.View, left int) {
	gone := told.Stage != events.StageFailed && told.Stage != events.StageCanceled
	switch {
	case !waits(told.Stage) && gone && left == 0:
		v.say(&v.Illegal, "%q (%s) is %s and never left", text, id, told.Stage)
	case !gone && left > 0 && !told.Presumed:
		v.say(&v.Illegal, "%q (%s) left and is %s for certain", text, id, told.Stage)
	case !gone && left > 0:
		v.unproved++
	case left > 0 && told.Stage != events.StageRead: // the gateway tells again until it is heard
		v.say(&v.Unended, "%q (%s) left and is still %s", text, id, told.Stage)
	}
}

// judgeSnapshots: whatever a put was cut by, a dispatcher that starts finds no damage: the snapshot before is whole.
func (d *deployment) judgeSnapshots(v *verdict) {
	for _, p := range d.lives {
		v.begun += p.said.count(`"message":"begun at a snapshot"`)
		if n := p.said.count(`"message":"a damaged snapshot is passed over"`); n > 0 {
			v.say(&v.Illegal, "%s found %d damaged snapshots", p.name, n)
		}
	}
}
