package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/presence"
)

// examples are bodies that create one of each kind, without what is not shown again.
func examples() map[string]obj {
	return map[string]obj{
		"plans":     {"id": "pro", "name": "Pro", "month": 1000, "rate": 2.5, "weight": 3},
		"tenants":   {"id": "nova", "name": "Nova", "timeZone": "America/Bahia", "suspended": true},
		"projects":  {"id": "nova-shop", "tenantId": "acme", "name": "Shop", "productionApproved": true, "retentionDays": 7},
		"packages":  {"id": "pack", "tenantId": "acme", "messages": 500, "from": "2026-11", "until": "2026-12"},
		"keys":      {"id": "web", "tenantId": "acme", "projectId": "shop", "environment": "TEST", "name": "web", "scopes": []any{"send"}, "retentionDays": 0},
		"operators": {"id": "bia", "name": "bia", "scopes": []any{"read"}},
		"templates": {"id": "tpl-1", "tenantId": "acme", "projectId": "shop", "name": "ready_1", "category": "UTILITY"},
		"instances": {
			"id": "ins-1", "tenantId": "acme", "name": "acme-9", "displayName": "Acme", "number": "5511900000009", "gatewayUrl": "http://gw:8080",
			"concurrency": 2, "maxConcurrency": 4, "pace": map[string]any{"ratePerMinute": 2.0, "burst": 1.0, "jitter": 0.2, "costs": map[string]any{"OTP": 0.1}}, "typing": true,
		},
		"endpoints": {"id": "hook", "tenantId": "acme", "name": "web", "url": "https://example.com/in?t=1", "environment": "LIVE", "active": true, "events": []any{"*"}},
	}
}

// onlyAtCreation are members that are given at creation and not shown again, or not given on a change.
func onlyAtCreation(noun string) obj {
	switch noun {
	case "templates":
		return obj{"structure": "Hi {{name}}!"}
	case "instances":
		return obj{"gatewayKey": canary}
	}
	return nil
}

// Each kind is created, shown as it was set, replaced by itself, listed, told in its history and removed; nowhere is a secret.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	for noun, example := range examples() {
		body := obj{}
		for k, v := range example {
			body[k] = v
		}
		for k, v := range onlyAtCreation(noun) {
			body[k] = v
		}
		made := f.want(201, "POST", noun, body)
		id := example["id"].(string)
		got := f.want(200, "GET", noun+"/"+id, nil)
		shows(t, noun, example, got.body)
		replaced := f.want(200, "PUT", noun+"/"+id, example, "If-Match", got.header.Get("ETag"))
		if string(replaced.body) != string(got.body) || replaced.header.Get("ETag") == made.header.Get("ETag") {
			t.Errorf("%s: replaced by itself is %s, was %s", noun, replaced.body, got.body)
		}
		if r := f.want(200, "GET", noun+"?limit=500&tenantId=acme", nil); !strings.Contains(string(r.body), `"id":"`+id+`"`) {
			t.Errorf("%s are listed without it: %s", noun, r.body)
		}
		if r := f.want(200, "GET", noun+"/"+id+"/history", nil); len(r.member(t, "data").([]any)) != 2 {
			t.Errorf("%s: history %s", noun, r.body)
		}
		wantCode(t, f.as(f.ana, "PUT", noun+"/"+id, obj{"surplus": canary}, "If-Match", "*"), events.CodeValidation)
		f.want(204, "DELETE", noun+"/"+id, nil, "If-Match", "*")
		wantCode(t, f.as(f.ana, "GET", noun+"/"+id, nil), events.CodeNotFound)
	}
	for _, text := range f.answers {
		if strings.Contains(text, canary) || strings.Contains(text, hexOf(canary)) || strings.Contains(text, "sealed|") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	if strings.Contains(f.logged.String(), canary) {
		t.Error("a secret is logged")
	}
}

func hexOf(s string) string { return fmt.Sprintf("%x", s) }

// shows holds that a body has every member of want.
func shows(t *testing.T, noun string, want obj, body []byte) {
	t.Helper()
	var got map[string]any
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var wanted map[string]any
	if err := json.Unmarshal(raw, &wanted); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	for k, v := range wanted {
		if !reflect.DeepEqual(got[k], v) {
			t.Errorf("%s: %s is %v, set was %v", noun, k, got[k], v)
		}
	}
}

