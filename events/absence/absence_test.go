package absence_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/absence"
)

var begin = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// count is a usable observation at an age of the attempt.
func count(age time.Duration) absence.Observation {
	at := begin.Add(age)
	return absence.Observation{From: at, To: at.Add(time.Second), Complete: true, Saves: true, Socket: absence.SocketOpen}
}

func with(o absence.Observation, change func(*absence.Observation)) absence.Observation {
	change(&o)
	return o
}

// Each condition of DECISIONS, alone, keeps an attempt from being absent.
func TestAbsentNeedsEveryCondition(t *testing.T) {
	t.Parallel()
	r := absence.DefaultRules()
	first, second := count(180*time.Second), count(241*time.Second)
	for name, c := range map[string]struct {
		silent bool
		seen   []absence.Observation
		want   bool
	}{
		"all hold":                     {true, []absence.Observation{first, second}, true},
		"counts of rows of others":     {true, []absence.Observation{with(first, rows(2)), with(second, rows(2))}, true},
		"a look too early before them": {true, []absence.Observation{count(20 * time.Second), first, second}, true},
		"more than two":                {true, []absence.Observation{first, count(210 * time.Second), second}, true},
		"the call ended otherwise":     {false, []absence.Observation{first, second}, false},
		"one count":                    {true, []absence.Observation{second}, false},
		"the first too early":          {true, []absence.Observation{count(179 * time.Second), count(239*time.Second + 999*time.Millisecond)}, false},
		"too near each other":          {true, []absence.Observation{first, count(240 * time.Second)}, false}, // the first took a second
		"counts differ":                {true, []absence.Observation{first, with(second, rows(1))}, false},
		"another count between":        {true, []absence.Observation{first, with(count(210*time.Second), rows(1)), second}, false},
		"not known to save":            {true, []absence.Observation{first, with(second, func(o *absence.Observation) { o.Saves = false })}, false},
		"address or pages missing":     {true, []absence.Observation{with(first, func(o *absence.Observation) { o.Complete = false }), second}, false},
		"the same text of another":     {true, []absence.Observation{first, with(second, func(o *absence.Observation) { o.Others = 1 })}, false},
		"an unexplained row":           {true, []absence.Observation{first, with(second, func(o *absence.Observation) { o.Strangers = 1 })}, false},
		"no word of the socket":        {true, []absence.Observation{first, with(second, func(o *absence.Observation) { o.Socket = absence.SocketUnsaid })}, false},
		"the socket was shut once": {true, []absence.Observation{
			with(count(20*time.Second), func(o *absence.Observation) { o.Socket = absence.SocketShut }), first, second, count(400 * time.Second),
		}, false},
		"a row appears": {true, []absence.Observation{
			with(count(100*time.Second), func(o *absence.Observation) { o.Rows, o.Free = 1, 1 }), first, second, count(400 * time.Second),
		}, false},
		"out of order": {true, []absence.Observation{second, first}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counts := absence.New(begin, c.silent)
			for _, o := range c.seen {
				counts.Add(r, o)
			}
			body, got := counts.Absent(r)
			if got != c.want {
				t.Fatalf("absent %v, want %v", got, c.want)
			}
			if got && (body.FirstMS < 180_000 || body.LastMS-body.FirstMS < 60_000) {
				t.Errorf("recorded %+v", body)
			}
		})
	}
}

func rows(n int) func(*absence.Observation) {
	return func(o *absence.Observation) { o.Rows = n }
}

