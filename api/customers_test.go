package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/presence"
)

// setUpByCustomers tells whether a path is of what customers set up.
func setUpByCustomers(path string) bool {
	for _, noun := range []string{"templates", "webhooks", "api-keys", "numbers"} {
		if rest, ok := strings.CutPrefix(path, "/v1/"+noun); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// fakeGateway answers for every instance.
type fakeGateway struct {
	mu      sync.Mutex
	state   NumberState
	pairing Pairing
	err     error
	hangs   bool // until the caller's deadline
	asked   []string
}

func (g *fakeGateway) answer(ctx context.Context, in events.Instance) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, in.ID)
	if g.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return g.err
}

func (g *fakeGateway) ConnectionState(ctx context.Context, in events.Instance) (NumberState, error) {
	err := g.answer(ctx, in)
	return g.state, err
}

func (g *fakeGateway) Connect(ctx context.Context, in events.Instance) (Pairing, error) {
	err := g.answer(ctx, in)
	return g.pairing, err
}

type presences map[string]presence.State

func (f presences) State(id string) presence.State { return f[id] }

func (presences) ParkedWide() []string { return nil }

// customers is an API with a control plane that customers set up.
type customers struct {
	*adminFixture
	gateway  *fakeGateway
	presence presences
}

func newCustomers(t *testing.T) *customers {
	t.Helper()
	f := &customers{adminFixture: newAdmin(t), gateway: &fakeGateway{}, presence: presences{}}
	f.cfg.AllowLoopback, f.cfg.BurstRate = false, -1
	before := f.ports
	f.ports = func(p *Ports) {
		before(p)
		p.Gateway, p.Presence = f.gateway, f.presence
	}
	return f
}

// ask makes a request as a customer and holds the status.
func (f *customers) ask(status int, key, method, path string, body any) reply {
	f.t.Helper()
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			f.t.Fatal(err)
		}
		text = string(raw)
	}
	r := f.do(method, path, key, strings.NewReader(text), "Content-Type", "application/json")
	if r.status != status {
		f.t.Fatalf("%s %s %s: %d, want %d: %s", method, path, text, r.status, status, r.body)
	}
	return r
}

// refused makes a request that must be refused with a code, and gives the faults as "field rule".
func (f *customers) refused(code events.Code, key, method, path string, body any) (faults []string) {
	f.t.Helper()
	r := f.ask(problems[code].status, key, method, path, body)
	wantCode(f.t, r, code)
	if strings.Contains(string(r.body), canary) {
		f.t.Errorf("a value is echoed: %s", r.body)
	}
	details, _ := r.member(f.t, "details").(map[string]any)
	told, _ := details["errors"].([]any)
	for _, e := range told {
		e := e.(map[string]any)
		faults = append(faults, fmt.Sprint(e["field"], " ", e["rule"]))
	}
	return faults
}

// elements gives the elements of a JSON list.
func (r reply) elements(t *testing.T) (out []map[string]any) {
	t.Helper()
	if err := json.Unmarshal(r.body, &out); err != nil || out == nil {
		t.Fatalf("body is no list: %v: %s", err, r.body)
	}
	return out
}

// limitedKey records a key with a project and some scopes.
func (f *customers) limitedKey(raw, tenant, project string, env events.Environment, change ...func(*events.Key)) string {
	f.control.mu.Lock()
	defer f.control.mu.Unlock()
	k := key(raw, tenant, project, env, change...)
	define(f.control.cat, events.KindKey, k.ID, k)
	return raw
}

// customerOperations lists the operations on what customers set up as the document has them: method, path, scope.
func (f *customers) operations() (ops [][3]string) {
	f.t.Helper()
	paths, _ := f.get("/openapi.json", "").member(f.t, "paths").(map[string]any)
	for path, operations := range paths {
		for method, op := range operations.(map[string]any) {
			if setUpByCustomers(path) {
				security := op.(map[string]any)["security"].([]any)[0].(map[string]any)
				ops = append(ops, [3]string{strings.ToUpper(method), path, security[schemeName].([]any)[0].(string)})
			}
		}
	}
	if len(ops) < 18 {
		f.t.Fatalf("only %d operations", len(ops))
	}
	return ops
}

