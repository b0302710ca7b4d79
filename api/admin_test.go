package api

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// adminOperations lists the operations of operators as the document has them: method, path, scope.
func adminOperations(t *testing.T, f *fixture) (ops [][3]string) {
	t.Helper()
	paths, _ := f.get("/openapi.json", "").member(t, "paths").(map[string]any)
	for path, operations := range paths {
		if !strings.HasPrefix(path, adminPrefix) {
			continue
		}
		for method, op := range operations.(map[string]any) {
			security := op.(map[string]any)["security"].([]any)[0].(map[string]any)
			scope := security[operatorScheme].([]any)[0].(string)
			ops = append(ops, [3]string{strings.ToUpper(method), placeholder.ReplaceAllString(path, "x"), scope})
		}
	}
	return ops
}

// Every route of operators refuses strangers, customers, operators without the scope, and operators of yesterday; operators'
// keys open nothing of customers.
func TestAdminRoutesAreForOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	ended := f.operator("late", events.OperatorScopes()...)
	f.control.mu.Lock()
	o, _ := f.control.cat.Operator("late")
	o.RevokedAt = clock
	define(f.control.cat, events.KindOperator, "late", o)
	f.control.mu.Unlock()
	others := map[string]string{}
	for _, scope := range events.OperatorScopes() {
		rest := slices.DeleteFunc(events.OperatorScopes(), func(s string) bool { return s == scope })
		others[scope] = f.operator("no-"+scope, rest...)
	}
	ops := adminOperations(t, f.fixture)
	if len(ops) < 20 {
		t.Fatalf("only %d operations", len(ops))
	}
	for _, op := range ops {
		method, path, scope := op[0], op[1], op[2]
		for name, c := range map[string]struct {
			key  string
			want events.Code
		}{
			"nobody": {"", events.CodeUnauthorized}, "a customer": {liveKey, events.CodeUnauthorized}, "a revoked operator": {ended, events.CodeUnauthorized},
			"another secret": {f.ana[:len(f.ana)-1] + "0", events.CodeUnauthorized}, "without the scope": {others[scope], CodeInsufficientScope},
		} {
			r := f.do(method, path, c.key, strings.NewReader("{}"))
			if got := r.member(t, "code"); got != string(c.want) {
				t.Errorf("%s %s as %s: %v, want %s", method, path, name, got, c.want)
			}
		}
		if r := f.do(method, path, f.ana, strings.NewReader("{}")); r.status == http.StatusUnauthorized || r.status == http.StatusForbidden {
			t.Errorf("%s %s as ana: %d", method, path, r.status)
		}
	}
	wantCode(t, f.send(f.ana, note), events.CodeUnauthorized)
	wantCode(t, f.get("/v1/messages/x", f.ana), events.CodeUnauthorized)
}

func TestScopesOfCustomersKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i, scopes := range [][]string{{events.ScopeRead}, {events.ScopeSend}} {
		raw := fmt.Sprintf("ps_live_scop000%d_secret", i)
		define(f.catalog.cat, events.KindKey, fmt.Sprint("key-scope-", i), key(raw, "acme", "shop", events.Live, func(k *events.Key) {
			k.ID, k.Scopes = fmt.Sprint("key-scope-", i), scopes
		}))
	}
	f.start()
	wantCode(t, f.send("ps_live_scop0000_secret", note), CodeInsufficientScope)
	wantCode(t, f.cancel("ps_live_scop0000_secret", "msg_x"), CodeInsufficientScope)
	wantCode(t, f.get("/v1/messages/x", "ps_live_scop0001_secret"), CodeInsufficientScope)
	wantCode(t, f.get("/v1/messages/x", "ps_live_scop0000_secret"), events.CodeNotFound)
	if r := f.send("ps_live_scop0001_secret", note); r.status != http.StatusAccepted {
		t.Errorf("send: %d", r.status)
	}
}