// For any observations in any order: absent only when the conditions hold, said by an oracle that looks at all of them; and a row
// that may be the attempt's, or a socket that was shut, at any time, keeps it from being absent for ever.
func TestAbsentOnlyIfAllConditionsHold(t *testing.T) {
	t.Parallel()
	reached := false
	rapid.Check(t, func(t *rapid.T) {
		r := absence.Rules{
			After: time.Duration(rapid.IntRange(1, 60).Draw(t, "after")) * time.Second,
			Apart: time.Duration(rapid.IntRange(1, 60).Draw(t, "apart")) * time.Second,
		}
		silent := rapid.IntRange(0, 9).Draw(t, "silent") < 9
		seldom := func(what string) bool { return rapid.IntRange(0, 39).Draw(t, what) == 39 }
		counts := absence.New(begin, silent)
		var all []absence.Observation
		at := begin
		for range rapid.IntRange(0, 8).Draw(t, "observations") {
			at = at.Add(time.Duration(rapid.IntRange(-5, 150).Draw(t, "later")) * time.Second)
			o := absence.Observation{From: at, To: at.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "took")) * time.Second)}
			o.Complete, o.Saves, o.Socket = !seldom("incomplete"), !seldom("unsaved"), absence.SocketOpen
			switch {
			case seldom("shut"):
				o.Socket = absence.SocketShut
			case seldom("unsaid"):
				o.Socket = absence.SocketUnsaid
			}
			if seldom("rows") {
				o.Rows = rapid.IntRange(0, 2).Draw(t, "n")
				o.Free = rapid.IntRange(0, o.Rows).Draw(t, "free")
			}
			if seldom("stranger") {
				o.Strangers = 1
			}
			if seldom("other") {
				o.Others = 1
			}
			counts.Add(r, o)
			all = append(all, o)
			body, ok := counts.Absent(r)
			if ok {
				reached = true
				mustHold(t, r, silent, all, body)
			}
			if next, hope := counts.Next(r); ok && (!hope || next.After(o.From)) {
				t.Fatalf("absent, and the next look is at %s (%v)", next, hope)
			}
		}
	})
	if !reached {
		t.Fatal("no draw was absent: the property says nothing")
	}
}

// mustHold is the oracle: the last observation and one before it are counts, far enough from the intent and each other, with nothing
// in between that contradicts them, and nothing ever that shows the attempt or a shut socket.
func mustHold(t *rapid.T, r absence.Rules, silent bool, all []absence.Observation, body events.DispatchAbsent) {
	if !silent {
		t.Fatal("absent although the gateway may have sent it and stored no row")
	}
	for _, o := range all {
		if o.Socket == absence.SocketShut || o.Free > 0 {
			t.Fatalf("absent in spite of %+v", o)
		}
	}
	last := all[len(all)-1]
	for i := len(all) - 1; i >= 0; i-- {
		o := all[i]
		if !o.Complete || !o.Saves || o.Socket != absence.SocketOpen || o.Others > 0 || o.Strangers > 0 || o.Rows != last.Rows ||
			o.From.Before(begin.Add(r.After)) {
			break
		}
		if !last.From.Before(o.To.Add(r.Apart)) && body.Count == o.Rows && body.FirstMS >= r.After.Milliseconds() {
			return
		}
	}
	t.Fatalf("absent without two counts: %+v", all)
}

func TestNextLookIsWhenACountCanTell(t *testing.T) {
	t.Parallel()
	r := absence.DefaultRules()
	c := absence.New(begin, true)
	want := func(age time.Duration, hope bool) {
		t.Helper()
		if at, ok := c.Next(r); ok != hope || hope && !at.Equal(begin.Add(age)) {
			t.Errorf("next at %s, %v; want %s, %v", at.Sub(begin), ok, age, hope)
		}
	}
	want(180*time.Second, true)
	c.Add(r, count(180*time.Second))
	want(241*time.Second, true)
	c.Add(r, with(count(241*time.Second), func(o *absence.Observation) { o.Socket = absence.SocketShut }))
	want(0, false)
}

// A 400 is never silence, whatever its words, and neither is a call of which nobody knows how it ended.
func TestSilentCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		u    events.DispatchUnknown
		want bool
	}{
		{events.DispatchUnknown{Cause: events.UnknownNoAnswer}, true},
		{events.DispatchUnknown{Cause: events.UnknownBroken}, true},
		{events.DispatchUnknown{Cause: "gateway_error", HTTPStatus: 502}, true},
		{events.DispatchUnknown{Cause: "connection_closed", HTTPStatus: 500}, true},
		{events.DispatchUnknown{Cause: "connection_closed", HTTPStatus: 400}, false},
		{events.DispatchUnknown{Cause: "not_saved", HTTPStatus: 400}, false},
		{events.DispatchUnknown{Cause: events.UnknownNoAnswer, HTTPStatus: 400}, false},
		{events.DispatchUnknown{Cause: "request_timeout", HTTPStatus: 408}, false},
		{events.DispatchUnknown{Cause: "redirected", HTTPStatus: 302}, false},
		{events.DispatchUnknown{Cause: "owner_gone"}, false},
		{events.DispatchUnknown{}, false},
	} {
		if got := absence.Silent(c.u); got != c.want {
			t.Errorf("%+v: %v", c.u, got)
		}
	}
}