// Every operation needs its scope, and is nothing for operators.
func TestCustomersOperationsNeedTheirScopes(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	lacking := map[string]string{}
	for i, scope := range events.KeyScopes() {
		raw := fmt.Sprintf("ps_live_lack000%d_secretsecret", i)
		lacking[scope] = f.limitedKey(raw, "acme", "shop", events.Live, func(k *events.Key) {
			k.ID = fmt.Sprint("lacks-", i)
			k.Scopes = slices.DeleteFunc(events.KeyScopes(), func(s string) bool { return s == scope })
		})
	}
	for _, op := range f.operations() {
		path := placeholder.ReplaceAllString(op[1], "x")
		wantCode(t, f.do(op[0], path, lacking[op[2]], strings.NewReader("{}")), CodeInsufficientScope)
		wantCode(t, f.do(op[0], path, f.ana, strings.NewReader("{}")), events.CodeUnauthorized)
		if r := f.do(op[0], path, liveKey, strings.NewReader("{}")); r.status == http.StatusForbidden || r.status == http.StatusUnauthorized {
			t.Errorf("%s %s with every scope: %d", op[0], path, r.status)
		}
	}
}

// What belongs to another account, project or environment is not there, whatever is asked of it: promise P12, tenant B on every id of
// tenant A.
func TestWhatIsAnothersIsNotThere(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.start()
	hook := f.ask(201, liveKey, "POST", "/v1/webhooks", obj{"url": "https://example.com/acme-hook"}).member(t, "id").(string)
	tpl := f.ask(201, liveKey, "POST", "/v1/templates", obj{"name": "acme_only", "category": "OTP", "body": "Hi."}).member(t, "id").(string)
	key := f.ask(201, liveKey, "POST", "/v1/api-keys", obj{"name": "acme-key"}).member(t, "id").(string)
	ids := map[string][]string{"webhooks": {hook}, "templates": {tpl, "acme_only", "t-note"}, "numbers": {"own", "shared"}}
	strangers := map[string][]string{ // whose key does not see what liveKey made
		"webhooks": {otherKey, testKey, rawProject}, "templates": {otherKey, rawProject}, "numbers": {otherKey},
	}
	before := f.control.appends
	n := 0
	for _, op := range f.operations() {
		noun, _, _ := strings.Cut(strings.TrimPrefix(op[1], "/v1/"), "/")
		if !strings.Contains(op[1], "{id}") {
			continue
		}
		for _, id := range ids[noun] {
			for _, stranger := range strangers[noun] {
				n++
				r := f.do(op[0], strings.Replace(op[1], "{id}", id, 1), stranger, strings.NewReader(`{"name":"taken_over","body":"Mine.","active":false}`), "Content-Type", "application/json")
				want := map[string]events.Code{"webhooks": CodeWebhookNotFound, "templates": events.CodeTemplateNotFound, "numbers": CodeNumberNotFound}[noun]
				if wantCode(t, r, want); r.status != http.StatusNotFound {
					t.Errorf("%s %s of %s: %d", op[0], op[1], id, r.status)
				}
			}
		}
	}
	if n < 40 || f.control.appends != before || len(f.gateway.asked) != 0 {
		t.Errorf("%d requests, %d changes, gateway asked for %v", n, f.control.appends-before, f.gateway.asked)
	}
	for noun, all := range map[string][]string{"webhooks": {hook}, "templates": {tpl, "t-note"}, "numbers": {"own", "shared"}, "api-keys": {key, "acme-key"}} {
		for _, stranger := range append([]string{otherKey}, strangers[noun]...) {
			list := string(f.ask(200, stranger, "GET", "/v1/"+noun, nil).body)
			for _, id := range all {
				if strings.Contains(list, `"`+id+`"`) {
					t.Errorf("%s lists %s to a stranger", noun, id)
				}
			}
		}
	}
	for field, id := range map[string]string{"webhookId": hook, "whatsappInstanceId": "own"} {
		foreign := f.refused(events.CodeValidation, otherKey, "POST", "/v1/api-keys", obj{"name": "k", field: id})
		none := f.refused(events.CodeValidation, otherKey, "POST", "/v1/api-keys", obj{"name": "k", field: "none"})
		if !slices.Equal(foreign, []string{field + " unknown"}) || !slices.Equal(foreign, none) {
			t.Errorf("key on another's %s: %v, on none: %v", field, foreign, none)
		}
	}
}