// The life of a tenant: created, read, listed, changed, conflicts told, removed, never created again; all of it in its history.
func TestTenantByOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	made := f.want(201, "POST", "tenants", obj{"id": "nova", "name": "Nova", "timeZone": "America/Bahia"})
	if made.header.Get("Location") != "/v1/admin/tenants/nova" || made.member(t, "name") != "Nova" {
		t.Errorf("created: %v %s", made.header, made.body)
	}
	first := made.header.Get("ETag")
	if got := f.want(200, "GET", "tenants/nova", nil); got.header.Get("ETag") != first || string(got.body) != string(made.body) {
		t.Errorf("read: %v %s", got.header, got.body)
	}
	wantCode(t, f.as(f.ana, "POST", "tenants", obj{"id": "nova", "name": "Nova"}), CodeAlreadyExists)
	wantCode(t, f.as(f.ana, "PUT", "tenants/nova", obj{"name": "N"}), CodePreconditionRequired)
	changed := f.want(200, "PUT", "tenants/nova", obj{"name": "Nova 2", "suspended": true}, "If-Match", first)
	wantCode(t, f.as(f.ana, "PUT", "tenants/nova", obj{"name": "N"}, "If-Match", first), CodePreconditionFailed)
	wantCode(t, f.as(f.ana, "PUT", "tenants/nova", obj{"name": "N"}, "If-Match", "W/"+changed.header.Get("ETag")), CodePreconditionFailed)
	wantCode(t, f.as(f.ana, "PUT", "tenants/nova", obj{"id": "other", "name": "N"}, "If-Match", "*"), events.CodeValidation)
	wantCode(t, f.as(f.ana, "PUT", "tenants/none", obj{"name": "N"}, "If-Match", "*"), events.CodeNotFound)
	wantCode(t, f.as(f.ana, "DELETE", "tenants/nova", nil), CodePreconditionRequired)
	wantCode(t, f.as(f.ana, "DELETE", "tenants/acme", nil, "If-Match", "*"), CodeInUse)
	f.want(204, "DELETE", "tenants/nova", nil, "If-Match", changed.header.Get("ETag"))
	wantCode(t, f.as(f.ana, "GET", "tenants/nova", nil), events.CodeNotFound)
	wantCode(t, f.as(f.ana, "DELETE", "tenants/nova", nil, "If-Match", "*"), events.CodeNotFound)
	wantCode(t, f.as(f.ana, "POST", "tenants", obj{"id": "nova", "name": "Again"}), CodeAlreadyExists)

	data, _ := f.want(200, "GET", "tenants/nova/history", nil).member(t, "data").([]any)
	var told []string
	for _, c := range data {
		c := c.(map[string]any)
		value, _ := c["value"].(map[string]any)
		told = append(told, fmt.Sprint(c["by"], " ", c["reason"], " ", value["name"], " ", c["removed"]))
	}
	if want := []string{"operator:ana test Nova <nil>", "operator:ana test Nova 2 <nil>", "operator:ana test <nil> true"}; !slices.Equal(told, want) {
		t.Errorf("history: %q", told)
	}
	wantCode(t, f.as(f.ana, "GET", "tenants/none/history", nil), events.CodeNotFound)
}

func TestListsOfOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	for i := range 7 {
		f.want(201, "POST", "tenants", obj{"id": fmt.Sprint("t-", i), "name": "T"})
	}
	var ids []string
	path := "tenants?limit=4"
	for next := ""; ; {
		r := f.want(200, "GET", path+next, nil)
		for _, v := range r.member(t, "data").([]any) {
			ids = append(ids, v.(map[string]any)["id"].(string))
		}
		after, more := r.member(t, "next").(string)
		if !more {
			break
		}
		next = "&after=" + after
	}
	if want := []string{"acme", "late", "rival", "t-0", "t-1", "t-2", "t-3", "t-4", "t-5", "t-6"}; !slices.Equal(ids, want) {
		t.Errorf("tenants: %v", ids)
	}
	wantCode(t, f.as(f.ana, "GET", "projects", nil), events.CodeValidation)
	if data := f.want(200, "GET", "projects?tenantId=acme", nil).member(t, "data").([]any); len(data) != 2 {
		t.Errorf("projects of acme: %v", data)
	}
	if data := f.want(200, "GET", "projects?tenantId=none", nil).member(t, "data").([]any); len(data) != 0 {
		t.Errorf("projects of nobody: %v", data)
	}
}

