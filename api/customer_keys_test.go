package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// brokenSecrets cannot seal.
type brokenSecrets struct{ memorySecrets }

func (brokenSecrets) Seal(context.Context, string, []byte) (events.Sealed, error) {
	return events.Sealed{}, errSeal
}

func TestAPIKeysOfCustomers(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	made := f.ask(201, testKey, "POST", "/v1/api-keys", obj{"name": "worker", "retentionDays": 0, "environment": "LIVE", "projectId": "draft", "whatsappInstanceId": "own"})
	raw := made.member(t, "key").(string)
	for member, want := range map[string]any{
		"name": "worker", "environment": "TEST", "retentionDays": 0.0, "webhookId": nil, "whatsappInstanceId": "own", "createdAt": stamp(clock), "revokedAt": nil,
	} {
		if got := made.member(t, member); got != want {
			t.Errorf("%s: %v, want %v", member, got, want)
		}
	}
	if prefix := made.member(t, "keyPrefix").(string); !strings.HasPrefix(raw, prefix+"_") || !strings.HasPrefix(raw, "ps_test_") {
		t.Errorf("key %d characters, prefix %s", len(raw), prefix)
	}
	list := f.ask(200, raw, "GET", "/api/v1/api-keys", nil) // the new key works
	names := []any{}
	for _, k := range list.elements(t) {
		names = append(names, k["name"])
	}
	if !slices.Contains(names, any("worker")) || strings.Contains(string(list.body), raw) {
		t.Errorf("listed: %s", list.body)
	}
	var kept events.Key
	f.control.Read(func(c *catalog.Catalog) { kept, _ = c.Key(made.member(t, "id").(string)) })
	if kept.ProjectID != "shop" || kept.TenantID != "acme" || strings.Contains(fmt.Sprint(kept), raw) {
		t.Errorf("kept: %+v", kept)
	}
	for want, body := range map[string]obj{
		"body.name required":         {},
		"name required":              {"name": " "},
		"retentionDays out_of_range": {"name": "k", "retentionDays": 3651},
		"scopes[0] unknown_value":    {"name": "k", "scopes": []string{canary}},
		"expiresAt not_in_future":    {"name": "k", "expiresAt": stamp(clock)},
		"body.expiresAt date_time":   {"name": "k", "expiresAt": canary},
		"webhookId unknown":          {"name": "k", "webhookId": canary},
		"whatsappInstanceId unknown": {"name": "k", "whatsappInstanceId": "shared"},
	} {
		if got := f.refused(events.CodeValidation, liveKey, "POST", "/v1/api-keys", body); !slices.Equal(got, []string{want}) {
			t.Errorf("%v: %v, want %s", body, got, want)
		}
	}
}

// project records a project of acme.
func (f *customers) project(id string) {
	f.control.mu.Lock()
	defer f.control.mu.Unlock()
	define(f.control.cat, events.KindProject, id, events.Project{ID: id, TenantID: "acme", ProductionApproved: true})
}

