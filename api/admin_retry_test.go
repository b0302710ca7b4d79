package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/retry"
)

// C4 case 67: a repeat of a retry is that retry; a second one on purpose, under another key, is another message.
func TestCase67ARepeatedRetryIsOneAndASecondOneIsAnother(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	l.ended(11, events.ClosedCanceled, false)
	again := func(force bool, key string) reply {
		return l.as(l.ana, "POST", "messages/"+l.id+"/retry", obj{"force": force}, "Idempotency-Key", key)
	}
	first := again(false, "one")
	repeat := again(false, "one")
	if repeat.header.Get("Idempotent-Replayed") != "true" || repeat.member(t, "messageId") != first.member(t, "messageId") {
		t.Errorf("%s, then %s", first.body, repeat.body)
	}
	wantCode(t, again(true, "one"), CodeKeyReused)
	if second := again(false, "two"); second.member(t, "messageId") == first.member(t, "messageId") || second.status != 200 {
		t.Errorf("a second retry: %s", second.body)
	}
	if r := l.as(l.ana, "POST", "messages/"+l.id+"/retry", nil); r.status != 400 {
		t.Errorf("without a key: %d", r.status)
	}
	queued := 0
	for _, e := range l.events() {
		if e.Type == events.TypeMessageQueued {
			queued++
		}
	}
	if queued != 2 {
		t.Errorf("%d messages of two retries", queued)
	}
}

// What a retry did is not decided anew by its repeat, though the message has ended since.
func TestARepeatedRetryDecidesNothingAnew(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	again := func() reply {
		return l.as(l.ana, "POST", "messages/"+l.id+"/retry", nil, "Idempotency-Key", "one")
	}
	l.did(again(), retry.NextAttempt)
	l.ended(11, events.ClosedExpired, false)
	r := again()
	l.did(r, retry.NextAttempt)
	if r.header.Get("Idempotent-Replayed") != "true" || len(l.events()) != 1 {
		t.Errorf("%d events", len(l.events()))
	}
}

// A retry whose acknowledgement was lost is found by its repeat.
func TestARetryWithoutAnAcknowledgementIsFoundByItsRepeat(t *testing.T) {
	t.Parallel()
	l := newLevered(t)
	l.ended(11, events.ClosedExpired, false)
	stored := l.log.append
	l.log.append = func(ctx context.Context, e events.Event) (uint64, error) {
		if _, err := stored(ctx, e); err != nil {
			return 0, err
		}
		return 0, errors.New("no ack")
	}
	again := func() reply {
		return l.as(l.ana, "POST", "messages/"+l.id+"/retry", nil, "Idempotency-Key", "one")
	}
	wantCode(t, again(), events.CodeUnavailable)
	l.log.append = stored
	wantCode(t, again(), CodeInProgress)
	l.now = clock.Add(15 * time.Second)
	r := again()
	l.did(r, retry.Anew)
	for _, e := range l.events() {
		if e.Type == events.TypeMessageQueued && e.ID != r.member(t, "messageId") {
			t.Errorf("another message: %s", e.ID)
		}
	}
}

// Rules of a send that can have changed since hold for the new message.
func TestRetryHoldsTheRulesOfASend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*levered)
		code   events.Code
	}{
		"erased": {func(l *levered) {
			l.keyring.open = func(string, events.Sealed, []byte) ([]byte, error) { return nil, ErrKeyMissing }
		}, CodeContentErased},
		"keys away": {func(l *levered) {
			l.keyring.open = func(string, events.Sealed, []byte) ([]byte, error) { return nil, errors.New("no leader") }
		}, events.CodeUnavailable},
		"suspended": {func(l *levered) {
			l.change(events.KindTenant, "acme", events.Tenant{ID: "acme", Suspended: true})
		}, CodeTenantSuspended},
		"not approved": {func(l *levered) {
			l.change(events.KindProject, "shop", events.Project{ID: "shop", TenantID: "acme"})
		}, CodeProjectNotApproved},
		"opted out": {func(l *levered) {
			hash := hashOf("acme", canaryNumber)
			id := events.OptOutID("acme", hash)
			l.change(events.KindOptOut, id, events.OptOut{ID: id, TenantID: "acme", RecipientHash: hash})
		}, CodeOptedOut},
		"stopped": {func(l *levered) {
			l.change(events.KindPlatform, events.PlatformID, events.Platform{Stopped: true})
		}, CodeSendingStopped},
		"its number is gone": {func(l *levered) {
			rec := l.originals[l.id]
			rec.Address = events.QueuedSubject(2, events.Lane{Instance: "gone", Class: events.ClassUtility, Tenant: "acme"})
			l.originals[l.id] = rec
		}, events.CodeNoInstance},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLevered(t)
			l.ended(11, events.ClosedExpired, false)
			l.fence.groups["gone"] = l.fence.groups[retriedInstance]
			c.change(l)
			wantCode(t, l.retry(false), c.code)
			if len(l.events()) > 0 {
				t.Errorf("%d events", len(l.events()))
			}
		})
	}
}

func (l *levered) change(kind, id string, value any) {
	l.control.mu.Lock()
	defer l.control.mu.Unlock()
	switch v := value.(type) {
	case events.Tenant:
		define(l.control.cat, kind, id, v)
	case events.Project:
		define(l.control.cat, kind, id, v)
	case events.OptOut:
		define(l.control.cat, kind, id, v)
	case events.Platform:
		define(l.control.cat, kind, id, v)
	}
}