// All faults of a request come at once, by place and rule, and never with a value.
func TestFaultsOfOperatorsRequests(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	for _, c := range []struct {
		method, path string
		body         any
		want         []string
	}{
		{"POST", "tenants", obj{"name": 7, "colour": canary, "suspended": canary}, []string{"body.name wrong_type", "body.colour unknown_field", "body.suspended wrong_type"}},
		{"POST", "tenants", obj{}, []string{"body.name required"}},
		{"POST", "tenants", obj{"id": canary, "name": "x"}, []string{"id token"}},
		{"POST", "tenants", obj{"name": "\n", "timeZone": canary, "planId": canary}, []string{"name required", "timeZone time_zone", "planId unknown"}},
		{"POST", "projects", obj{"tenantId": canary, "name": "x", "retentionDays": -1}, []string{"body.retentionDays out_of_range"}},
		{"POST", "keys", obj{"tenantId": "acme", "projectId": "rivals", "environment": "LIVE", "name": "k", "scopes": []string{canary}}, []string{"projectId unknown", "scopes[0] unknown_value"}},
		{"POST", "keys", obj{"tenantId": "acme", "projectId": "shop", "environment": "LAB", "name": "k"}, []string{"body.environment unknown_value"}},
		{"POST", "keys", obj{"tenantId": "acme", "projectId": "shop", "environment": "LIVE", "name": "k", "expiresAt": "tomorrow"}, []string{"body.expiresAt date_time"}},
		{"POST", "operators", obj{"name": "Ana Maria", "scopes": []string{}}, []string{"name token", "scopes required"}},
		{"POST", "tenants/acme/profile-numbers", obj{"number": "0" + canaryNumber[1:]}, []string{"number country_code"}},
		{"GET", "tenants?limit=501", nil, []string{"query.limit out_of_range"}},
	} {
		r := f.as(f.ana, c.method, c.path, c.body)
		if r.status != http.StatusBadRequest {
			t.Errorf("%s %v: %d %s", c.path, c.body, r.status, r.body)
			continue
		}
		var got []string
		details, _ := r.member(t, "details").(map[string]any)
		for _, e := range details["errors"].([]any) {
			e := e.(map[string]any)
			got = append(got, fmt.Sprint(e["field"], " ", e["rule"]))
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) || strings.Contains(string(r.body), canary) {
			t.Errorf("%s %v:\n got %q\nwant %q\n%s", c.path, c.body, got, c.want, r.body)
		}
	}
	for _, reason := range []string{"", "   "} {
		r := f.do("POST", "/v1/admin/tenants", f.ana, strings.NewReader(`{"name":"x"}`), "X-Reason", reason)
		wantCode(t, r, events.CodeValidation)
		if !strings.Contains(string(r.body), "X-Reason") {
			t.Errorf("reason %q: %s", reason, r.body)
		}
	}
	if n := len(f.control.log); n > 0 {
		t.Errorf("%d events were recorded", n)
	}
}

