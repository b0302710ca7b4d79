package crash

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
)

// script writes a log of one instance: the fenced chain is whole unless a step breaks it.
type script struct {
	log   []events.Recorded
	group uint64
}

func (s *script) add(kind, id string, attempt int, change func(*events.Recorded)) *script {
	at := time.Date(2026, 11, 29, 12, 0, len(s.log), 0, time.UTC)
	rec := events.Recorded{Known: true, Stored: at, Position: events.Position{Sequence: uint64(len(s.log) + 1)}}
	rec.Type, rec.Subject, rec.Attempt, rec.Time, rec.QueuedSeq = kind, id, attempt, at, 1
	if kind == events.TypeMessageQueued {
		rec.Address = events.QueuedSubject(0, events.Lane{Instance: "i1", Class: events.ClassOf(events.Utility, false), Tenant: "t1"})
		rec.DeliverUntil = at.Add(time.Minute)
	} else {
		rec.Address = events.EventSubject(0, "i1", events.GroupDispatch, strings.Split(kind, ".")[1])
		rec.Prev, s.group = s.group, rec.Position.Sequence
	}
	if change != nil {
		change(&rec)
	}
	s.log = append(s.log, rec)
	return s
}

func (s *script) queued(ids ...string) *script {
	for _, id := range ids {
		s.add(events.TypeMessageQueued, id, 0, nil)
	}
	return s
}

func (s *script) step(kind, id string, attempt int) *script { return s.add(kind, id, attempt, nil) }

