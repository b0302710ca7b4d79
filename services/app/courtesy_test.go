package app

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/courtesy"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/streamtest"
)

// A code is on its way from the moment at which it is about to be accepted; one that is not accepted is not, nor is another message.
func TestAnAcceptedCodeIsOnItsWay(t *testing.T) {
	t.Parallel()
	log := streamtest.New(t, 1, eventlog.Options{Logger: zerolog.Nop()}).Events
	for name, c := range map[string]struct {
		class   events.Class
		refused bool
		want    bool
	}{
		"code":             {events.ClassOTP, false, true},
		"urgent code":      {events.ClassOTPUrgent, false, true},
		"code, not taken":  {events.ClassOTP, true, false},
		"other":            {events.ClassUtility, false, false},
		"other, not taken": {events.ClassUtility, true, false},
	} {
		polite := courtesy.New(time.Hour)
		lane := events.Lane{Instance: "inst-1", Class: c.class, Tenant: "acme"}
		ev := events.Event{
			Envelope: events.Envelope{ID: uuid.NewString(), Type: events.TypeMessageQueued, Source: "pilot/test", Time: time.Now().UTC(), Subject: "m1"},
			Address:  events.QueuedSubject(0, lane), Body: &events.MessageQueued{},
		}
		ctx, cancel := context.WithCancel(t.Context())
		if c.refused {
			cancel()
		}
		_, err := apiLog{log, &appendHealth{}, polite}.Append(ctx, ev)
		cancel()
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if got := comes(t, polite, c.want); got != c.want {
			t.Errorf("%s: on its way %v", name, got)
		}
	}
}

// comes reports that a step waits for a code. One that has to wait is let go soon.
func comes(t *testing.T, c *courtesy.Courtesy, expected bool) bool {
	t.Helper()
	limit := time.Minute
	if expected {
		limit = 20 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c.Yield(ctx)
	return ctx.Err() != nil
}
