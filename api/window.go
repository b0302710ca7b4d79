package api

import (
	"strings"
	"time"

	"pilotstatus.dev/events"
)

// layouts are the forms of ISO 8601 with a zone that customers' clients write; RFC 3339 first. Fractions of a second are
// read after any seconds.
var layouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700",
}

// parseTime reads a time to the millisecond, the precision that events carry.
func parseTime(s string) (time.Time, bool) {
	s = strings.ToUpper(s)
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Truncate(time.Millisecond), true
		}
	}
	return time.Time{}, false
}

// checkWindow reads deliverAt and deliverUntil as of now.
func (o *sendOrder) checkWindow(f *faults, now time.Time) {
	at, okAt := o.moment(f, "deliverAt", o.DeliverAt)
	until, okUntil := o.moment(f, "deliverUntil", o.DeliverUntil)
	from := now
	if okAt && at.After(now) {
		o.deliverAt, from = at, at
		if at.After(now.Add(events.MaxHorizon)) {
			f.add("deliverAt", ruleTooFar)
		}
	}
	if !okUntil {
		return
	}
	o.deliverUntil = until
	switch {
	case !until.After(now):
		o.late.add("deliverUntil", ruleNotFuture)
	case !until.After(from):
		f.add("deliverUntil", ruleNotAfter)
	case until.After(from.Add(events.MaxWindow)):
		f.add("deliverUntil", ruleWindow)
	}
}

func (o *sendOrder) moment(f *faults, field, given string) (time.Time, bool) {
	if given == "" {
		return time.Time{}, false
	}
	t, ok := parseTime(given)
	if !ok {
		f.add(field, ruleDateTime)
	}
	return t, ok
}

// until is the last moment of delivery: as given, else by category from deliverAt.
func (o *sendOrder) until(c events.Category, now time.Time) time.Time {
	switch {
	case !o.deliverUntil.IsZero():
		return o.deliverUntil
	case !o.deliverAt.IsZero():
		return o.deliverAt.Add(events.Window(c))
	default:
		return now.Add(events.Window(c))
	}
}

// stamp writes a time as every body has it: RFC 3339 in UTC with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// stampOrNull is stamp, null for no time.
func stampOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

// stampOrEmpty is stamp, empty for no time.
func stampOrEmpty(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return stamp(t)
}
