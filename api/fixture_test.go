package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

const (
	liveKey     = "ps_live_aaaa1111_secretsecretsecret"
	testKey     = "ps_test_bbbb2222_secretsecretsecret"
	ownKey      = "ps_live_cccc3333_secretsecretsecret" // bound to the tenant's own instance
	otherKey    = "ps_live_dddd4444_secretsecretsecret" // of another tenant
	rawProject  = "ps_live_eeee5555_secretsecretsecret" // of a project not approved
	revokedKey  = "ps_live_ffff6666_secretsecretsecret"
	expiredKey  = "ps_live_gggg7777_secretsecretsecret"
	pausedKey   = "ps_live_hhhh8888_secretsecretsecret" // of a suspended tenant
	strayKey    = "ps_live_iiii9999_secretsecretsecret" // bound to another tenant's instance
	importedKey = "ps_oldkeyoftheoldsystem"

	canary       = "CANARY-7f3a-secret"
	canaryNumber = "+5511987650123"
)

var clock = time.Date(2026, 11, 29, 15, 22, 1, 123e6, time.UTC)

type fakeCatalog struct {
	cat    *catalog.Catalog
	behind time.Duration
}

func (f *fakeCatalog) Read(read func(*catalog.Catalog)) { read(f.cat) }
func (f *fakeCatalog) Behind() time.Duration            { return f.behind }

type fakeLog struct {
	append func(context.Context, events.Event) (uint64, error)
}

func (f *fakeLog) Append(ctx context.Context, e events.Event) (uint64, error) {
	return f.append(ctx, e)
}

type fakeKeyring struct {
	seal func(tenant, keyID string, aad, plain []byte) (events.Sealed, error)
	open func(tenant string, s events.Sealed, aad []byte) ([]byte, error)
}

func (f *fakeKeyring) Seal(_ context.Context, tenant, keyID string, aad, plain []byte) (events.Sealed, error) {
	return f.seal(tenant, keyID, aad, plain)
}

func (f *fakeKeyring) Open(_ context.Context, tenant string, s events.Sealed, aad []byte) ([]byte, error) {
	return f.open(tenant, s, aad)
}

type fakeHasher func(tenant, purpose string, data []byte) (string, error)

func (f fakeHasher) Hash(_ context.Context, tenant, purpose string, data []byte) (string, error) {
	return f(tenant, purpose, data)
}

type fakeViews struct {
	message  func(context.Context, Scope, string) (MessageView, error)
	timeline func(context.Context, Scope, string) ([]TimelineEntry, error)
	wait     func(context.Context, events.Partition, uint64) error
}

func (f *fakeViews) Message(ctx context.Context, s Scope, id string) (MessageView, error) {
	return f.message(ctx, s, id)
}

func (f *fakeViews) Timeline(ctx context.Context, s Scope, id string) ([]TimelineEntry, error) {
	return f.timeline(ctx, s, id)
}

func (f *fakeViews) WaitFor(ctx context.Context, p events.Partition, seq uint64) error {
	return f.wait(ctx, p, seq)
}

type fakeHeads func(context.Context, events.Partition) (uint64, error)

func (f fakeHeads) Last(ctx context.Context, p events.Partition) (uint64, error) { return f(ctx, p) }

type fakeRecords func(context.Context, Scope, []string) ([]MessageRecord, error)

func (f fakeRecords) Records(ctx context.Context, s Scope, ids []string) ([]MessageRecord, error) {
	return f(ctx, s, ids)
}

type fakeFinder func(p events.Partition, since, until time.Time, ids []string) (map[string]events.Recorded, error)

func (f fakeFinder) Find(_ context.Context, p events.Partition, since, until time.Time, ids []string) (map[string]events.Recorded, error) {
	return f(p, since, until, ids)
}

// sealMark stands before what the fake keyring sealed, so that a test sees whether it was sealed, for whom and for what.
func sealMark(tenant, keyID string, aad []byte) string {
	return "sealed|" + tenant + "|" + keyID + "|" + string(aad) + "|"
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// fixture is an API over fakes that keep what was appended, behind real HTTP.
type fixture struct {
	t         *testing.T
	catalog   *fakeCatalog
	log       *fakeLog
	keyring   *fakeKeyring
	hasher    fakeHasher
	views     *fakeViews
	heads     fakeHeads
	records   fakeRecords
	fence     *fakeFence
	finder    fakeFinder
	loads     Loads
	claims    *fakeClaims
	recall    *fakeRecall
	reads     fakeReads
	checks    []Check
	cfg       Config
	ports     func(*Ports) // changes them before the start
	now       time.Time
	originals map[string]events.Recorded // by message id
	placeErr  error
	wordsErr  error

	logged   syncBuffer
	mu       sync.Mutex
	appended []events.Event
	server   *httptest.Server
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, now: clock, catalog: &fakeCatalog{cat: testCatalog()}}
	f.cfg = Config{Log: zerolog.New(&f.logged), ViewWait: 50 * time.Millisecond}
	f.log = &fakeLog{append: func(_ context.Context, e events.Event) (uint64, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.appended = append(f.appended, e)
		return uint64(len(f.appended)) + 41, nil
	}}
	f.keyring = &fakeKeyring{
		seal: func(tenant, keyID string, aad, plain []byte) (events.Sealed, error) {
			return events.Sealed{KeyID: keyID, Blob: []byte(sealMark(tenant, keyID, aad) + string(plain))}, nil
		},
		open: func(tenant string, s events.Sealed, aad []byte) ([]byte, error) {
			plain, ok := strings.CutPrefix(string(s.Blob), sealMark(tenant, s.KeyID, aad))
			if !ok {
				t.Error("opened with other associated data than it was sealed with")
			}
			return []byte(plain), nil
		},
	}
	f.hasher = func(tenant, purpose string, data []byte) (string, error) {
		sum := sha256.Sum256([]byte(tenant + "|" + purpose + "|" + string(data)))
		return hex.EncodeToString(sum[:]), nil
	}
	f.views = &fakeViews{
		message:  func(context.Context, Scope, string) (MessageView, error) { return MessageView{}, miss() },
		timeline: func(context.Context, Scope, string) ([]TimelineEntry, error) { return nil, nil },
		wait:     func(context.Context, events.Partition, uint64) error { return nil },
	}
	f.heads = func(context.Context, events.Partition) (uint64, error) { return 99, nil }
	f.claims, f.recall = &fakeClaims{}, &fakeRecall{}
	f.records = func(context.Context, Scope, []string) ([]MessageRecord, error) { return nil, nil }
	f.fence = &fakeFence{groups: map[string][]events.Recorded{}}
	f.finder = func(events.Partition, time.Time, time.Time, []string) (map[string]events.Recorded, error) {
		return nil, nil
	}
	f.claims, f.recall = &fakeClaims{}, &fakeRecall{}
	f.reads = noReads()
	return f
}

