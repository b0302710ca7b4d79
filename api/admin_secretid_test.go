package api

import (
	"net/http"
	"regexp"
	"testing"

	"pilotstatus.dev/events"
)

// An operator switches x-api-key-id on and off for one key; the secret is shown once.
func TestAdminSecretID(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	operator := f.operator("ana", events.OperatorKeys, events.OperatorRead)
	f.control.mu.Lock()
	k, _ := f.control.cat.Key("key-aaaa")
	k.Name = "web"
	define(f.control.cat, events.KindKey, k.ID, k)
	f.control.mu.Unlock()
	const path = "/v1/admin/keys/key-aaaa"
	made := f.do(http.MethodPost, path+"/secret-id", operator, nil, "X-Reason", "a client without keys")
	secret, _ := made.member(t, "secretId").(string)
	if made.status != http.StatusCreated || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(secret) || made.member(t, "secretIdEnabled") != true {
		t.Fatalf("%d %s", made.status, made.body)
	}
	if r := f.do(http.MethodGet, path, operator, nil); r.member(t, "secretId") != nil || r.member(t, "secretIdEnabled") != true {
		t.Errorf("read again: %s", r.body)
	}
	if r := f.send("", note, "x-api-key-id", secret); r.status != http.StatusAccepted {
		t.Errorf("with the secret: %d %s", r.status, r.body)
	}
	if r := f.do(http.MethodDelete, path+"/secret-id", operator, nil, "X-Reason", "done"); r.status != http.StatusOK || r.member(t, "secretIdEnabled") != false {
		t.Errorf("switched off: %d %s", r.status, r.body)
	}
	wantCode(t, f.send("", note, "x-api-key-id", secret), events.CodeUnauthorized)
	wantCode(t, f.do(http.MethodPost, "/v1/admin/keys/none/secret-id", operator, nil, "X-Reason", "x"), events.CodeNotFound)
}
