package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// hooked is an API with an endpoint and tries to tell it, and what is stored of replays.
type hooked struct {
	*adminFixture
	tries  []DeliveryView // the newest first
	stored []events.Event
	fail   error // of storing a replay
}

const hookID = "acme-hook"

func newHooked(t *testing.T) *hooked {
	t.Helper()
	h := &hooked{adminFixture: newAdmin(t)}
	define(h.control.cat, events.KindEndpoint, hookID, events.Endpoint{
		ID: hookID, TenantID: "acme", Name: "shop", URL: "https://example.com/", Environment: events.Live, Active: true, Events: []string{"*"},
		Secrets: []events.Sealed{{KeyID: "k", Blob: []byte("x")}}, CreatedAt: clock,
	})
	m := stored()
	try := func(place uint64, id string, attempt int, result string, made events.HookDelivery, sealed events.Sealed) DeliveryView {
		return DeliveryView{
			Place: place, WebhookID: id, MessageID: m.ID, Event: "message.sent", Attempt: attempt, Result: result, Reason: "timeout",
			At: clock.Add(-time.Duration(100-place) * time.Minute), Made: &made, Sealed: sealed,
		}
	}
	made := events.HookDelivery{
		Endpoint: hookID, Event: "message.sent", MessageID: m.ID, Status: events.StatusSent, At: clock, WithContent: true,
		Queued: events.Position{Partition: 2, Sequence: 7},
	}
	bare := made
	bare.WithContent = false
	bare.Replay = &events.HookReplay{Nonce: "rold", After: 10, By: "operator:bob", Reason: "before", At: clock}
	note := DeliveryView{Place: 90, WebhookID: "disabled-3", Event: events.CustomerWebhookDisabled, Result: events.HookExhausted, Reason: events.DisabledFailing, At: clock}
	h.tries = []DeliveryView{
		note,
		try(50, "w-bare", 11, events.HookExhausted, bare, events.Sealed{}),
		try(40, "w-erased", 10, events.HookExhausted, made, events.Sealed{KeyID: "k"}),
		try(30, "w-waits", 3, events.HookFailed, made, m.Sealed),
		try(20, "w-full", 10, events.HookExhausted, made, m.Sealed),
	}
	h.tries[4].Response = events.Sealed{KeyID: "k", Blob: []byte(sealMark("acme", "k", []byte("acme/w-full/hook-response")) + "who are you")}
	h.reads.deliveries = func(tenant, endpoint string, _ int) ([]DeliveryView, error) {
		if tenant != "acme" || endpoint != hookID {
			t.Errorf("asked for %s of %s", endpoint, tenant)
		}
		return h.tries, nil
	}
	before := h.ports
	h.ports = func(p *Ports) {
		before(p)
		p.Hooks = &fakeLog{append: func(_ context.Context, e events.Event) (uint64, error) {
			if h.fail != nil && len(h.stored) > 0 {
				return 0, h.fail
			}
			h.stored = append(h.stored, e)
			return uint64(len(h.stored)), nil
		}}
	}
	h.start()
	return h
}

func (h *hooked) many(t *testing.T, status int, body obj) (replayed, erased []string, r reply) {
	t.Helper()
	r = h.want(status, "POST", "endpoints/"+hookID+"/replay-deliveries", body)
	if status == 200 {
		for _, id := range r.member(t, "replayed").([]any) {
			replayed = append(replayed, id.(string))
		}
		for _, id := range r.member(t, "erased").([]any) {
			erased = append(erased, id.(string))
		}
	}
	return replayed, erased, r
}