func miss() error { return events.Errorf(events.CodeNotFound, "no message with this id") }

// start serves the API as it is set up now.
func (f *fixture) start() *fixture {
	f.t.Helper()
	ports := Ports{
		Catalog: f.catalog, Log: f.log, Keyring: f.keyring, Hasher: f.hasher, Views: f.views, Heads: f.heads, Checks: f.checks,
		Records: f.records, Fence: f.fence, Finder: f.finder, Loads: f.loads, Claims: f.claims, Recall: f.recall,
		Reads: f.reads.ports(), Hooks: f.log,
		AAD: func(tenant, entity, field string) []byte { return []byte(tenant + "/" + entity + "/" + field) },
		Now: func() time.Time { return f.now },
		NewID: func() uuid.UUID {
			u := uuid.Must(uuid.NewV7())
			ms := f.now.UnixMilli()
			for i := range 6 {
				u[5-i] = byte(ms >> (8 * i))
			}
			return u
		},
	}
	ports.Control, ports.Secrets, ports.Eraser = &memoryControl{fakeCatalog: *f.catalog}, memorySecrets{}, &memoryEraser{}
	ports.Words, ports.Originals = fakeWords{f}, fakeOriginals{f}
	if f.ports != nil {
		f.ports(&ports)
	}
	a := New(f.cfg, ports)
	f.server = httptest.NewUnstartedServer(nil)
	f.server.Config = NewServer("", a)
	f.server.Start()
	server := f.server
	f.t.Cleanup(func() {
		server.Client().CloseIdleConnections()
		server.Close()
		server.Config.Handler = nil // a test that has ended is kept until all have, with what its clean-up holds
	})
	return f
}

func (f *fixture) events() []events.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]events.Event{}, f.appended...)
}

// reply is an answer that was read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// member gives a member of a JSON body.
func (r reply) member(t *testing.T, name string) any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatalf("body is no JSON object: %v: %s", err, r.body)
	}
	return m[name]
}

// do makes a request and holds the answer against the served document.
func (f *fixture) do(method, path, key string, body io.Reader, header ...string) reply {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-Api-Key", key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.server.Client().Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header, body: b}
	checkAgainstDocument(f.t, req, r)
	checkProblem(f.t, r)
	return r
}

func (f *fixture) send(key, body string, header ...string) reply {
	f.t.Helper()
	return f.do(http.MethodPost, "/v1/messages/send", key, strings.NewReader(body), header...)
}

func (f *fixture) get(path, key string) reply {
	f.t.Helper()
	return f.do(http.MethodGet, path, key, nil)
}

// checkProblem holds every error to the shape that all errors have.
func checkProblem(t *testing.T, r reply) {
	t.Helper()
	if r.header.Get("X-Request-Id") == "" || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("status %d: a header of every answer is missing", r.status)
	}
	if r.status < 400 || r.header.Get("Content-Type") == "application/json" {
		return
	}
	var p Problem
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatalf("status %d: error is no JSON: %v", r.status, err)
	}
	noteAnswered(events.Code(p.Code))
	k, ok := problems[events.Code(p.Code)]
	if !ok || k.status != r.status || p.Status != r.status || p.Title != k.title || p.Type != "urn:pilot:problem:"+p.Code ||
		p.ErrorText == "" || p.ErrorText != p.Detail || p.RequestID != r.header.Get("X-Request-Id") ||
		p.Instance != "urn:pilot:request:"+p.RequestID || r.header.Get("Content-Type") != problemType {
		t.Errorf("malformed problem: status %d, %s", r.status, r.body)
	}
	if r.status == http.StatusUnauthorized && r.header.Get("WWW-Authenticate") == "" {
		t.Error("401 without WWW-Authenticate")
	}
	if r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
}

func wantCode(t *testing.T, r reply, code events.Code) {
	t.Helper()
	if got := r.member(t, "code"); got != string(code) {
		t.Errorf("code = %v, want %s: %s", got, code, r.body)
	}
}
