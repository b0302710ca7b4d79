package app

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/apicall"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/services/control"
)

// startSpread starts a process that serves the API.
func startSpread(t *testing.T, cfg Config) *App {
	t.Helper()
	cfg.NATSSync, cfg.Partitions = "default", 1
	cfg.PostgresURL = (&url.URL{Scheme: "postgres", Host: "127.0.0.1:1", Path: "none"}).String() // what is asked for needs none
	a, err := Start(t.Context(), cfg, []Role{RoleAPI}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopNow(t, a) })
	return a
}

// A key that one process makes is taken by another one, and refused there within 5 s after it was revoked.
func TestRevokedKeyIsRefusedByEveryProcess(t *testing.T) {
	t.Parallel()
	cfg, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(t.TempDir())
	first := startSpread(t, cfg)
	other := cfg
	other.Local(t.TempDir())
	other.NATSURL, other.MasterKeyFile = first.URLs().NATS, cfg.MasterKeyPath()
	second := startSpread(t, other)
	oper, err := control.Bootstrap(t.Context(), first.Events(), "ana", false)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	call := func(a *App, method, path, key string, body any) (int, []byte) {
		t.Helper()
		status, raw, err := apicall.Do(t.Context(), client, method, a.URLs().API+path, key, body, "X-Reason", "test")
		if err != nil {
			t.Fatal(err)
		}
		return status, raw
	}
	awaittest.Eventually(t, time.Minute, 10*time.Millisecond, "the operator's key is taken", func() bool {
		status, _ := call(first, http.MethodGet, "/v1/admin/tenants", oper.Reveal(), nil)
		return status == http.StatusOK
	}, nil)
	admin := func(path string, body any) []byte {
		t.Helper()
		status, raw := call(first, http.MethodPost, "/v1/admin/"+path, oper.Reveal(), body)
		if status >= 300 {
			t.Fatalf("%s: %d %s", path, status, raw)
		}
		return raw
	}
	admin("tenants", map[string]any{"id": "acme", "name": "ACME"})
	admin("projects", map[string]any{"id": "shop", "tenantId": "acme", "name": "Shop", "retentionDays": 30})
	var made struct{ Key string }
	raw := admin("keys", map[string]any{"id": "k", "tenantId": "acme", "projectId": "shop", "environment": "TEST", "name": "k"})
	if err := json.Unmarshal(raw, &made); err != nil || made.Key == "" {
		t.Fatalf("%s: %v", raw, err)
	}
	answers := func(want int) func() bool {
		return func() bool {
			status, _ := call(second, http.MethodGet, "/v1/api-keys", made.Key, nil)
			return status == want
		}
	}
	awaittest.Eventually(t, time.Minute, 5*time.Millisecond, "the other process takes the key", answers(http.StatusOK), nil)
	still := awaittest.Watch(t)
	admin("keys/k/revoke", nil)
	begun, before := time.Now(), still.Lost()
	awaittest.Eventually(t, time.Minute, 5*time.Millisecond, "the other process refuses the key", answers(http.StatusUnauthorized), nil)
	took, lost := time.Since(begun), still.Lost()-before
	t.Logf("refused by the other process after %s, of which the machine stood still for %s", took, lost)
	if took-lost > 5*time.Second {
		t.Error("that is more than 5 s")
	}
}