// Each replay is stored under the webhook-id of the event with a nonce of its own, so that no deduplication takes one for another.
func TestCase67EachReplayIsAnotherOne(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	for range 2 {
		r := h.want(200, "POST", "endpoints/"+hookID+"/deliveries/w-full/replay", nil)
		if fmt.Sprint(r.member(t, "replayed")) != "[w-full]" {
			t.Errorf("answer %s", r.body)
		}
	}
	a, b := h.stored[0], h.stored[1]
	if a.ID != "w-full" || b.ID != "w-full" || a.DedupID == b.DedupID || a.DedupID == "" || a.Address != events.HookSubject(hookID) || a.Type != events.TypeHookDelivery {
		t.Errorf("stored %+v and %+v", a, b)
	}
	made := a.Body.(*events.HookDelivery)
	if re := made.Replay; re == nil || re.By != "operator:ana" || re.Reason != "test" || re.After != 10 || made.Attempt != 10 || !re.At.Equal(clock.Truncate(time.Millisecond)) {
		t.Errorf("delivery %+v, replay %+v", made, made.Replay)
	}
	if made.Replay.Nonce == b.Body.(*events.HookDelivery).Replay.Nonce {
		t.Error("two replays have one nonce")
	}
	if h.tries[4].Made.Replay != nil {
		t.Error("what was read is changed")
	}
	h.want(200, "POST", "endpoints/"+hookID+"/deliveries/w-bare/replay", nil) // no content was part of it
	for path, code := range map[string]events.Code{
		"endpoints/" + hookID + "/deliveries/none/replay":       events.CodeNotFound,
		"endpoints/none/deliveries/w-full/replay":               events.CodeNotFound,
		"endpoints/" + hookID + "/deliveries/w-erased/replay":   CodeContentErased,
		"endpoints/" + hookID + "/deliveries/disabled-3/replay": events.CodeConflict,
	} {
		wantCode(t, h.as(h.ana, "POST", path, nil), code)
	}
	h.keyring.open = func(string, events.Sealed, []byte) ([]byte, error) { return nil, fmt.Errorf("x: %w", ErrKeyMissing) }
	wantCode(t, h.as(h.ana, "POST", "endpoints/"+hookID+"/deliveries/w-full/replay", nil), CodeContentErased)
	if len(h.stored) != 3 {
		t.Errorf("%d are stored", len(h.stored))
	}
	off := h.endpointOf(hookID)
	off.Active = false
	define(h.control.cat, events.KindEndpoint, hookID, off)
	wantCode(t, h.as(h.ana, "POST", "endpoints/"+hookID+"/deliveries/w-bare/replay", nil), events.CodeConflict)
}

func (f *adminFixture) endpointOf(id string) (e events.Endpoint) {
	f.control.Read(func(c *catalog.Catalog) { e, _ = c.Endpoint(id) })
	return e
}

// What an endpoint missed in a time is replayed, the oldest first and so many at once.
func TestReplayOfATime(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	since := stamp(clock.Add(-24 * time.Hour))
	h.tries = h.tries[1:] // the views leave out what says nothing of a message
	replayed, erased, r := h.many(t, 200, obj{"from": since})
	if !slices.Equal(replayed, []string{"w-full", "w-bare"}) || !slices.Equal(erased, []string{"w-erased"}) || r.member(t, "next") != nil {
		t.Errorf("%s", r.body)
	}
	if replayed, _, r = h.many(t, 200, obj{"from": since, "results": []string{"exhausted", "failed"}, "limit": 2}); !slices.Equal(replayed, []string{"w-full", "w-waits"}) || r.member(t, "next") != 30.0 {
		t.Errorf("first two: %s", r.body)
	}
	if replayed, _, r = h.many(t, 200, obj{"from": since, "after": 30, "limit": 2}); !slices.Equal(replayed, []string{"w-bare"}) || r.member(t, "next") != 50.0 {
		t.Errorf("behind them: %s", r.body)
	}
	if replayed, _, r = h.many(t, 200, obj{"from": since, "to": stamp(clock.Add(-70 * time.Minute))}); !slices.Equal(replayed, []string{"w-full"}) {
		t.Errorf("before: %s", r.body)
	}
	h.stored, h.fail = nil, events.Errorf(events.CodeUnavailable, "down")
	if replayed, _, r = h.many(t, 200, obj{"from": since}); !slices.Equal(replayed, []string{"w-full"}) || r.member(t, "next") != 40.0 {
		t.Errorf("stopped: %s", r.body)
	}
	h.many(t, 503, obj{"from": since})
	for _, body := range []obj{{}, {"from": "x"}, {"from": since, "results": []string{"succeeded"}}, {"from": since, "limit": 1001}, {"from": since, "limit": 0}} {
		h.many(t, 400, body)
	}
}