func TestNumbersOfCustomers(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	f.cfg.NumberTimeout = 20 * time.Millisecond
	f.start()
	list := f.ask(200, liveKey, "GET", "/v1/numbers", nil).elements(t)
	if len(list) != 1 || list[0]["id"] != "own" || list[0]["state"] != "CONNECTING" || list[0]["instanceName"] != "acme-1" || len(list[0]["apiKeys"].([]any)) != 1 {
		t.Errorf("numbers: %v", list)
	}
	f.presence["own"] = presence.State{Connection: presence.Closed}
	if r := f.ask(200, liveKey, "GET", "/v1/numbers/own", nil); r.member(t, "state") != "CLOSE" || r.member(t, "isFullyConnected") != false {
		t.Errorf("closed: %s", r.body)
	}
	for _, c := range []struct {
		told  NumberState
		err   error
		hangs bool
		want  string
		live  bool
	}{
		{told: NumberOpen, want: "OPEN", live: true},
		{told: NumberConnecting, want: "CONNECTING", live: true},
		{told: NumberClose, want: "CLOSE", live: true},
		{want: "CLOSE"},
		{err: errors.New(canary), want: "CLOSE"},
		{hangs: true, want: "CLOSE"},
	} {
		f.gateway.state, f.gateway.err, f.gateway.hangs = c.told, c.err, c.hangs
		r := f.ask(200, liveKey, "GET", "/v1/numbers/own/status", nil)
		if r.member(t, "id") != "own" || r.member(t, "state") != c.want || r.member(t, "live") != c.live {
			t.Errorf("%+v: %s", c, r.body)
		}
	}
	f.gateway.state, f.gateway.err = "", nil
	if faults := f.refused(events.CodeUnavailable, liveKey, "GET", "/v1/numbers/own/connect", nil); faults != nil { // it hangs
		t.Errorf("faults: %v", faults)
	}
	f.gateway.hangs = false
	if r := f.ask(200, liveKey, "GET", "/v1/numbers/own/connect", nil); r.member(t, "qrcodeBase64") != nil || r.member(t, "state") != "CONNECTING" {
		t.Errorf("without a code: %s", r.body)
	}
	f.gateway.pairing = Pairing{Picture: "data:image/png;base64,AA==", Text: "2@x", Code: "ABCD-1234"}
	r := f.ask(200, liveKey, "GET", "/api/v1/numbers/own/connect", nil)
	if r.member(t, "qrcodeBase64") != "data:image/png;base64,AA==" || r.member(t, "pairingCode") != "ABCD-1234" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("code: %v %s", r.header, r.body)
	}
	f.gateway.pairing = Pairing{Open: true}
	f.refused(events.CodeConflict, liveKey, "GET", "/v1/numbers/own/connect", nil)
	f.gateway.err = errors.New("down")
	f.refused(events.CodeUnavailable, liveKey, "GET", "/v1/numbers/own/connect", nil)
	if strings.Contains(f.logged.String(), "ABCD-1234") {
		t.Error("a pairing code is logged")
	}
}

// Without a gateway port states are those last known, and nothing is paired.
func TestNumbersWithoutAGateway(t *testing.T) {
	t.Parallel()
	f := newCustomers(t)
	before := f.ports
	f.ports = func(p *Ports) {
		before(p)
		p.Gateway = nil
	}
	f.presence["own"] = presence.State{Connection: presence.Open}
	f.start()
	if r := f.ask(200, liveKey, "GET", "/v1/numbers/own/status", nil); r.member(t, "state") != "OPEN" || r.member(t, "live") != false {
		t.Errorf("status: %s", r.body)
	}
	f.refused(events.CodeUnavailable, liveKey, "GET", "/v1/numbers/own/connect", nil)
}

// endpointOf gives an endpoint as recorded.
func (f *customers) endpointOf(id string) (e events.Endpoint) {
	f.control.Read(func(c *catalog.Catalog) { e, _ = c.Endpoint(id) })
	return e
}
