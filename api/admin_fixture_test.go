package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/apikey"
)

// memoryControl is CONTROL in memory: a log that the catalog follows at once.
type memoryControl struct {
	fakeCatalog
	mu      sync.Mutex
	log     []events.Recorded
	refuse  int // so many appends are refused as if somebody else had written
	appends int
}

func (m *memoryControl) Read(use func(*catalog.Catalog)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	use(m.cat)
}

func (m *memoryControl) Append(_ context.Context, kind, id, eventType string, body any, expected uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.appends++
	if m.refuse > 0 || expected != m.cat.Sequence {
		m.refuse = max(m.refuse-1, 0)
		return 0, events.Errorf(events.CodeConflict, "moved")
	}
	wire, err := events.Standard.Encode(events.Event{
		Envelope: events.Envelope{ID: "e", Type: eventType, Source: "test", Time: clock}, Address: events.ControlSubject(kind, id), Body: body,
	})
	if err != nil {
		return 0, err
	}
	rec, err := events.Standard.Decode(events.Stored{Wire: wire, Position: events.Position{Sequence: m.cat.Sequence + 1}, Time: clock})
	if err != nil {
		return 0, err
	}
	m.log = append(m.log, rec)
	m.cat.Apply(rec)
	return m.cat.Sequence, nil
}

func (m *memoryControl) Await(context.Context, uint64) error { return nil }
func (m *memoryControl) CatchUp(context.Context) error       { return nil }

func (m *memoryControl) History(_ context.Context, kind, id string, after uint64, limit int) (out []events.Recorded, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range m.log {
		if rec.Address == events.ControlSubject(kind, id) && rec.Position.Sequence > after && len(out) < limit {
			out = append(out, rec)
		}
	}
	return out, nil
}

// memorySecrets seals by a mark, as the fake keyring does.
type memorySecrets struct{}

func (memorySecrets) Seal(_ context.Context, entity string, secret []byte) (events.Sealed, error) {
	return events.Sealed{KeyID: "secrets", Blob: []byte("sealed|" + entity + "|" + hex.EncodeToString(secret))}, nil
}

func (s memorySecrets) SealIngress(ctx context.Context, in events.Instance, i events.IngressSecret) (_ events.Instance, err error) {
	in.IngressHash = hex.EncodeToString([]byte(i.Token))
	text, err := json.Marshal(i)
	if err != nil {
		return in, err
	}
	in.Ingress, err = s.Seal(ctx, in.ID, text)
	return in, err
}

func (memorySecrets) Ingress(_ context.Context, in events.Instance) (i events.IngressSecret, err error) {
	text, ok := strings.CutPrefix(string(in.Ingress.Blob), "sealed|"+in.ID+"|")
	if !ok {
		return i, errors.New("sealed for another entity")
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		return i, err
	}
	return i, json.Unmarshal(raw, &i)
}

type memoryEraser struct {
	mu     sync.Mutex
	erased []string
	err    error
}

func (m *memoryEraser) Erase(_ context.Context, tenant, keyID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.erased = append(m.erased, tenant+"."+keyID)
	return m.err
}

// adminFixture is the API with an empty control plane but for operators.
type adminFixture struct {
	*fixture
	control *memoryControl
	eraser  *memoryEraser
	ana     string // every scope
	mu      sync.Mutex
	answers []string // every body that was read
}

func newAdmin(t *testing.T) *adminFixture {
	t.Helper()
	f := &adminFixture{fixture: newFixture(t), control: &memoryControl{}, eraser: &memoryEraser{}}
	f.control.cat = testCatalog()
	f.catalog = &f.control.fakeCatalog
	f.ports = func(p *Ports) {
		p.Catalog, p.Control, p.Secrets, p.Eraser = f.control, f.control, memorySecrets{}, f.eraser
	}
	f.cfg.AllowLoopback = true
	f.ana = f.operator("ana", events.OperatorScopes()...)
	return f
}

// operator records an operator's key and gives it raw.
func (f *adminFixture) operator(name string, scopes ...string) string {
	f.t.Helper()
	k, err := apikey.GenerateOperator(rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	sum := k.SHA256()
	f.control.mu.Lock()
	defer f.control.mu.Unlock()
	define(f.control.cat, events.KindOperator, name, events.Operator{
		ID: name, Name: name, PublicID: k.PublicID(), SHA256: hex.EncodeToString(sum[:]), Scopes: scopes, CreatedAt: clock,
	})
	return k.Reveal()
}

// as makes a request with a key and keeps the answer.
func (f *adminFixture) as(key, method, path string, body any, header ...string) reply {
	f.t.Helper()
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			f.t.Fatal(err)
		}
		text = string(raw)
	}
	if method != http.MethodGet {
		header = append([]string{"X-Reason", "test"}, header...)
	}
	r := f.do(method, "/v1/admin/"+path, key, strings.NewReader(text), append(header, "Content-Type", "application/json")...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = append(f.answers, string(r.body))
	return r
}

// want makes a request as ana and holds the status.
func (f *adminFixture) want(status int, method, path string, body any, header ...string) reply {
	f.t.Helper()
	r := f.as(f.ana, method, path, body, header...)
	if r.status != status {
		f.t.Fatalf("%s %s: %d, want %d: %s", method, path, r.status, status, r.body)
	}
	return r
}

type obj map[string]any
