package receipts

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/services/control"
)

type registered struct {
	Path, APIKey string
	Webhook      struct {
		Enabled bool
		URL     string
		Headers map[string]string
		Events  []string
	}
}

func TestRegistrar(t *testing.T) {
	t.Parallel()
	r, p := newRig(t), newPlane()
	secrets := control.NewSecrets(r.keys)
	calls := make(chan registered, 16)
	fail := make(chan struct{}, 2)
	fail <- struct{}{}
	fail <- struct{}{}
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-fail:
			w.WriteHeader(http.StatusInternalServerError)
			return
		default:
		}
		got := registered{Path: req.URL.Path, APIKey: req.Header.Get("apikey")}
		if err := json.NewDecoder(req.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":"1","url":"x","enabled":true}`))
		calls <- got
	}))
	t.Cleanup(gateway.Close)
	in := sealed(t, r, instance, "token-one", "secret-one")
	in.GatewayURL, in.Name = gateway.URL, "acme main"
	var err error
	if in.GatewayKey, err = secrets.Seal(t.Context(), instance, []byte("api-key")); err != nil {
		t.Fatal(err)
	}
	p.instance(in)

	reg := NewRegistrar(p, secrets, Gateways{Secrets: secrets}, RegistrarSettings{BaseURL: "http://in.example/", BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("registrar ended with %v", err)
		}
	})
	next := func() registered {
		t.Helper()
		select {
		case got := <-calls:
			return got
		case <-time.After(limit):
			t.Fatal("nothing is registered")
			return registered{}
		}
	}
	got := next()
	want := registered{Path: "/webhook/set/acme main", APIKey: "api-key"}
	want.Webhook.Enabled = true
	want.Webhook.URL = "http://in.example/receipts/token-one"
	want.Webhook.Headers = map[string]string{SecretHeader: "secret-one"}
	want.Webhook.Events = []string{"MESSAGES_UPDATE", "CONNECTION_UPDATE", "STATUS_INSTANCE", "LOGOUT_INSTANCE"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
	changed := sealed(t, r, instance, "token-one", "secret-new")
	in.Ingress = changed.Ingress
	p.instance(in)
	if got := next(); got.Webhook.Headers[SecretHeader] != "secret-new" {
		t.Errorf("after a rotation: %v", got.Webhook.Headers)
	}
	p.instance(in) // unchanged: nothing to do, so the next call is about the new one
	other := in
	other.ID = "inst2"
	if other, err = secrets.SealIngress(t.Context(), other, control.Ingress{}); err != nil {
		t.Fatal(err)
	}
	if other.GatewayKey, err = secrets.Seal(t.Context(), "inst2", []byte("other-key")); err != nil {
		t.Fatal(err)
	}
	p.instance(other)
	if got := next(); got.APIKey != "other-key" {
		t.Errorf("an unchanged instance was registered again: %+v", got)
	}
}