func TestDeliveriesOfOperators(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	r := h.want(200, "GET", "endpoints/"+hookID+"/deliveries?limit=2", nil)
	first := r.member(t, "data").([]any)
	if len(first) != 2 || r.member(t, "next") != "50" || first[0].(map[string]any)["event"] != "webhook.disabled" {
		t.Fatalf("%s", r.body)
	}
	if re, _ := first[1].(map[string]any)["replay"].(map[string]any); re["by"] != "operator:bob" || re["reason"] != "before" {
		t.Errorf("replay: %v", first[1])
	}
	rest := h.want(200, "GET", "endpoints/"+hookID+"/deliveries?before=50", nil)
	last := rest.member(t, "data").([]any)[2].(map[string]any)
	if last["response"] != "who are you" || last["webhookId"] != "w-full" || last["replay"] != nil {
		t.Errorf("%s", rest.body)
	}
	reader := h.operator("eve", events.OperatorRead)
	if r := h.as(reader, "GET", "endpoints/"+hookID+"/deliveries", nil); strings.Contains(string(r.body), "who are you") || r.status != 200 {
		t.Errorf("without the scope: %s", r.body)
	}
	h.keyring.open = func(string, events.Sealed, []byte) ([]byte, error) { return nil, fmt.Errorf("x: %w", ErrKeyMissing) }
	if r := h.want(200, "GET", "endpoints/"+hookID+"/deliveries", nil); strings.Contains(string(r.body), "who are you") {
		t.Errorf("erased: %s", r.body)
	}
	h.keyring.open = func(string, events.Sealed, []byte) ([]byte, error) { return nil, errors.New("down") }
	wantCode(t, h.as(h.ana, "GET", "endpoints/"+hookID+"/deliveries", nil), events.CodeUnavailable)
	wantCode(t, h.as(h.ana, "GET", "endpoints/none/deliveries", nil), events.CodeNotFound)
	if strings.Contains(h.logged.String(), "who are you") {
		t.Error("an answer of an endpoint is logged")
	}
}

// Owners and operators see that the notifier switched an endpoint off, and switch it on again.
func TestCase76SwitchedOffIsSeenAndUndone(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	made := f.ask(201, liveKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/"})
	id := made.member(t, "id").(string)
	if v := made.member(t, "disabledAt"); v != nil {
		t.Errorf("created with disabledAt %v", v)
	}
	off := func() {
		f.control.mu.Lock()
		defer f.control.mu.Unlock()
		e, _ := f.control.cat.Endpoint(id)
		e.Active, e.Disabled = false, &events.EndpointDisabled{At: clock, Reason: events.DisabledFailing, Failures: 20}
		define(f.control.cat, events.KindEndpoint, id, e)
	}
	off()
	one := "/v1/webhooks/" + id
	r := f.ask(200, liveKey, "GET", one, nil)
	if r.member(t, "active") != false || r.member(t, "disabledAt") != stamp(clock) || r.member(t, "disabledReason") != "failing" {
		t.Errorf("owner sees %s", r.body)
	}
	if r = f.ask(200, liveKey, "PATCH", one, obj{"name": "Mine"}); r.member(t, "disabledReason") != "failing" {
		t.Errorf("another change undoes it: %s", r.body)
	}
	if r = f.ask(200, liveKey, "PATCH", one, obj{"active": true}); r.member(t, "active") != true || r.member(t, "disabledAt") != nil || r.member(t, "disabledReason") != nil {
		t.Errorf("switched on: %s", r.body)
	}
	off()
	r = f.want(200, "GET", "endpoints/"+id, nil)
	if d, _ := r.member(t, "disabled").(map[string]any); d["reason"] != "failing" || d["failures"] != 20.0 || r.member(t, "projectId") != "shop" {
		t.Errorf("operator sees %s", r.body)
	}
	set := obj{"tenantId": "acme", "name": "Mine", "url": "https://example.com/", "environment": "LIVE", "active": true, "events": []string{"*"}}
	r = f.want(200, "PUT", "endpoints/"+id, set, "If-Match", "*")
	if r.member(t, "disabled") != nil || r.member(t, "active") != true || r.member(t, "projectId") != "shop" {
		t.Errorf("replaced: %s", r.body)
	}
	set["projectId"] = "other"
	wantCode(t, f.as(f.ana, "PUT", "endpoints/"+id, set, "If-Match", "*"), events.CodeValidation)
}
