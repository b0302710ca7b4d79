package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
)

func TestWebhooksOfCustomers(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	made := f.ask(201, liveKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/in?token=t", "delay": 7})
	id, secret := made.member(t, "id").(string), made.member(t, "secret").(string)
	for member, want := range map[string]any{
		"tenantId": "acme", "projectId": "shop", "name": "example.com", "url": "https://example.com/in?token=t", "environment": "LIVE", "active": true,
		"lastTriggered": nil, "createdAt": stamp(clock), "updatedAt": stamp(clock),
	} {
		if got := made.member(t, member); got != want {
			t.Errorf("%s: %v, want %v", member, got, want)
		}
	}
	if n := len(made.member(t, "events").([]any)); n != 0 || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("created: %s", made.body)
	}
	one := "/v1/webhooks/" + id
	first := f.ask(200, liveKey, "GET", one, nil)
	if list := f.ask(200, liveKey, "GET", "/api/v1/webhooks", nil); string(list.body) != "["+strings.TrimSpace(string(first.body))+"]\n" || strings.Contains(string(list.body), "whsec_") {
		t.Errorf("listed: %s\nread: %s", list.body, first.body)
	}
	changed := f.ask(200, liveKey, "PATCH", one, obj{"events": []string{"message.sent", "message.failed"}, "active": false, "name": "Mine", "environment": "TEST"})
	if changed.member(t, "active") != false || changed.member(t, "name") != "Mine" || changed.member(t, "environment") != "LIVE" {
		t.Errorf("changed: %s", changed.body)
	}
	same := f.ask(200, liveKey, "PATCH", one, obj{"events": nil, "active": nil})
	if string(same.body) != string(changed.body) {
		t.Errorf("changed by nothing: %s", same.body)
	}
	if r := f.ask(200, liveKey, "PATCH", one, obj{"events": []string{"*"}}); fmt.Sprint(r.member(t, "events")) != "[*]" {
		t.Errorf("a list does not replace the one before: %s", r.body)
	}
	if r := f.ask(200, liveKey, "PATCH", one, obj{"events": []string{}}); fmt.Sprint(r.member(t, "events")) != "[]" {
		t.Errorf("no events: %s", r.body)
	}
	key := f.ask(201, liveKey, "POST", "/v1/api-keys", obj{"name": "linked", "webhookId": id}).member(t, "id").(string)
	linked := f.ask(200, liveKey, "GET", one, nil).member(t, "apiKeys").([]any)
	if len(linked) != 1 || linked[0].(map[string]any)["id"] != key {
		t.Errorf("linked: %v", linked)
	}
	f.refused(CodeInUse, liveKey, "DELETE", one, nil)
	f.want(204, "DELETE", "keys/"+key, nil, "If-Match", "*")
	if r := f.ask(200, liveKey, "DELETE", one, nil); r.member(t, "deleted") != true || r.member(t, "id") != id {
		t.Errorf("deleted: %s", r.body)
	}
	f.refused(CodeWebhookNotFound, liveKey, "GET", one, nil)
	f.refused(CodeWebhookNotFound, liveKey, "DELETE", one, nil)
	for _, rec := range f.control.log[:1] {
		if d := rec.Body.(*events.Defined[events.Endpoint]); d.By != "key:"+f.keyID(liveKey) {
			t.Errorf("author: %s", d.By)
		}
	}
}

func (f *customers) keyID(raw string) string { return key(raw, "", "", events.Live).ID }

