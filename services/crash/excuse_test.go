package crash

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// Only a call that was under way when a process was killed, or a connection was refused, may come to nothing, a code whose call hung, and
// one that was refused while its process was stopped.
func TestWhatMayComeToNothing(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	const text, hung = "1 api.before_answer stop 3 as OTP", "1 dispatcher.before_absent stop 3 as OTP"
	for name, c := range map[string]struct {
		text   string
		class  events.Class
		cause  string // of the attempt that began at 10 s and was unknown at 20 s
		kill   int    // when, in seconds; 0 never
		cut    int
		stop   int
		refuse int
		excuse bool
	}{
		"nothing happened":           {text, events.ClassOTP, events.UnknownOwnerGone, 0, 0, 0, 0, false},
		"killed in the call":         {text, events.ClassOTP, events.UnknownOwnerGone, 15, 0, 0, 0, true},
		"killed before":              {text, events.ClassOTP, events.UnknownOwnerGone, 5, 0, 0, 0, false},
		"killed after":               {text, events.ClassOTP, events.UnknownOwnerGone, 25, 0, 0, 0, false},
		"refused in the call":        {text, events.ClassOTP, events.UnknownBroken, 0, 15, 0, 0, true},
		"refused as it began":        {text, events.ClassOTP, events.UnknownBroken, 0, 9, 0, 0, true},
		"refused, and taken":         {text, events.ClassOTP, events.UnknownNoAnswer, 0, 15, 0, 0, false},
		"refused before":             {text, events.ClassOTP, events.UnknownBroken, 0, 5, 0, 0, false},
		"a code that hung":           {hung, events.ClassOTPUrgent, events.UnknownNoAnswer, 0, 0, 0, 0, true},
		"another category that hung": {hung, events.ClassUtility, events.UnknownNoAnswer, 0, 0, 0, 0, false},
		"refused while stopped":      {text, events.ClassOTP, events.UnknownOwnerGone, 0, 0, 12, 10, true},
		"another category, refused":  {text, events.ClassUtility, events.UnknownOwnerGone, 0, 0, 12, 10, false},
		"stopped in the call":        {text, events.ClassOTP, events.UnknownOwnerGone, 0, 0, 12, 0, false},
		"refused, and not stopped":   {text, events.ClassOTP, events.UnknownNoAnswer, 0, 0, 0, 10, false},
		"stopped after a refusal":    {text, events.ClassOTP, events.UnknownOwnerGone, 0, 0, 12, 5, false},
		"a code, and its owner gone": {hung, events.ClassOTP, events.UnknownOwnerGone, 0, 0, 0, 0, false},
	} {
		d := &deployment{front: &front{}}
		if c.kill > 0 {
			d.kills = []span{{at(c.kill), at(c.kill).Add(time.Second)}}
		}
		if c.stop > 0 {
			d.stops = []span{{at(c.stop), at(c.stop).Add(time.Second)}}
		}
		if c.refuse > 0 {
			d.refusals = []span{{at(c.refuse), at(c.refuse).Add(time.Second)}}
		}
		if c.cut > 0 {
			d.front.cuts = []span{{at(c.cut), at(c.cut).Add(time.Second)}}
		}
		s := message.State{ID: "m", Queued: &message.Queued{Class: c.class}, Record: message.Record{
			{Seq: 1, Kind: message.KindStarted, Attempt: 1, At: at(10)}, {Seq: 2, Kind: message.KindUnknown, Attempt: 1, At: at(20)},
		}}
		if got := d.excused(c.text, s, map[try]string{{"m", 1}: c.cause}); got != c.excuse {
			t.Errorf("%s: excused %v", name, got)
		}
	}
}

// An operator hurries what waits for a retry that is due late, and leaves alone what is due soon or has left.
func TestWhatAnOperatorHurries(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	deferred := func(due time.Duration, more ...message.Fact) message.State {
		r := message.Record{
			{Seq: 2, Kind: message.KindStarted, Attempt: 1, At: now},
			{Seq: 3, Kind: message.KindDeferred, Attempt: 1, At: now, DueAt: now.Add(due), Called: true, Free: true},
		}
		for i, f := range more {
			f.Seq = uint64(4 + i)
			r = r.With(f)
		}
		return message.State{ID: "m", Queued: &message.Queued{At: now}, Record: r}
	}
	for name, c := range map[string]struct {
		s    message.State
		want bool
	}{
		"late":          {deferred(10 * time.Second), true},
		"soon":          {deferred(time.Second), false},
		"it ended":      {deferred(10*time.Second, message.Fact{Kind: message.KindClosed, Reason: events.ClosedCanceled}), false},
		"on its way":    {deferred(10*time.Second, message.Fact{Kind: message.KindStarted, Attempt: 2}), false},
		"never started": {message.State{ID: "m", Queued: &message.Queued{At: now}}, false},
	} {
		if got := waitsLong(c.s, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
