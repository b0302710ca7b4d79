package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/eventlog"
)

// skew is how far the clock that made an id may be ahead of the server that stored the message.
const skew = 10 * time.Minute

// Story is the life of a message, from the log alone.
type Story struct {
	MessageID string           `json:"messageId"`
	Partition events.Partition `json:"partition"`
	Instance  string           `json:"instance"`
	Tenant    string           `json:"tenant"`
	Head      uint64           `json:"head"` // sequence up to which the partition was read
	Events    []Step           `json:"events"`
	Stage     events.Stage     `json:"stage"`
	Status    events.Status    `json:"status"`
	Attempts  int              `json:"attempts"`
}

// Step is one event, and the fold after it.
type Step struct {
	Position events.Position `json:"position"`
	Stored   time.Time       `json:"stored"` // by the server's clock
	Event    string          `json:"event"`
	Attempt  int             `json:"attempt,omitempty"`
	Summary  string          `json:"summary,omitempty"` // never personal data
	Stage    events.Stage    `json:"stage"`
	Status   events.Status   `json:"status"`
	Attempts int             `json:"attempts"`
}

// Message tells the story of a message. It looks for the accepted message from the time in its id on, then reads what
// followed in its instance, headers only but for events about it. An id of another form has code VALIDATION_ERROR, one
// that the log does not hold NOT_FOUND.
func Message(ctx context.Context, log Log, id string) (Story, error) {
	part, milli, ok := events.ParseMessageID(id)
	if !ok {
		return Story{}, events.Errorf(events.CodeValidation, "a message id is msg_ and 32 hex digits of a UUIDv7")
	}
	s, err := tell(ctx, log, id, part, time.UnixMilli(milli).Add(-skew))
	if err != nil {
		return Story{}, fmt.Errorf("audit message: %w", err)
	}
	return s, nil
}

func tell(ctx context.Context, log Log, id string, part events.Partition, since time.Time) (Story, error) {
	stream := events.EventsStream(part)
	head, err := log.LastSequence(ctx, stream)
	if err != nil {
		return Story{}, err
	}
	about := func(from uint64, since time.Time, most int, filters ...string) ([]uint64, error) {
		var seqs []uint64
		err := read(ctx, log, eventlog.TailConfig{Stream: stream, Filters: filters, From: from, FromTime: since, HeadersOnly: true}, head,
			func(rec events.Recorded) bool {
				named := slices.ContainsFunc(message.Subjects(rec), func(m events.ClosedMessage) bool { return m.ID == id })
				if named || rec.Subject == id || doubts(rec, from) {
					seqs = append(seqs, rec.Position.Sequence)
				}
				return len(seqs) < most
			})
		return seqs, err
	}
	queued := events.GroupFilter(part, events.GroupQueued)
	first, err := about(0, since, 1, queued)
	if err == nil && len(first) == 0 { // a clock was off by more
		first, err = about(1, time.Time{}, 1, queued)
	}
	if err != nil {
		return Story{}, err
	}
	if len(first) == 0 {
		return Story{}, events.Errorf(events.CodeNotFound, "the log holds no message with this id")
	}
	accepted, err := log.GetLeader(ctx, stream, first[0])
	if err != nil {
		return Story{}, err
	}
	addr, err := events.ParseEventSubject(accepted.Address)
	if err != nil {
		return Story{}, err
	}
	var later []string
	for _, group := range []string{events.GroupDispatch, events.GroupMessage, events.GroupEvidence, events.GroupReceipt} {
		later = append(later, events.EventSubject(part, addr.Instance, group, "*"))
	}
	seqs, err := about(first[0], time.Time{}, math.MaxInt, later...)
	if err != nil {
		return Story{}, err
	}
	s := Story{MessageID: id, Partition: part, Instance: addr.Instance, Tenant: accepted.TenantID, Head: head}
	state := message.State{ID: id}
	for _, seq := range append(first, seqs...) {
		rec, err := log.GetLeader(ctx, stream, seq)
		if err != nil {
			return Story{}, err
		}
		if doubts(rec, first[0]) && state.Record.Summarize().Settled() {
			continue // it was over
		}
		state = state.Apply(rec)
		v := state.View()
		s.Events = append(s.Events, Step{
			Position: rec.Position, Stored: rec.Stored, Event: events.NameOf(rec.Type), Attempt: rec.Attempt, Summary: summary(rec),
			Stage: v.Stage, Status: v.Status(), Attempts: v.Attempts,
		})
		s.Stage, s.Status, s.Attempts = v.Stage, v.Status(), v.Attempts
	}
	return s, nil
}