// A key makes no key that may do more, or lasts longer, than itself.
func TestAKeyMakesNoStrongerKey(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	var n atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		subset := rapid.SliceOfDistinct(rapid.SampledFrom(events.KeyScopes()), rapid.ID[string])
		maker := append(subset.Draw(rt, "maker"), events.ScopeKeys)
		maker = slices.Compact(slices.Sorted(slices.Values(maker)))
		wanted := subset.Draw(rt, "wanted")
		end := time.Duration(rapid.IntRange(0, 3).Draw(rt, "maker's end")) * time.Hour // 0: none
		ask := time.Duration(rapid.IntRange(0, 3).Draw(rt, "child's end")) * time.Hour
		made := n.Add(1)
		project := fmt.Sprint("shop-", made/50) // there is a most of keys of a project
		f.project(project)
		raw := f.limitedKey(fmt.Sprintf("ps_live_r%07d_secretsecret", made), "acme", project, events.Live, func(k *events.Key) {
			k.ID = fmt.Sprint("maker-", made)
			k.Scopes = maker
			if end > 0 {
				k.ExpiresAt = clock.Add(end)
			}
		})
		body := obj{"name": "child", "scopes": wanted}
		if ask > 0 {
			body["expiresAt"] = stamp(clock.Add(ask))
		}
		within := !slices.ContainsFunc(wanted, func(s string) bool { return !slices.Contains(maker, s) })
		if !within {
			f.refused(CodeInsufficientScope, raw, "POST", "/v1/api-keys", body)
			return
		}
		child := f.ask(201, raw, "POST", "/v1/api-keys", body)
		var k events.Key
		f.control.Read(func(c *catalog.Catalog) { k, _ = c.Key(child.member(t, "id").(string)) })
		for _, scope := range events.KeyScopes() {
			if k.May(scope) && !slices.Contains(maker, scope) || len(wanted) > 0 && k.May(scope) != slices.Contains(wanted, scope) {
				rt.Fatalf("maker %v, wanted %v, got %v", maker, wanted, k.Scopes)
			}
		}
		if end > 0 && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(clock.Add(end))) || ask > 0 && k.ExpiresAt.After(clock.Add(ask)) {
			rt.Fatalf("maker until %v, wanted %v, got %v", end, ask, k.ExpiresAt)
		}
	})
}

func TestTemplatesOfCustomers(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	made := f.ask(201, testKey, "POST", "/v1/templates", obj{"name": "Order ready 2", "category": "UTILITY", "structure": "Hi {{name}}, order {{number}} is ready.", "examples": obj{"name": "Ana"}})
	id := made.member(t, "id").(string)
	for member, want := range map[string]any{
		"name": "Order_ready_2", "category": "UTILITY", "body": "Hi {{name}}, order {{number}} is ready.", "variables": []any{"name", "number"}, "source": "PILOT_STATUS",
		"metaStatus": nil, "metaLanguage": nil, "sendable": true, "version": 1.0, "status": "submitted", "sendableVersion": 1.0,
	} {
		if got := made.member(t, member); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", member, got, want)
		}
	}
	byName := f.ask(200, testKey, "GET", "/v1/templates/order_READY_2", nil)
	if string(byName.body) != string(f.ask(200, testKey, "GET", "/v1/templates/"+id, nil).body) || string(byName.body) != string(made.body) {
		t.Errorf("by name: %s", byName.body)
	}
	send := func(key string) reply {
		return f.send(key, `{"destinationNumber":"`+canaryNumber+`","templateId":"Order_ready_2","variables":{"name":"Ana","number":"7","reason":"x"}}`)
	}
	if r := send(testKey); r.status != http.StatusAccepted {
		t.Errorf("TEST: %s", r.body)
	}
	wantCode(t, send(liveKey), events.CodeNotForProduction)
	if r := f.ask(200, liveKey, "GET", "/v1/templates/"+id, nil); r.member(t, "sendable") != false || r.member(t, "sendableVersion") != nil {
		t.Errorf("LIVE before approval: %s", r.body)
	}
	for _, step := range []string{"approve", "approve-for-production"} {
		f.want(200, "POST", "templates/"+id+"/versions/1/"+step, nil)
	}
	if r := send(liveKey); r.status != http.StatusAccepted {
		t.Errorf("LIVE: %s", r.body)
	}
	put := obj{"structure": `{"body":{"text":"Hi {{name}}: {{reason}}."},"buttons":[{"type":"QUICK_REPLY","text":"Ok {{number}}"}]}`}
	second := f.ask(200, liveKey, "PUT", "/v1/templates/Order_ready_2", put)
	if second.member(t, "version") != 2.0 || second.member(t, "status") != "submitted" || second.member(t, "sendableVersion") != 1.0 || second.member(t, "sendable") != true ||
		fmt.Sprint(second.member(t, "variables")) != "[name reason number]" {
		t.Errorf("second: %s", second.body)
	}
	if again := f.ask(200, liveKey, "PUT", "/v1/templates/"+id, put); string(again.body) != string(second.body) {
		t.Errorf("the same wording is another version: %s", again.body)
	}
	if r := f.ask(200, testKey, "GET", "/v1/templates/"+id, nil); r.member(t, "sendableVersion") != 2.0 {
		t.Errorf("TEST: %s", r.body)
	}
	f.want(200, "POST", "templates/"+id+"/versions/2/reject", nil)
	if r := f.ask(200, liveKey, "PUT", "/v1/templates/"+id, put); r.member(t, "version") != 3.0 {
		t.Errorf("a rejected wording is not handed in again: %s", r.body)
	}
	renamed := f.ask(200, liveKey, "PUT", "/v1/templates/"+id, obj{"name": "ready", "category": "UTILITY"})
	if renamed.member(t, "name") != "ready" || renamed.member(t, "version") != 3.0 {
		t.Errorf("renamed: %s", renamed.body)
	}
	if n := len(f.ask(200, liveKey, "GET", "/api/v1/templates", nil).elements(t)); n != 6 {
		t.Errorf("%d templates", n)
	}
	if r := f.ask(200, liveKey, "DELETE", "/v1/templates/ready", nil); r.member(t, "id") != id {
		t.Errorf("deleted: %s", r.body)
	}
	f.refused(events.CodeTemplateNotFound, liveKey, "GET", "/v1/templates/"+id, nil)
	f.refused(events.CodeTemplateNotFound, liveKey, "DELETE", "/v1/templates/ready", nil)
	f.ask(201, liveKey, "POST", "/v1/templates", obj{"name": "ready", "category": "OTP", "body": obj{"body": obj{"text": "Free again."}}})
}