// In each round 50 writers change the version that all of them read: exactly one wins, the others are told so.
func TestOneWriterWins(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	version := f.want(201, "POST", "tenants", obj{"id": "nova", "name": "Nova"}).header.Get("ETag")
	for round := range 3 {
		var won, lost atomic.Int32
		var winner atomic.Value
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				r := f.as(f.ana, "PUT", "tenants/nova", obj{"name": fmt.Sprint(round, "-", i)}, "If-Match", version)
				switch r.status {
				case 200:
					won.Add(1)
					winner.Store(r)
				case 412:
					lost.Add(1)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 || lost.Load() != 49 {
			t.Fatalf("round %d: %d won, %d lost", round, won.Load(), lost.Load())
		}
		r := winner.Load().(reply)
		got := f.want(200, "GET", "tenants/nova", nil)
		if string(got.body) != string(r.body) {
			t.Errorf("stored %s, won %s", got.body, r.body)
		}
		version = got.header.Get("ETag")
	}
}

// A write that others came before is judged again; with others always coming before it is refused in the end.
func TestWriteIsJudgedAgain(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	f.control.refuse = 3
	f.want(201, "POST", "tenants", obj{"id": "nova", "name": "Nova"})
	if f.control.appends != 4 {
		t.Errorf("%d appends", f.control.appends)
	}
	f.control.refuse = 1 << 20
	wantCode(t, f.as(f.ana, "POST", "tenants", obj{"name": "Late"}), events.CodeConflict)
}

// A process that lags behind CONTROL neither writes nor trusts an operator's key: it may have been revoked.
func TestOperatorsWithCatalogBehind(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.control.behind = 6 * time.Second
	f.start()
	for _, r := range []reply{f.as(f.ana, "GET", "tenants", nil), f.as(f.ana, "POST", "tenants", obj{"name": "x"})} {
		wantCode(t, r, events.CodeUnavailable)
	}
}

// Each audience can be served alone.
func TestAudiences(t *testing.T) {
	t.Parallel()
	for only, want := range map[Audience][2]int{"": {202, 200}, OnlyCustomers: {202, 404}, OnlyAdmin: {404, 200}} {
		f := newAdmin(t)
		f.cfg.Only = only
		f.start()
		got := [2]int{f.send(liveKey, note).status, f.as(f.ana, "GET", "tenants", nil).status}
		if got != want {
			t.Errorf("%q: %v, want %v", only, got, want)
		}
		if r := f.get("/livez", ""); r.status != 200 {
			t.Errorf("%q: livez %d", only, r.status)
		}
	}
}

var rawKey = regexp.MustCompile(`ps_(live|test|oper)_[a-z0-9]{8}_[0-9A-Za-z]{49}`)

func TestKeysByOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	made := f.want(201, "POST", "keys", obj{"id": "web", "tenantId": "acme", "projectId": "shop", "environment": "LIVE", "name": "web", "scopes": []string{"send"}})
	raw := made.member(t, "key").(string)
	if !rawKey.MatchString(raw) || !strings.HasPrefix(raw, made.member(t, "prefix").(string)) {
		t.Fatalf("%s", made.body)
	}
	if r := f.send(raw, note); r.status != 202 {
		t.Errorf("send with the new key: %d %s", r.status, r.body)
	}
	until := clock.Add(time.Hour)
	rotated := f.want(201, "POST", "keys/web/rotate", obj{"oldValidUntil": stamp(until)})
	second := rotated.member(t, "key").(string)
	for name, k := range map[string]string{"old": raw, "new": second} {
		if r := f.send(k, note); r.status != 202 {
			t.Errorf("%s key in the overlap: %d", name, r.status)
		}
	}
	var old events.Key
	f.control.Read(func(c *catalog.Catalog) { old, _ = c.Key("web") })
	if !old.ExpiresAt.Equal(until) {
		t.Errorf("the old key ends at %s", old.ExpiresAt)
	}
	f.want(201, "POST", "keys/web/rotate", obj{}) // ends it now
	wantCode(t, f.send(raw, note), events.CodeUnauthorized)
	wantCode(t, f.as(f.ana, "POST", "keys/web/rotate", obj{}), events.CodeConflict)
	id := rotated.member(t, "id").(string)
	f.want(200, "POST", "keys/"+id+"/revoke", nil)
	wantCode(t, f.send(second, note), events.CodeUnauthorized)
	again := f.want(200, "POST", "keys/"+id+"/revoke", nil)
	if again.member(t, "revokedAt") == nil {
		t.Errorf("revoked twice: %s", again.body)
	}
	wantCode(t, f.as(f.ana, "POST", "keys/none/revoke", nil), events.CodeNotFound)
	wantCode(t, f.as(f.ana, "POST", "keys/none/rotate", obj{}), events.CodeNotFound)

	for _, path := range []string{"keys/web", "keys/web/history", "keys?tenantId=acme"} {
		if r := f.want(200, "GET", path, nil); rawKey.Match(r.body) || strings.Contains(string(r.body), old.SHA256) {
			t.Errorf("%s shows a secret: %s", path, r.body)
		}
	}
}

