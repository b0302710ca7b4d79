package sim

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
	"pilotstatus.dev/infra/evolutionsim"
)

// The seed that every test run goes through.
const (
	shortSeed     = 7
	shortHours    = 1
	shortMessages = 200
)

// shortDay runs the short seed once for all tests.
var shortDay = sync.OnceValues(func() (recording, error) {
	dir, err := os.MkdirTemp("", "sim-")
	if err != nil {
		return recording{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()                                 // nothing of worth is left
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // it takes one where nobody else does anything
	defer cancel()
	return bubble(ctx, dir, shortSeed, shortHours, shortMessages)
})

func short(t *testing.T) *history {
	t.Helper()
	if testing.Short() {
		t.Skip("a day takes a while")
	}
	rec, err := shortDay()
	if err != nil {
		t.Fatal(err)
	}
	// Tests break what they get.
	rec.Calls, rec.Hooks, rec.Heard = slices.Clone(rec.Calls), slices.Clone(rec.Hooks), slices.Clone(rec.Heard)
	rec.Tries, rec.Clocks, rec.Cancels = slices.Clone(rec.Tries), maps.Clone(rec.Clocks), slices.Clone(rec.Cancels)
	rec.Settings, rec.Accepted = slices.Clone(rec.Settings), slices.Clone(rec.Accepted)
	rec.Asked = slices.Clone(rec.Asked)
	rec.Ledgers, rec.Log = slices.Clone(rec.Ledgers), slices.Clone(rec.Log)
	for i := range rec.Ledgers {
		rec.Ledgers[i].Entries = slices.Clone(rec.Ledgers[i].Entries)
	}
	for i := range rec.Log {
		rec.Log[i] = slices.Clone(rec.Log[i])
	}
	h, err := readHistory(rec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestShortDay(t *testing.T) {
	t.Parallel()
	h := short(t)
	for _, v := range append(check(h), project(t, h)...) {
		t.Errorf("%s\n%s", v, h.story(v.MessageID))
	}
	t.Log(h.summary(0, 0))
}

// Each invariant must notice what breaks it.
func TestChecksNoticeWhatIsBroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want string // the invariant, and where another check of it may notice as well, a piece of what is to be said
		with func(*recording)
	}{
		"a message vanishes":          {"I1", func(r *recording) { dropLast(r, events.TypeMessageQueued) }},
		"an end is missing":           {"I1", func(r *recording) { dropLast(r, events.TypeDispatchClosed) }},
		"an attempt calls twice":      {"I2", func(r *recording) { r.Calls = append(r.Calls, r.Calls[0]) }},
		"a message leaves twice":      {"I2", leaveTwice},
		"absent too early":            {"I2", func(r *recording) { rewriteAbsence(r, `"firstMs":`, `"firstMs":-`) }},
		"absent, and it had a row":    {"I2", absentThoughLeft},
		"again without an absence":    {"I2", func(r *recording) { dropFirst(r, events.TypeDispatchAbsent) }},
		"a call that was not made":    {"I2: made no call", denyCall},
		"an outcome is not recorded":  {"I2", func(r *recording) { dropAll(r, events.TypeDispatchDeferred) }},
		"a call without an intent":    {"I3", func(r *recording) { r.Calls[0].Group = 0 }},
		"a call of another message":   {"I3", func(r *recording) { r.Calls[0].Text = "sim-99999" }},
		"it leaves without a call":    {"I3", func(r *recording) { r.Calls = r.Calls[1:] }},
		"two sends at once":           {"I4", func(r *recording) { r.Ledgers[0].MaxInFlight = map[string]int64{"inst-0": 2} }},
		"two starts at once":          {"I4", func(r *recording) { dropFirst(r, events.TypeDispatchAccepted) }},
		"starts too fast":             {"pace", slowPace},
		"a class is passed over":      {"turns", neverTurn},
		"a lane out of order":         {"turns", readyBefore},
		"a class stands still":        {"turns: it expired in the quiet end", expireQuietly},
		"no turn is judged":           {"run: turns are judged", func(r *recording) { r.Quiet = r.Ended }},
		"a parked gateway is asked":   {"park", askOften},
		"it starts while paused":      {"park: was paused or parked", pausedForGood},
		"it calls while paused":       {"park: called at", pausedJustBefore},
		"it starts what came late":    {"park: is drained", drainedForGood},
		"a park is never ended":       {"park", neverOpened},
		"silence is told early":       {"silence", tellEarly},
		"silence is told twice":       {"silence", tellTwice},
		"nobody tells of silence":     {"silence", neverDelivered},
		"a call after the deadline":   {"I5", func(r *recording) { r.Calls[0].At = r.Calls[0].At.Add(24 * time.Hour) }},
		"it expires late":             {"I5", expireLate},
		"it expires behind another":   {"I5: too late", expireBehindAnother},
		"a start after the deadline":  {"I5", startLate},
		"a call by a wrong clock":     {"I5", func(r *recording) { r.Clocks[r.Calls[0].By] = -time.Minute }},
		"a receipt twice":             {"receipts", func(r *recording) { again(r, events.TypeReceiptRead) }},
		"a receipt is lost":           {"receipts", func(r *recording) { dropFirst(r, events.TypeReceiptDelivered) }},
		"a transition is not told":    {"hooks", func(r *recording) { r.Hooks = r.Hooks[1:] }},
		"an endpoint is off too soon": {"hooks", offTooSoon},
		"a delivery without cause":    {"hooks", func(r *recording) { dropFirst(r, events.TypeReceiptRead) }},
		"a delivery never reaches":    {"hooks", func(r *recording) { r.Tries = slices.Delete(r.Tries, 0, 1); r.HookLog = nil }},
		"a delivery is told falsely":  {"hooks", func(r *recording) { r.Tries[0].Body = `{"event":"message.read","data":{"id":"x"}}` }},
		"two tries differ":            {"hooks", func(r *recording) { r.Tries = append(r.Tries, hookTry{ID: r.Tries[0].ID, Signed: true}) }},
		"a try is not signed":         {"hooks", func(r *recording) { r.Tries[0].Signed = false }},
		"a try at a stranger's":       {"hooks", func(r *recording) { r.Tries[0].Host = "hook-other" }},
		"told, and not received":      {"hooks", func(r *recording) { r.Tries = nil }},
		"a delivery is left over":     {"hooks", func(r *recording) { r.Waiting = r.Hooks[:1] }},
		"a delivery nobody appended":  {"hooks", func(r *recording) { r.Tries[0].ID = "x" }},
		"sent, and nothing left":      {"truth", func(r *recording) { r.Ledgers = nil }},
		"accepted by nobody":          {"truth: as accepted", acceptedByNobody},
		"canceled, and it left":       {"cancel", cancelWhatLeft},
		"said as canceled, and not":   {"cancel", dropCancel},
		"canceled unasked":            {"cancel", func(r *recording) { r.Cancels = nil }},
		"said as sent, and was not":   {"cancel", func(r *recording) { answerOtherwise(r, cancel.Canceled, cancel.AlreadySent) }},
		"said as ended, and was not":  {"cancel", func(r *recording) { answerOtherwise(r, cancel.AlreadySent, cancel.AlreadyFinal) }},
		"an operator is wrong":        {"run", disproveWhatLeft},
		"the run has an error":        {"run", func(r *recording) { r.Errors = []string{"x"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := short(t).rec
			c.with(&rec)
			h, err := readHistory(rec)
			if err != nil {
				t.Fatal(err)
			}
			found := check(h)
			invariant, says, _ := strings.Cut(c.want, ": ")
			if !slices.ContainsFunc(found, func(v violation) bool { return v.Invariant == invariant && strings.Contains(v.What, says) }) {
				t.Errorf("no violation of %s among %v", c.want, found)
			}
		})
	}
}

func typeOf(s events.Stored) string { return s.Header[events.HeaderType][0] }

// dropLast and dropFirst take an event of a type out of the log.
func dropLast(r *recording, wireType string) {
	for p := range r.Log {
		for i := len(r.Log[p]) - 1; i >= 0; i-- {
			if typeOf(r.Log[p][i]) == wireType {
				r.Log[p] = slices.Delete(r.Log[p], i, i+1)
				return
			}
		}
	}
	panic("the short day has no " + wireType)
}

func dropFirst(r *recording, wireType string) {
	for p := range r.Log {
		if i := slices.IndexFunc(r.Log[p], func(s events.Stored) bool { return typeOf(s) == wireType }); i >= 0 {
			r.Log[p] = slices.Delete(r.Log[p], i, i+1)
			return
		}
	}
	panic("the short day has no " + wireType)
}

// again appends a copy of an event.
func again(r *recording, wireType string) {
	for p := range r.Log {
		if i := slices.IndexFunc(r.Log[p], func(s events.Stored) bool { return typeOf(s) == wireType }); i >= 0 {
			s := r.Log[p][i]
			s.Position.Sequence = uint64(len(r.Log[p]) + 1)
			r.Log[p] = append(r.Log[p], s)
			return
		}
	}
	panic("the short day has no " + wireType)
}

func leaveTwice(r *recording) {
	for g := range r.Ledgers {
		for _, e := range r.Ledgers[g].Entries {
			if strings.HasPrefix(marked.FindString(e.Text), "sim-") {
				i := slices.IndexFunc(r.Calls, func(c call) bool {
					return c.Instance == e.Instance && c.Text == marked.FindString(e.Text) && c.At.Equal(e.StartedAt)
				})
				r.Calls = append(r.Calls, r.Calls[i])
				r.Ledgers[g].Entries = append(r.Ledgers[g].Entries, e)
				return
			}
		}
	}
}

// rewriteAbsence changes what the first absence says.
func rewriteAbsence(r *recording, old, becomes string) {
	for p := range r.Log {
		for i, s := range r.Log[p] {
			if typeOf(s) == events.TypeDispatchAbsent {
				r.Log[p][i].Data = []byte(strings.Replace(string(s.Data), old, becomes, 1))
				return
			}
		}
	}
	panic("the short day has no absence")
}

// absentThoughLeft makes an attempt of a message that left, and whose next attempt left too, look absent: it is what the absent one
// called that left.
func absentThoughLeft(r *recording) {
	for p := range r.Log {
		for _, s := range r.Log[p] {
			if typeOf(s) != events.TypeDispatchAbsent {
				continue
			}
			id := s.Header[events.HeaderSubject][0]
			m := slices.IndexFunc(r.Accepted, func(a acceptedMessage) bool { return a.ID == id })
			i := slices.IndexFunc(r.Calls, func(c call) bool { return c.Text == r.Accepted[m].Text })
			if m < 0 || i < 0 || strings.HasPrefix(r.Accepted[m].Text, "same") {
				continue
			}
			r.Ledgers[0].Entries = append(r.Ledgers[0].Entries, evolutionsim.Entry{
				Instance: r.Calls[i].Instance, Text: r.Calls[i].Text, StartedAt: r.Calls[i].At, AcceptedAt: r.Calls[i].At, Stored: true,
			})
			return
		}
	}
	panic("the short day has no absence of a text of its own")
}

func startLate(r *recording) {
	for p := range r.Log {
		for i, s := range r.Log[p] {
			if typeOf(s) == events.TypeDispatchStarted {
				s.Header = maps.Clone(s.Header)
				s.Header[events.HeaderTime] = []string{s.Time.Add(24 * time.Hour).Format(time.RFC3339Nano)}
				r.Log[p][i] = s
				return
			}
		}
	}
}

func expireLate(r *recording) {
	for p := range r.Log {
		for i, s := range r.Log[p] {
			if typeOf(s) == events.TypeDispatchClosed && strings.Contains(string(s.Data), events.ClosedExpired) {
				r.Log[p][i].Time = s.Time.Add(100 * 24 * time.Hour)
				return
			}
		}
	}
}