func TestFaultsOfCustomersTemplates(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	for _, c := range []struct {
		code events.Code
		body obj
		want []string
	}{
		{events.CodeValidation, obj{}, []string{"name form", "category unknown_value", "structure required"}},
		{events.CodeValidation, obj{"name": "é" + canary, "category": canary, "body": "{{a}} ends {{b}}"}, []string{"name form", "category unknown_value", "structure.body.text starts_with_variable", "structure.body.text ends_with_variable"}},
		{events.CodeValidation, obj{"name": "a", "category": "OTP", "body": "x", "structure": "y"}, []string{"structure exactly_one"}},
		{events.CodeValidation, obj{"name": "a", "category": "OTP", "structure": obj{"body": 7}}, nil},
		{CodeAlreadyExists, obj{"name": "Generic_Notification", "category": "OTP", "body": "x"}, nil},
	} {
		if got := f.refused(c.code, liveKey, "POST", "/v1/templates", c.body); c.want != nil && !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.body, got, c.want)
		}
	}
	f.refused(CodeAlreadyExists, liveKey, "PUT", "/v1/templates/sale", obj{"name": "generic notification"})
	for want, body := range map[string]obj{
		"structure required": {}, "category fixed": {"category": "OTP", "body": "Sale!"}, "structure.body.text ends_with_variable": {"structure": "To {{whom}}"},
	} {
		if got := f.refused(events.CodeValidation, liveKey, "PUT", "/v1/templates/sale", body); !slices.Equal(got, []string{want}) {
			t.Errorf("%v: %v, want %s", body, got, want)
		}
	}
	if f.control.appends != 0 {
		t.Errorf("%d changes by refused requests", f.control.appends)
	}
}

// Of many that take one name at once, one has it.
func TestANameIsTakenOnce(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.control.refuse = 3
	f.start()
	var made, taken atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			r := f.do("POST", "/v1/templates", liveKey, strings.NewReader(fmt.Sprintf(`{"name":"once","category":"OTP","body":"Number %d."}`, i)), "Content-Type", "application/json")
			switch r.status {
			case 201:
				made.Add(1)
			case 409:
				taken.Add(1)
			default:
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 || taken.Load() != 19 {
		t.Errorf("%d made, %d refused", made.Load(), taken.Load())
	}
}