// doubts reports whether rec says of every message accepted up to a place, and of the one accepted at seq, that it may have left in a
// lost part of the log, unless it was over.
func doubts(rec events.Recorded, seq uint64) bool {
	b, ok := rec.Body.(*events.DispatchRestored)
	return ok && b.UpTo >= seq
}

// errEnough ends a tail.
var errEnough = errors.New("enough")

// read hands events up to head on until take has enough.
func read(ctx context.Context, log Log, cfg eventlog.TailConfig, head uint64, take func(events.Recorded) bool) error {
	err := log.Tail(ctx, cfg, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			if rec.Position.Sequence > head || !take(rec) {
				return errEnough
			}
		}
		if b.CaughtUp {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// summary says what an event adds, in words that are no personal data.
func summary(rec events.Recorded) string {
	if !rec.Known {
		return "not known to this version"
	}
	var words []string
	add := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "false" {
			words = append(words, name+"="+text)
		}
	}
	say := func(name, text string) { // an operator's own words
		if text != "" {
			words = append(words, fmt.Sprintf("%s=%q", name, text))
		}
	}
	switch b := rec.Body.(type) {
	case *events.MessageQueued:
		add("category", b.Category)
		add("template", b.TemplateID)
		add("project", b.Project)
		add("deliverAt", moment(rec.DeliverAt))
		add("deliverUntil", moment(rec.DeliverUntil))
		add("retryOf", b.RetryOf)
		if b.Retry != nil {
			add("by", b.Retry.By)
			add("force", b.Retry.Force)
			say("reason", b.Retry.Reason)
		}
	case *events.DispatchStarted:
		add("call", b.Call)
	case *events.DispatchAccepted:
		add("http", b.HTTPStatus)
		add("ms", b.ElapsedMS)
		add("anomaly", b.Anomaly)
	case *events.DispatchRefused:
		add("code", b.Code)
		add("cause", b.Cause)
		add("http", b.HTTPStatus)
	case *events.DispatchDeferred:
		add("cause", b.Cause)
		add("called", rec.Called)
		add("park", b.Park)
		add("dueAt", moment(rec.DueAt))
		add("http", b.HTTPStatus)
	case *events.DispatchUnknown:
		add("cause", b.Cause)
		add("http", b.HTTPStatus)
		add("ms", b.ElapsedMS)
	case *events.DispatchAbsent:
		add("count", b.Count)
	case *events.DispatchProved:
		add("by", b.By)
	case *events.DispatchDisproved:
		add("by", b.By)
		add("code", b.Code)
		add("who", b.Who)
		say("reason", b.Reason)
	case *events.DispatchClosed:
		add("reason", b.Reason)
		add("code", b.Code)
		add("presumed", b.Presumed)
		add("messages", len(b.Messages))
		add("by", b.By)
		say("note", b.Note)
	case *events.DispatchRestored:
		add("upTo", b.UpTo)
		add("by", b.By)
	case *events.Receipt:
		add("gateway", b.GatewayStatus)
		add("at", moment(b.At))
		add("code", b.Code)
	case *events.EvidenceLate:
		add("outcome", b.Outcome)
		add("cause", b.Cause)
	case *events.EvidenceAnomaly:
		add("kind", b.Kind)
	case *events.MessageRetryRequested:
		add("by", b.By)
		add("force", b.Force)
		add("retriedAs", b.RetriedAs)
		say("reason", b.Reason)
	}
	add("gatewayId", rec.GatewayID)
	return strings.Join(words, " ")
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