// Whatever plan is put, that is what is read.
func TestWhatWasPutIsRead(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	f.want(201, "POST", "plans", obj{"id": "p", "name": "P"})
	rapid.Check(t, func(r *rapid.T) {
		want := PlanSettings{
			ID: "p", Name: rapid.StringMatching(`[a-zA-Zé ]{0,20}[a-z]`).Draw(r, "name"), Month: rapid.IntRange(0, 1e9).Draw(r, "month"),
			Day: rapid.IntRange(0, 1e9).Draw(r, "day"), TestDay: rapid.IntRange(0, 99).Draw(r, "testDay"), Rate: rapid.Float64Range(0, 60000).Draw(r, "rate"),
			Burst: rapid.IntRange(0, 60000).Draw(r, "burst"), Weight: rapid.IntRange(0, 1000).Draw(r, "weight"),
		}
		put := f.as(f.ana, "PUT", "plans/p", want, "If-Match", "*")
		var got PlanSettings
		if err := json.Unmarshal(f.want(200, "GET", "plans/p", nil).body, &got); err != nil || put.status != 200 || got != want {
			r.Fatalf("put %+v (%d), got %+v, %v", want, put.status, got, err)
		}
	})
}

func TestTemplatesByOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	f.want(201, "POST", "templates", obj{"id": "tpl-1", "tenantId": "acme", "projectId": "shop", "name": "ready_1", "category": "UTILITY", "structure": obj{"body": obj{"text": "Hi {{name}}!"}}})
	send := func(key string) reply {
		return f.send(key, `{`+to+`,"templateId":"ready_1","variables":{"name":"Ana"}}`)
	}
	step := func(version int, step string) reply {
		return f.as(f.ana, "POST", fmt.Sprintf("templates/tpl-1/versions/%d/%s", version, step), nil)
	}
	wantCode(t, step(1, "approve"), events.CodeConflict)
	wantCode(t, send(liveKey), events.CodeNotApproved)
	if r := step(1, "submit"); r.status != 200 {
		t.Fatalf("submit: %s", r.body)
	}
	wantCode(t, send(liveKey), events.CodeNotForProduction)
	step(1, "approve")
	wantCode(t, send(liveKey), events.CodeNotForProduction)
	step(1, "approve-for-production")
	if r := send(liveKey); r.status != http.StatusAccepted {
		t.Errorf("LIVE: %d %s", r.status, r.body)
	}
	f.want(201, "POST", "templates/tpl-1/versions", obj{"structure": "Bye {{name}}."})
	if r := step(2, "submit"); r.status != 200 {
		t.Errorf("submit: %s", r.body)
	}
	step(2, "reject")
	wantCode(t, step(2, "approve"), events.CodeConflict)
	wantCode(t, step(3, "submit"), events.CodeNotFound)
	wantCode(t, step(1, "fly"), events.CodeValidation)
	wantCode(t, f.as(f.ana, "POST", "templates/tpl-1/versions", obj{"structure": "{{a}} ends"}), events.CodeValidation)
	wantCode(t, f.as(f.ana, "POST", "templates", obj{"tenantId": "acme", "projectId": "shop", "name": "READY_1", "category": "OTP", "structure": "x"}), events.CodeValidation)
	wantCode(t, f.as(f.ana, "PUT", "templates/tpl-1", obj{"tenantId": "acme", "projectId": "shop", "name": "r", "category": "OTP"}, "If-Match", "*"), events.CodeValidation)
	data := f.want(200, "GET", "templates/tpl-1", nil).member(t, "versions").([]any)
	if len(data) != 2 || fmt.Sprint(data[0].(map[string]any)["variables"]) != "[name]" {
		t.Errorf("versions: %v", data)
	}
}

func TestEndpointSecretsByOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	first := f.want(201, "POST", "endpoints", examples()["endpoints"]).member(t, "secret").(string)
	second := f.want(200, "POST", "endpoints/hook/rotate-secret", nil).member(t, "secret").(string)
	third := f.want(200, "POST", "endpoints/hook/rotate-secret", nil)
	if first == second || !strings.HasPrefix(second, "whsec_") || third.member(t, "secrets") != 2.0 {
		t.Errorf("rotated: %s", third.body)
	}
	if r := f.want(200, "POST", "endpoints/hook/retire-secret", nil); r.member(t, "secrets") != 1.0 || strings.Contains(string(r.body), "whsec_") {
		t.Errorf("retired: %s", r.body)
	}
	wantCode(t, f.as(f.ana, "POST", "endpoints/none/rotate-secret", nil), events.CodeNotFound)
	wantCode(t, f.as(f.ana, "PUT", "endpoints/hook", obj{
		"tenantId": "acme", "name": "web", "url": "https://10.0.0.1/", "environment": "LIVE", "active": true, "events": []string{},
	}, "If-Match", "*"), events.CodeValidation)
}

func TestInstancesByOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	body := examples()["instances"]
	body["gatewayKey"] = canary
	f.want(201, "POST", "instances", body)
	var before, after events.Instance
	f.control.Read(func(c *catalog.Catalog) { before, _ = c.Instance("ins-1") })
	f.want(200, "PUT", "instances/ins-1", examples()["instances"], "If-Match", "*")
	f.control.Read(func(c *catalog.Catalog) { after, _ = c.Instance("ins-1") })
	if !reflect.DeepEqual(before, after) || before.IngressHash == "" {
		t.Errorf("a change without a key changed a secret: %+v, %+v", before, after)
	}
}

func TestConsentsByOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	in := obj{"tenantId": "acme", "projectId": "shop", "number": canaryNumber}
	id := f.want(201, "POST", "opt-ins", in).member(t, "id").(string)
	if again := f.want(201, "POST", "opt-ins", in).member(t, "id"); again != id {
		t.Errorf("recorded twice: %v and %v", id, again)
	}
	out := f.want(201, "POST", "opt-outs", obj{"tenantId": "acme", "number": canaryNumber}).member(t, "id").(string)
	wantCode(t, f.as(f.ana, "POST", "opt-ins", obj{"tenantId": "acme", "projectId": "rivals", "number": canaryNumber}), events.CodeValidation)
	wantCode(t, f.as(f.ana, "POST", "opt-outs", obj{"tenantId": "none", "number": canaryNumber}), events.CodeValidation)
	f.want(204, "DELETE", "opt-outs/"+out, nil, "If-Match", "*")
	f.want(204, "DELETE", "opt-ins/"+id, nil, "If-Match", "*")
	f.want(201, "POST", "opt-ins", in) // who consents again may
	for _, text := range append(f.answers, f.logged.String()) {
		if strings.Contains(text, canaryNumber[1:]) {
			t.Errorf("a number is shown: %s", text)
		}
	}
}

func TestPlatformByOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	first := f.want(200, "GET", "platform", nil)
	if first.header.Get("ETag") != `"0"` || first.member(t, "stopped") != false {
		t.Errorf("at first: %v %s", first.header, first.body)
	}
	set := f.want(200, "PUT", "platform", obj{"optInRequired": true, "recipientLimit": 5}, "If-Match", `"0"`)
	wantCode(t, f.as(f.ana, "PUT", "platform", obj{}, "If-Match", `"0"`), CodePreconditionFailed)
	wantCode(t, f.as(f.ana, "PUT", "platform", obj{"planId": "none"}, "If-Match", "*"), events.CodeValidation)
	if r := f.want(200, "POST", "platform/stop", nil); r.member(t, "stopped") != true || r.member(t, "recipientLimit") != 5.0 {
		t.Errorf("stopped: %s", r.body)
	}
	if r := f.want(200, "PUT", "platform", obj{}, "If-Match", "*"); r.member(t, "stopped") != true {
		t.Errorf("settings start sending: %s", r.body)
	}
	if r := f.want(200, "POST", "platform/start", nil); r.member(t, "stopped") != false {
		t.Errorf("started: %s", r.body)
	}
	if n := len(f.want(200, "GET", "platform/history", nil).member(t, "data").([]any)); n != 4 || set.header.Get("Location") != "/v1/admin/platform" {
		t.Errorf("%d changes, %v", n, set.header)
	}
}

// An instance is shown with what the log says of it now; its history is what was set.
func TestInstanceIsShownWithItsState(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	others := f.ports
	f.ports = func(p *Ports) {
		others(p)
		p.Presence = fakePresence{"shared": {Connection: presence.Closed, Since: clock, Paused: true}}
	}
	f.start()
	state := func(id string) map[string]any {
		t.Helper()
		s, _ := f.want(200, "GET", "instances/"+id, nil).member(t, "state").(map[string]any)
		return s
	}
	if s := state("shared"); s["connection"] != "CLOSE" || s["since"] != stamp(clock) || s["paused"] != true || s["parked"] != false {
		t.Errorf("state %v", s)
	}
	if s := state("own"); s["connection"] != "UNKNOWN" || s["since"] != nil || s["paused"] != false || s["gatewayParkedBy"] != nil {
		t.Errorf("state %v", s)
	}
}

// An instance behind a gateway that another one is parked for says so; one behind another gateway does not.
func TestInstanceNamesWhoseParkHoldsItsGateway(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]any{"http://gateway": "shared", "http://elsewhere": nil} {
		f := newAdmin(t)
		others := f.ports
		f.ports = func(p *Ports) {
			others(p)
			p.Presence = fakePresence{"shared": {Parked: true, Park: presence.Word{Since: clock, By: "dispatcher", Reason: "license_required", Scope: events.ParkGateway}}}
		}
		for _, id := range []string{"own", "shared"} {
			inst, _ := f.catalog.cat.Instance(id)
			if inst.GatewayURL = "http://gateway"; id == "own" {
				inst.GatewayURL = url
			}
			define(f.catalog.cat, events.KindInstance, id, inst)
		}
		f.start()
		for id, want := range map[string]any{"own": want, "shared": nil} {
			if s, _ := f.want(200, "GET", "instances/"+id, nil).member(t, "state").(map[string]any); s["gatewayParkedBy"] != want {
				t.Errorf("%s, own at %s: %v", id, url, s)
			}
		}
	}
}
