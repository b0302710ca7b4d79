package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
)

// Appender writes to CONTROL with optimistic concurrency.
type Appender interface {
	AppendExpecting(ctx context.Context, ev events.Event, expected uint64) (uint64, error)
}

// Author says who changes an entity, and why.
type Author struct {
	By     string // "api:<key id>", "operator:<name>" or a role
	Reason string
}

// Define records the whole state of an entity and gives its sequence in CONTROL. expected is the entity's version as read
// (catalog.Catalog.Version), 0 to create it; when it has changed since, the error is events.CodeConflict.
func Define[T any](ctx context.Context, log Appender, kind, id string, value T, author Author, expected uint64) (uint64, error) {
	return change(ctx, log, kind, id, events.DefinedType(kind), &events.Defined[T]{By: author.By, Reason: author.Reason, Value: value}, expected)
}

// Remove ends an entity; see Define.
func Remove(ctx context.Context, log Appender, kind, id string, author Author, expected uint64) (uint64, error) {
	return change(ctx, log, kind, id, events.RemovedType(kind), &events.Removed{By: author.By, Reason: author.Reason}, expected)
}

func change(ctx context.Context, log Appender, kind, id, eventType string, body any, expected uint64) (uint64, error) {
	return record(ctx, log.AppendExpecting, kind, id, eventType, body, expected)
}

// NextAppender writes to CONTROL as a whole.
type NextAppender interface {
	AppendNext(ctx context.Context, ev events.Event, expected uint64) (uint64, error)
}

// Next records an event of an entity if CONTROL ends at expected, and gives its sequence; body is an *events.Defined or an
// *events.Removed that fits the type. When the stream has moved the error is events.CodeConflict.
func Next(ctx context.Context, log NextAppender, kind, id, eventType string, body any, expected uint64) (uint64, error) {
	return record(ctx, log.AppendNext, kind, id, eventType, body, expected)
}

func record(ctx context.Context, add func(context.Context, events.Event, uint64) (uint64, error), kind, id, eventType string, body any, expected uint64) (uint64, error) {
	if !events.ValidToken(id) {
		return 0, events.Errorf(events.CodeValidation, "an id has 1 to 40 characters of a-z, 0-9 and '-'")
	}
	eventID, err := uuid.NewV7()
	if err != nil {
		return 0, fmt.Errorf("draw an event id: %w", err)
	}
	seq, err := add(ctx, events.Event{
		Envelope: events.Envelope{ID: eventID.String(), Type: eventType, Source: "pilot/control", Time: time.Now()},
		Address:  events.ControlSubject(kind, id),
		Body:     body,
	}, expected)
	if err != nil {
		return 0, fmt.Errorf("change %s: %w", kind, err)
	}
	return seq, nil
}