func TestLegalOrder(t *testing.T) {
	t.Parallel()
	const (
		started   = events.TypeDispatchStarted
		accepted  = events.TypeDispatchAccepted
		deferred  = events.TypeDispatchDeferred
		unknown   = events.TypeDispatchUnknown
		absent    = events.TypeDispatchAbsent
		proved    = events.TypeDispatchProved
		disproved = events.TypeDispatchDisproved
		closed    = events.TypeDispatchClosed
		restored  = events.TypeDispatchRestored
	)
	for name, c := range map[string]struct {
		log  *script
		want string // part of the one fault; empty for none
	}{
		"accepted":               {new(script).queued("a").step(started, "a", 1).step(accepted, "a", 1), ""},
		"deferred, then again":   {new(script).queued("a").step(started, "a", 1).step(deferred, "a", 1).step(started, "a", 2).step(accepted, "a", 2), ""},
		"unknown, proved":        {new(script).queued("a").step(started, "a", 1).step(unknown, "a", 1).step(proved, "a", 1), ""},
		"disproved, again":       {new(script).queued("a").step(started, "a", 1).step(unknown, "a", 1).step(disproved, "a", 1).step(started, "a", 2), ""},
		"proved before outcome":  {new(script).queued("a").step(started, "a", 1).step(proved, "a", 1).step(accepted, "a", 1), ""},
		"unknown, closed":        {new(script).queued("a").step(started, "a", 1).step(unknown, "a", 1).step(closed, "a", 0), ""},
		"accepted log":           {new(script).queued("a").step(restored, "", 0).step(started, "a", 1).step(restored, "", 0).step(accepted, "a", 1), ""},
		"sent again blindly":     {new(script).queued("a").step(started, "a", 1).step(unknown, "a", 1).step(started, "a", 2), "attempt 2 after"},
		"absent, again":          {new(script).queued("a").step(started, "a", 1).step(unknown, "a", 1).step(absent, "a", 1).step(started, "a", 2), ""},
		"absent, disproved":      {new(script).queued("a").step(started, "a", 1).step(unknown, "a", 1).step(absent, "a", 1).step(disproved, "a", 1), ""},
		"absent, proved, again":  {new(script).queued("a").step(started, "a", 1).step(unknown, "a", 1).step(absent, "a", 1).step(proved, "a", 1).step(started, "a", 2), "ended or left"},
		"absent while open":      {new(script).queued("a").step(started, "a", 1).step(absent, "a", 1), "attempt 1 of"},
		"two at once":            {new(script).queued("a", "b").step(started, "a", 1).step(started, "b", 1), "a start of a is open"},
		"after it left":          {new(script).queued("a").step(started, "a", 1).step(deferred, "a", 1).step(proved, "a", 1).step(started, "a", 2), "ended or left"},
		"outcome twice":          {new(script).queued("a").step(started, "a", 1).step(accepted, "a", 1).step(accepted, "a", 1), "attempt 1 of"},
		"closed while open":      {new(script).queued("a").step(started, "a", 1).step(closed, "a", 0), "an end after"},
		"closed twice":           {new(script).queued("a").step(closed, "a", 0).step(closed, "a", 0), "an end after"},
		"intent without message": {new(script).step(started, "a", 1), "nothing of this message"},
		"broken chain":           {new(script).queued("a").add(started, "a", 1, func(r *events.Recorded) { r.Prev = 9 }), "fenced event before it"},
		"too late":               {new(script).queued("a").add(started, "a", 1, func(r *events.Recorded) { r.Stored = r.Stored.Add(time.Hour) }), "deliverUntil"},
	} {
		got := illegal(c.log.log)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSeedsDraw(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for seed := range uint64(50) {
		a, b := newTrial(nil, seed, "api.before_answer", "kill", 1), newTrial(nil, seed, "api.before_answer", "kill", 1)
		if a.pass != b.pass || a.pass < 1 || a.pass > mostDefault {
			t.Errorf("seed %d draws %d and %d", seed, a.pass, b.pass)
		}
		seen[a.pass] = true
	}
	classes := map[events.Class]bool{}
	for n := range int64(60) {
		trial := newTrial(nil, 1, "api.before_answer", "kill", 1)
		text, class := trial.next(n)
		if again, same := trial.next(n); again != text || same != class || !strings.HasSuffix(text, string(class.Category())) {
			t.Errorf("message %d is %q of %s, then %q of %s", n, text, class, again, same)
		}
		classes[class] = true
	}
	if len(classes) != len(events.Classes()) {
		t.Errorf("60 messages have %d classes only", len(classes))
	}
	if len(seen) < mostDefault/2 {
		t.Errorf("50 seeds draw %d passes only", len(seen))
	}
}

// on moves what a script says to an instance that may make three calls at once, and gives each message a slot.
func on(instance string, slots map[string]uint8, s *script) []events.Recorded {
	out := slices.Clone(s.log)
	for i, rec := range out {
		addr, err := events.ParseEventSubject(rec.Address)
		if err != nil {
			panic(err)
		}
		if addr.Group == events.GroupQueued {
			out[i].Address = events.QueuedSubject(0, events.Lane{Instance: instance, Class: addr.Lane.Class, Tenant: addr.Lane.Tenant, Slot: slots[rec.Subject]})
		} else {
			out[i].Address = events.EventSubject(0, instance, addr.Group, addr.Name)
		}
	}
	return out
}

func TestCallsAtOnceByTheInstance(t *testing.T) {
	t.Parallel()
	const started = events.TypeDispatchStarted
	begun := func(ids ...string) *script {
		s := new(script).queued(ids...)
		for _, id := range ids {
			s.step(started, id, 1)
		}
		return s
	}
	apart := map[string]uint8{"a": 0, "b": 1, "c": 2, "d": 3}
	for name, c := range map[string]struct {
		log  []events.Recorded
		want string
	}{
		"three at once":       {on(instanceID(3), apart, begun("a", "b", "c")), ""},
		"four at once":        {on(instanceID(3), apart, begun("a", "b", "c", "d")), "as many starts"},
		"two in one slot":     {on(instanceID(3), map[string]uint8{"a": 1, "b": 1}, begun("a", "b")), "a start of a is open"},
		"two where one may":   {on(instanceID(0), apart, begun("a", "b")), "as many starts"},
		"one over, one after": {on(instanceID(0), apart, new(script).queued("a", "b").step(started, "a", 1).step(events.TypeDispatchAccepted, "a", 1).step(started, "b", 1)), ""},
	} {
		got := illegal(c.log)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// ofClass gives each message of a script a class.
func ofClass(class events.Class, s *script) []events.Recorded {
	out := slices.Clone(s.log)
	for i, rec := range out {
		if rec.Type == events.TypeMessageQueued {
			out[i].Address = events.QueuedSubject(0, events.Lane{Instance: "i1", Class: class, Tenant: "t1"})
		}
	}
	return out
}

func TestACodeIsNotSentAgainWhereAnAttemptIsAbsent(t *testing.T) {
	t.Parallel()
	const started = events.TypeDispatchStarted
	again := func(after string) *script {
		s := new(script).queued("a").step(started, "a", 1)
		if after == events.TypeDispatchAbsent {
			s.step(events.TypeDispatchUnknown, "a", 1)
		}
		return s.step(after, "a", 1).step(started, "a", 2)
	}
	for class, after := range map[events.Class]map[string]string{
		events.ClassOTP:       {events.TypeDispatchAbsent: "attempt 2 after", events.TypeDispatchDeferred: ""},
		events.ClassOTPUrgent: {events.TypeDispatchAbsent: "attempt 2 after"},
		events.ClassMarketing: {events.TypeDispatchAbsent: "", events.TypeDispatchDeferred: ""},
	} {
		for kind, want := range after {
			got := illegal(ofClass(class, again(kind)))
			if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
				t.Errorf("%s after %s: %q, want %q", class, kind, got, want)
			}
		}
	}
}

func TestAPauseAndAParkHoldCalls(t *testing.T) {
	t.Parallel()
	const (
		started  = events.TypeDispatchStarted
		accepted = events.TypeDispatchAccepted
	)
	lever := func(s *script, wire string) *script {
		return s.add(wire, "", 0, func(r *events.Recorded) {
			s.group = r.Prev // no part of the group
			r.Address, r.Prev = events.EventSubject(0, "i1", events.GroupInstance, strings.Split(wire, ".")[1]), 0
		})
	}
	paused := func() *script { return lever(new(script).queued("a"), events.TypeInstancePaused) }
	parked := func() *script { return lever(new(script).queued("a"), events.TypeInstanceParked) }
	called := func(r *events.Recorded) { r.Called = true }
	for name, c := range map[string]struct {
		log  *script
		want string
	}{
		"stopped at the last check": {paused().step(started, "a", 1).step(events.TypeDispatchDeferred, "a", 1), ""},
		"called":                    {paused().step(started, "a", 1).step(accepted, "a", 1), "was paused"},
		"called in vain":            {paused().step(started, "a", 1).add(events.TypeDispatchDeferred, "a", 1, called), "was paused"},
		"resumed before the call":   {lever(paused().step(started, "a", 1), events.TypeInstanceResumed).step(accepted, "a", 1), ""},
		"parked":                    {parked().step(started, "a", 1).step(accepted, "a", 1), "parked before"},
		"parked, another's call":    {lever(new(script).queued("a").step(started, "a", 1), events.TypeInstanceParked).step(accepted, "a", 1), ""},
		"open before the call":      {lever(parked().step(started, "a", 1), events.TypeInstanceOpened).step(accepted, "a", 1), ""},
		"unparked by an operator":   {lever(parked(), events.TypeInstanceUnparked).step(started, "a", 1).step(accepted, "a", 1), ""},
		"paused in a park":          {lever(lever(parked(), events.TypeInstancePaused), events.TypeInstanceOpened).step(started, "a", 1).step(accepted, "a", 1), "was paused"},
		"resumed from both":         {lever(lever(parked(), events.TypeInstancePaused), events.TypeInstanceResumed).step(started, "a", 1).step(accepted, "a", 1), ""},
		"paused during the call":    {lever(new(script).queued("a").step(started, "a", 1), events.TypeInstancePaused).step(accepted, "a", 1), ""},
	} {
		got := illegal(c.log.log)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
