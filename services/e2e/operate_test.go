package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/cli"
	"pilotstatus.dev/services/demo"
)

// operator makes requests of docs/operate.md.
type operator struct {
	t         *testing.T
	url, key  string
	collected *strings.Builder // every answer but those that make secrets
}

func (o operator) do(want int, method, path string, body any, header ...string) (map[string]any, http.Header) {
	o.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		o.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.url+"/v1/admin/"+path, bytes.NewReader(raw))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("x-api-key", o.key)
	req.Header.Set("X-Reason", "first set-up")
	req.Header.Set("content-type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		o.t.Fatalf("%s %s: %d, want %d: %s %v", method, path, res.StatusCode, want, text, err)
	}
	var out map[string]any
	_ = json.Unmarshal(text, &out) // no content
	if out["key"] == nil && out["secret"] == nil {
		o.collected.Write(text)
	}
	return out, res.Header
}

func (o operator) post(want int, path string, body any) map[string]any {
	o.t.Helper()
	out, _ := o.do(want, http.MethodPost, path, body)
	return out
}

type set = map[string]any

// A deployment from nothing to a first LIVE message, as in docs/operate.md: the same requests, with another process that serves
// the API hearing of each change.
func TestOperateFromNothing(t *testing.T) {
	t.Parallel()
	cfg := quick(t)
	cfg.PostgresURL, cfg.AdminAddr = pgtest.Database(t), "127.0.0.1:0"
	sim, err := evolutionsim.Start(t.Context(), evolutionsim.Options{
		Address: "127.0.0.1:0", Instances: []evolutionsim.Instance{{Name: "acme", Number: "5511900000002", State: "open"}},
		Receipts: evolutionsim.Receipts{ServerAck: 20 * time.Millisecond, DeliveryAck: 40 * time.Millisecond, Read: 60 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	r := &rig{t: t, cfg: cfg, roles: app.Roles(), logs: &logs{}, sim: sim}
	r.start()
	t.Cleanup(r.stop)
	receiver, err := demo.StartReceiver(t.Context(), "127.0.0.1:0", r.logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := receiver.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})

	var printed bytes.Buffer
	bootstrap := []string{"admin", "bootstrap", "--name", "ana", "--nats-url", r.app.URLs().NATS}
	if err := cli.Run(t.Context(), bootstrap, "test", &printed, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := cli.Run(t.Context(), bootstrap, "test", io.Discard, io.Discard); err == nil {
		t.Error("a second first operator was made")
	}
	ana := operator{t: t, url: r.app.URLs().Admin, key: strings.TrimSpace(printed.String()), collected: &strings.Builder{}}
	eventually(t, "the operator's key is known", func() bool {
		status, _, err := call(t.Context(), http.MethodGet, ana.url+"/v1/admin/tenants", ana.key, nil)
		return err == nil && status == http.StatusOK
	}, nil)

	ana.post(201, "plans", set{"id": "pro", "name": "Pro", "month": 10000})
	ana.post(201, "tenants", set{"id": "acme", "name": "Acme Ltda", "timeZone": "America/Sao_Paulo", "planId": "pro"})
	ana.post(201, "projects", set{"id": "acme-shop", "tenantId": "acme", "name": "Shop", "productionApproved": true, "retentionDays": 30})
	ana.post(201, "instances", set{
		"id": "acme-1", "tenantId": "acme", "name": "acme", "displayName": "Acme", "number": "5511900000002", "gatewayUrl": sim.URL(),
		"gatewayKey": sim.APIKey(), "pace": set{"ratePerMinute": 6000, "burst": 1},
	})
	hook := ana.post(201, "endpoints", set{
		"id": "acme-hook", "tenantId": "acme", "name": "shop", "url": receiver.URL(), "environment": "LIVE", "active": true, "events": []string{"*"},
	})
	receiver.Trust(hook["secret"].(string))
	key := ana.post(201, "keys", set{
		"id": "acme-live", "tenantId": "acme", "projectId": "acme-shop", "environment": "LIVE", "name": "shop", "instanceId": "acme-1",
	})["key"].(string)
	ana.post(201, "templates", set{
		"id": "order-ready", "tenantId": "acme", "projectId": "acme-shop", "name": "order_ready", "category": "UTILITY",
		"structure": set{"body": set{"text": "Hello {{name}}, your order is ready."}},
	})
	for _, step := range []string{"submit", "approve", "approve-for-production"} {
		ana.post(200, "templates/order-ready/versions/1/"+step, nil)
	}

	r.keys.Own = key
	body := set{"templateId": "order_ready", "variables": set{"name": "Ana"}, "destinationNumber": "+5511988887777"}
	status, out := r.do(http.MethodPost, "/v1/messages/send", key, body)
	if status != http.StatusAccepted {
		t.Fatalf("send: %d %v", status, out)
	}
	r.awaitStatus(out["id"].(string), "READ") // so the gateway was told where to hand in receipts
	eventually(t, "three signed webhooks", func() bool {
		got, refused := receiver.Hooks()
		return len(got) == 3 && refused == 0
	}, func() string {
		got, refused := receiver.Hooks()
		return fmt.Sprintln(got, refused, r.timeline(out["id"].(string)), r.logs.String())
	})

	for _, secret := range []string{sim.APIKey(), key[20:], ana.key[20:], hook["secret"].(string)} {
		if strings.Contains(ana.collected.String(), secret) || strings.Contains(r.logs.String(), secret) {
			t.Error("a secret is shown again")
		}
	}
	history, _ := ana.do(200, http.MethodGet, "instances/acme-1/history", nil)
	first := history["data"].([]any)[0].(map[string]any)
	if first["by"] != "operator:ana" || first["reason"] != "first set-up" {
		t.Errorf("history: %v", first)
	}
	revoked(t, r, ana, key, body)
}

// revoked holds that a change is served by another process within a second or so, and a revoked key refused there.
func revoked(t *testing.T, r *rig, ana operator, key string, body set) {
	t.Helper()
	cfg := r.cfg
	cfg.Local(t.TempDir())
	cfg.NATSURL, cfg.PostgresURL, cfg.MasterKeyFile, cfg.AdminAddr = r.app.URLs().NATS, r.cfg.PostgresURL, r.cfg.MasterKeyPath(), ""
	other, err := app.Start(t.Context(), cfg, []app.Role{app.RoleAPI}, r.logger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := other.Stop(bounded); err != nil {
			t.Error(err)
		}
	}()
	send := func(url string) int {
		status, _, err := call(t.Context(), http.MethodPost, url+"/v1/messages/send", key, body)
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	if got := send(other.URLs().API); got != http.StatusAccepted {
		t.Errorf("send at the other process: %d", got)
	}
	if status, _, _ := call(t.Context(), http.MethodGet, r.app.URLs().API+"/v1/admin/tenants", ana.key, nil); status != http.StatusNotFound {
		t.Errorf("operators' routes at the customers' address: %d", status)
	}
	still := awaittest.Watch(t)
	ana.post(200, "keys/acme-live/revoke", nil)
	at := time.Now()
	if got := send(r.app.URLs().API); got != http.StatusUnauthorized {
		t.Errorf("this process answers %d to a key that it revoked", got)
	}
	eventually(t, "the other process refuses the key", func() bool { return send(other.URLs().API) == http.StatusUnauthorized }, nil)
	if took, lost := time.Since(at), still.Lost(); took-lost > 5*time.Second {
		t.Errorf("a revoked key was good for %s, of which the machine stood still for %s", took, lost)
	}
}
