package api

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/recipient"
)

// Limits of a page of a list.
const (
	defaultPage = 50
	maxPage     = 200

	maxName = 256 // bytes of an id or name in a query
)

// listQuery is what is asked for.
type listQuery struct {
	scope  Scope
	filter MessageFilter
	after  ListPlace
	limit  int
}

// listQuery reads the parameters and finds all their faults at once; a cursor is judged last, since it belongs to the filters.
func (a *API) listQuery(ctx context.Context, c Caller, in *listInput) (listQuery, error) {
	q := listQuery{scope: c.Scope()}
	var f faults
	number := in.read(&f, &q)
	if len(f) > 0 {
		return q, faultsError(f)
	}
	if in.Template != "" {
		q.filter.Template = a.templateID(c, in.Template)
	}
	if number != "" {
		hash, err := a.ports.Hasher.Hash(ctx, c.Key.TenantID, purposeRecipient, []byte(number))
		if err != nil {
			return q, outage(err, "Messages cannot be read right now; sending goes on.")
		}
		q.filter.RecipientHash = hash
	}
	var err error
	if in.Cursor != "" {
		q.after, err = a.openCursor(ctx, q, in.Cursor)
	}
	return q, err
}

// read takes over what needs nothing from outside, and gives the canonical form of the number.
func (in *listInput) read(f *faults, q *listQuery) (number string) {
	q.limit = pageLimit(f, in.Limit, maxPage)
	q.filter = MessageFilter{
		Status: oneOf(f, "status", in.Status, events.StatusQueued, events.StatusSent, events.StatusDelivered, events.StatusRead,
			events.StatusFailed, events.StatusCanceled),
		Stage: oneOf(f, "stage", in.Stage, events.StageQueued, events.StageSending, events.StageUnconfirmed, events.StageDispatched,
			events.StageSent, events.StageDelivered, events.StageRead, events.StageFailed, events.StageCanceled),
		Category: oneOf(f, "category", in.Category, events.OTP, events.Utility, events.Marketing),
		Instance: in.Instance, Label: in.Label,
		From: queryTime(f, "createdFrom", in.CreatedFrom), To: queryTime(f, "createdTo", in.CreatedTo),
	}
	for _, name := range []struct{ field, value string }{{"instance", in.Instance}, {"template", in.Template}, {"cursor", in.Cursor}} {
		if len(name.value) > maxName {
			f.add(name.field, ruleTooLong)
		}
	}
	if utf8.RuneCountInString(in.Label) > MaxLabel {
		f.add("label", ruleTooLong)
	}
	if in.Destination == "" {
		return ""
	}
	to, err := recipient.Parse(unescaped(in.Destination))
	if err != nil {
		f.add("destinationNumber", string(recipient.RuleOf(err)))
		return ""
	}
	return to.Canonical()
}

// templateID gives the id of a template that is named by id or name; what names none finds no message.
func (a *API) templateID(c Caller, name string) string {
	a.ports.Catalog.Read(func(cat *catalog.Catalog) {
		if t, ok := cat.Template(c.Key.ProjectID, name); ok && t.TenantID == c.Key.TenantID {
			name = t.ID
		}
	})
	return name
}

// pageLimit reads how many entries a page has at most.
func pageLimit(f *faults, given string, most int) int {
	if given == "" {
		return defaultPage
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 || n > most {
		f.add("limit", "1_to_"+strconv.Itoa(most))
	}
	return n
}

// oneOf reads one of a few words; none is no word.
func oneOf[T ~string](f *faults, field, given string, words ...T) T {
	if given == "" {
		return ""
	}
	for _, w := range words {
		if given == string(w) {
			return w
		}
	}
	f.add(field, ruleUnknownValue)
	return ""
}

// queryTime reads a time of a query.
func queryTime(f *faults, field, given string) time.Time {
	if given == "" {
		return time.Time{}
	}
	t, ok := parseTime(given)
	if !ok {
		t, ok = parseTime(plus(given, strings.LastIndexByte(given, ' ')))
	}
	if !ok {
		f.add(field, ruleDateTime)
	}
	return t
}

// unescaped is a number whose plus sign was not escaped: in a query it then reads as a space.
func unescaped(number string) string { return plus(number, strings.IndexByte(number, ' ')) }

// plus gives s with a plus sign at i, where there is a space at its place: before a number or a zone.
func plus(s string, i int) string {
	if i < 0 {
		return s
	}
	return s[:i] + "+" + s[i+1:]
}
