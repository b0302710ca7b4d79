package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/demo"
)

// array makes one call that answers with a list.
func (r *rig) array(path, key string) (out []map[string]any) {
	r.t.Helper()
	status, raw, err := call(r.t.Context(), http.MethodGet, r.app.URLs().API+path, key, nil)
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("GET %s: %d %s: %v", path, status, raw, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// A customer sets up a template and a webhook, looks at what was told, and at its number; all of it through the running whole.
func TestACustomerSetsUpByItself(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := "Your parcel " + t.Name() + " is here."
	status, made := r.do(http.MethodPost, "/v1/templates", r.keys.Own, map[string]any{"name": "parcel", "category": "UTILITY", "body": text})
	if status != http.StatusCreated || made["sendable"] != false {
		t.Fatalf("template: %d %v", status, made)
	}
	send := map[string]any{"templateId": "parcel", "destinationNumber": "+5511988887777"}
	if status, out := r.do(http.MethodPost, "/v1/messages/send", r.keys.Own, send); status != http.StatusNotFound || out["code"] != "TEMPLATE_NOT_APPROVED_FOR_PRODUCTION" {
		t.Errorf("LIVE before approval: %d %v", status, out)
	}
	status, hook := r.do(http.MethodPost, "/v1/webhooks", r.keys.Own, map[string]any{"url": "https://example.com/hook", "events": []string{"*"}, "active": false})
	if secret, _ := hook["secret"].(string); status != http.StatusCreated || !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("webhook: %d", status)
	}
	id := r.send("told " + t.Name())
	r.awaitHook(id, "message.sent")
	var wide string
	for _, w := range r.array("/v1/webhooks", r.keys.Own) {
		if w["id"] != hook["id"] {
			wide = w["id"].(string)
		}
	}
	told := func() map[string]any {
		for _, l := range r.array("/v1/webhooks/"+wide+"/logs?limit=50", r.keys.Own) {
			if l["messageId"] == id && l["event"] == "message.sent" {
				return l
			}
		}
		return nil
	}
	eventually(t, "the try in the log of the webhook", func() bool { return told() != nil }, r.logs.String)
	l := told()
	payload, _ := json.Marshal(l["payload"])
	if l["status"] != "SUCCESS" || !strings.Contains(string(payload), id) {
		t.Errorf("log: %v", l)
	}
	if n := len(r.array("/v1/webhooks/"+hook["id"].(string)+"/logs", r.keys.Own)); n != 0 {
		t.Errorf("%d tries of a webhook that is paused", n)
	}

	number := "/v1/numbers/" + demo.OwnInstanceID
	if status, out := r.do(http.MethodGet, number+"/status", r.keys.Own, nil); status != http.StatusOK || out["state"] != "OPEN" || out["live"] != true {
		t.Errorf("status: %d %v", status, out)
	}
	if status, out := r.do(http.MethodGet, number+"/connect", r.keys.Own, nil); status != http.StatusConflict {
		t.Errorf("connect while connected: %d %v", status, out)
	}
	name := r.array("/v1/numbers", r.keys.Own)[0]["instanceName"].(string)
	closed := "close"
	if err := r.sim.ChangeInstance(name, evolutionsim.Change{State: &closed}); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	eventually(t, "a QR code", func() bool {
		status, out = r.do(http.MethodGet, number+"/connect", r.keys.Own, nil)
		picture, _ := out["qrcodeBase64"].(string)
		return status == http.StatusOK && strings.HasPrefix(picture, "data:image/png;base64,")
	}, r.logs.String)
	r.fault(evolutionsim.Fault{Kind: "answer", Status: http.StatusServiceUnavailable, Body: "x", Call: "connectionState"})
	if status, out := r.do(http.MethodGet, number+"/status", r.keys.Own, nil); status != http.StatusOK || out["live"] != false {
		t.Errorf("status without an answer of the gateway: %d %v", status, out)
	}
	if strings.Contains(r.logs.String(), out["qrcode"].(string)) {
		t.Error("a QR code is logged")
	}
}