func TestOperatorsByOperators(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	keeper := f.operator("keeper", events.OperatorRead, events.OperatorKeys)
	f.start()
	made := f.want(201, "POST", "operators", obj{"id": "bia-1", "name": "bia", "scopes": []string{"read", "write"}})
	bia := made.member(t, "key").(string)
	if r := f.as(bia, "POST", "tenants", obj{"id": "by-bia", "name": "B"}); r.status != 201 {
		t.Errorf("bia: %d %s", r.status, r.body)
	}
	if r := f.want(200, "GET", "tenants/by-bia/history", nil); !strings.Contains(string(r.body), "operator:bia") {
		t.Errorf("author: %s", r.body)
	}
	wantCode(t, f.as(keeper, "POST", "operators", obj{"name": "eve", "scopes": []string{"write"}}), CodeInsufficientScope)
	f.want(200, "POST", "operators/bia-1/revoke", nil)
	wantCode(t, f.as(bia, "GET", "tenants", nil), events.CodeUnauthorized)
}

// Numbers of people are kept as a hash and sealed; their key dies with them.
func TestProfileNumbers(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	define(f.catalog.cat, events.KindTenant, "acme", events.Tenant{ID: "acme"}) // none yet
	f.start()
	f.want(200, "PUT", "tenants/acme", obj{"name": "Acme"}, "If-Match", "*")
	made := f.want(201, "POST", "tenants/acme/profile-numbers", obj{"number": canaryNumber})
	id := made.member(t, "id").(string)
	wantCode(t, f.as(f.ana, "POST", "tenants/acme/profile-numbers", obj{"number": canaryNumber[1:]}), CodeAlreadyExists)
	f.want(200, "PUT", "tenants/acme", obj{"name": "Acme"}, "If-Match", made.header.Get("ETag"))
	if r := f.want(200, "GET", "tenants/acme/profile-numbers", nil); !strings.Contains(string(r.body), id) || !strings.Contains(string(r.body), "*") {
		t.Errorf("numbers: %s", r.body)
	}
	f.eraser.err = fmt.Errorf("away")
	wantCode(t, f.as(f.ana, "DELETE", "tenants/acme/profile-numbers/"+id, nil), events.CodeUnavailable)
	f.eraser.err = nil
	wantCode(t, f.as(f.ana, "DELETE", "tenants/acme/profile-numbers/"+id, nil), events.CodeNotFound) // and erased now
	if want := "acme.n-" + id; len(f.eraser.erased) != 2 || f.eraser.erased[1] != want {
		t.Errorf("erased %v", f.eraser.erased)
	}
	for _, text := range append(f.answers, f.logged.String()) {
		if strings.Contains(text, canaryNumber[4:]) {
			t.Errorf("a number is shown: %s", text)
		}
	}
	wantCode(t, f.as(f.ana, "DELETE", "tenants/acme/profile-numbers/x", nil), events.CodeNotFound)
	wantCode(t, f.as(f.ana, "GET", "tenants/none/profile-numbers", nil), events.CodeNotFound)
	wantCode(t, f.as(f.ana, "POST", "tenants/none/profile-numbers", obj{"number": canaryNumber}), events.CodeNotFound)
}