func TestSecretsOfCustomersWebhooks(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	made := f.ask(201, liveKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/"})
	one := "/v1/webhooks/" + made.member(t, "id").(string)
	seen := []string{made.member(t, "secret").(string)}
	for range 2 {
		secret := f.ask(200, liveKey, "POST", one+"/rotate-secret", nil).member(t, "secret").(string)
		if slices.Contains(seen, secret) {
			t.Error("a secret is given twice")
		}
		seen = append(seen, secret)
		if n := len(f.endpointOf(made.member(t, "id").(string)).Secrets); n != 2 {
			t.Errorf("%d secrets sign", n)
		}
	}
	if r := f.ask(200, liveKey, "POST", one+"/retire-secret", nil); strings.Contains(string(r.body), "whsec_") {
		t.Errorf("retired: %s", r.body)
	}
	if n := len(f.endpointOf(made.member(t, "id").(string)).Secrets); n != 1 {
		t.Errorf("%d secrets sign", n)
	}
	if strings.Contains(f.logged.String(), "whsec_") {
		t.Error("a secret is logged")
	}
}

func TestFaultsOfCustomersWebhooks(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	id := f.ask(201, liveKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/"}).member(t, "id").(string)
	before := f.control.appends
	for _, c := range []struct {
		body any
		want []string
	}{
		{obj{}, []string{"name required", "url url"}},
		{obj{"url": "http://example.com/" + canary}, []string{"url https"}},
		{obj{"url": "https://10.0.0.1/", "events": []string{"message.sent", canary}, "name": "a\x07"}, []string{"name characters", "url address", "events[1] unknown_value"}},
		{obj{"url": "https://localhost/"}, []string{"url address"}},
		{obj{"url": "https://example.com/", "whatsappNumberIds": []string{canary}, "whatsappInstanceIds": []string{canary}}, []string{"whatsappNumberIds too_many", "whatsappInstanceIds too_many"}},
		{obj{"url": 7, "active": canary}, []string{"body.active wrong_type", "body.url wrong_type"}},
	} {
		if got := f.refused(events.CodeValidation, liveKey, "POST", "/v1/webhooks", c.body); !slices.Equal(sorted(got), sorted(c.want)) {
			t.Errorf("%v: %v, want %v", c.body, got, c.want)
		}
		if o, ok := c.body.(obj); ok && len(o) > 0 {
			f.refused(events.CodeValidation, liveKey, "PATCH", "/v1/webhooks/"+id, o)
		}
	}
	if f.control.appends != before {
		t.Errorf("%d changes by refused requests", f.control.appends-before)
	}
	for range maxWebhooks - 1 {
		f.ask(201, liveKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/"})
	}
	if got := f.refused(events.CodeValidation, liveKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/"}); !slices.Equal(got, []string{"webhooks too_many"}) {
		t.Errorf("one too many: %v", got)
	}
	f.ask(201, otherKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/"})
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// A webhook of the whole account is seen where the account has one project, and hears of it in any case.
func TestWebhooksOfTheWholeAccount(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	for tenant, id := range map[string]string{"acme": "wide-a", "rival": "wide-r"} {
		f.want(201, "POST", "endpoints", obj{"id": id, "tenantId": tenant, "name": "web", "url": "https://example.com/", "environment": "LIVE", "active": true, "events": []string{"*"}})
	}
	f.refused(CodeWebhookNotFound, liveKey, "GET", "/v1/webhooks/wide-a", nil)
	if r := f.ask(200, otherKey, "GET", "/v1/webhooks/wide-r", nil); r.member(t, "projectId") != nil {
		t.Errorf("of the account: %s", r.body)
	}
}

func TestLogsOfCustomersWebhooks(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	limits, down := []int{}, false
	made := &events.HookDelivery{
		Endpoint: "x", Event: events.CustomerMessageFailed, MessageID: "msg_1", Status: events.StatusFailed, At: clock, Environment: events.Live,
		CorrelationID: "cor_1", ErrorCode: "ATTEMPTS_EXHAUSTED",
	}
	f.reads.deliveries = func(tenant, endpoint string, limit int) ([]DeliveryView, error) {
		limits = append(limits, limit)
		switch {
		case down:
			return nil, events.Errorf(events.CodeUnavailable, "down")
		case tenant != "acme" || !strings.HasPrefix(endpoint, "end-"):
			t.Errorf("asked for %s of %s", endpoint, tenant)
		}
		return []DeliveryView{
			{WebhookID: "w-2", MessageID: "msg_1", Event: "message.failed", Attempt: 1, Result: events.HookSucceeded, HTTPStatus: 204, Elapsed: 1500 * time.Millisecond, At: clock, Made: made, Response: events.Sealed{KeyID: "k", Blob: []byte(sealMark("acme", "k", []byte("acme/w-2/hook-response")) + "ok \xff\xfe")}},
			{WebhookID: "w-1", MessageID: "msg_0", Event: "message.sent", Attempt: 3, Result: events.HookFailed, Reason: "timeout", At: clock.Add(-time.Hour), NextAt: clock},
		}[:min(limit, 2)], nil
	}
	f.start()
	one := "/v1/webhooks/" + f.ask(201, liveKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/"}).member(t, "id").(string)
	if r := f.ask(200, liveKey, "GET", one, nil); r.member(t, "lastTriggered") != stamp(clock) {
		t.Errorf("read: %s", r.body)
	}
	limits = nil
	logs := f.ask(200, liveKey, "GET", one+"/logs", nil).elements(t)
	if len(logs) != 2 || limits[0] != 50 {
		t.Fatalf("%v, limits %v", logs, limits)
	}
	data, _ := logs[0]["payload"].(map[string]any)["data"].(map[string]any)
	if logs[0]["status"] != "SUCCESS" || logs[0]["statusCode"] != 204.0 || logs[0]["durationMs"] != 1500.0 || logs[0]["event"] != "message.failed" ||
		data["internalMessageId"] != "msg_1" || logs[0]["nextAt"] != nil || logs[0]["response"] != "ok \uFFFD" {
		t.Errorf("success: %v", logs[0])
	}
	if logs[1]["status"] != "FAILED" || logs[1]["statusCode"] != nil || logs[1]["reason"] != "timeout" || logs[1]["payload"] != nil || logs[1]["attempt"] != 3.0 ||
		logs[1]["nextAt"] != stamp(clock) || logs[1]["createdAt"] != stamp(clock.Add(-time.Hour)) || logs[1]["response"] != nil {
		t.Errorf("failure: %v", logs[1])
	}
	if n := len(f.ask(200, liveKey, "GET", one+"/logs?limit=1", nil).elements(t)); n != 1 {
		t.Errorf("%d with limit 1", n)
	}
	for _, limit := range []string{"0", "51", "-1", "x"} {
		f.refused(events.CodeValidation, liveKey, "GET", one+"/logs?limit="+limit, nil)
	}
	down = true
	f.refused(events.CodeUnavailable, liveKey, "GET", one+"/logs", nil)
	if r := f.ask(200, liveKey, "PATCH", one, obj{"active": false}); r.member(t, "active") != false || r.member(t, "lastTriggered") != nil {
		t.Errorf("with the views down: %s", r.body)
	}
}

// A secret that cannot be sealed makes no webhook.
func TestWebhookWithoutASeal(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	before := f.ports
	f.ports = func(p *Ports) {
		before(p)
		p.Secrets = brokenSecrets{}
	}
	f.start()
	f.refused(events.CodeUnavailable, liveKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/"})
	if f.control.appends != 0 {
		t.Error("a webhook without a secret was made")
	}
}

var errSeal = errors.New("no keys")
