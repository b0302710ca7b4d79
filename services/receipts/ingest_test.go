package receipts

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/services/control"
)

const update = `{"event":"messages.update","data":{"keyId":"3EB0AA","remoteJid":"5511999990000@s.whatsapp.net","fromMe":true,"status":"READ"},"date_time":"2026-11-29T12:00:00.000Z","apikey":"INSTANCE-TOKEN"}`

func post(t *testing.T, url, secret, body string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(SecretHeader, secret)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		s.Close()
	})
	return s
}

func TestIngest(t *testing.T) {
	t.Parallel()
	r, p := newRig(t), newPlane()
	p.instance(sealed(t, r, instance, "token-one", "secret-one"))
	p.instance(sealed(t, r, "inst2", "token-two", "secret-two"))
	s := serve(t, NewIngest(p, control.NewSecrets(r.keys), r.keys, r.log, IngestSettings{MaxBody: 4096}))
	stored := func() uint64 {
		t.Helper()
		n, err := r.log.LastSequence(t.Context(), events.ReceiptsStream(partition))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, tt := range []struct {
		name, path, secret, body string
		status                   int
		stored                   uint64
	}{
		{"unknown token", "/receipts/guess", "secret-one", update, 404, 0},
		{"no secret", "/receipts/token-one", "", update, 401, 0},
		{"secret of another instance", "/receipts/token-one", "secret-two", update, 401, 0},
		{"kept", "/receipts/token-one", "secret-one", update, 200, 1},
		{"the gateway's retry", "/receipts/token-one", "secret-one", update, 200, 1},
		{"by event", "/receipts/token-one/messages-update", "secret-one", update + " ", 200, 2},
		{"oversize", "/receipts/token-one", "secret-one", strings.Repeat("x", 5000), 200, 2},
		{"unparseable", "/receipts/token-one", "secret-one", `{"event":`, 200, 2},
		{"empty", "/receipts/token-one", "secret-one", "", 200, 2},
		{"invalid UTF-8", "/receipts/token-one", "secret-one", "\xff\xfe{}", 200, 2},
		{"another event", "/receipts/token-one", "secret-one", `{"event":"messages.upsert","data":{"message":{"conversation":"oi"}}}`, 200, 2},
		{"connection", "/receipts/token-two", "secret-two", `{"event":"connection.update","data":{"state":"open"}}`, 200, 3},
		{"invalid UTF-8 inside", "/receipts/token-two", "secret-two", "{\"event\":\"messages.update\",\"data\":{\"keyId\":\"K\",\"fromMe\":true,\"status\":\"\xff\"}}", 200, 4},
	} {
		if res := post(t, s.URL+tt.path, tt.secret, tt.body); res.StatusCode != tt.status || stored() != tt.stored {
			t.Errorf("%s: status %d with %d stored, want %d with %d", tt.name, res.StatusCode, stored(), tt.status, tt.stored)
		}
	}
	rec, err := r.log.Get(t.Context(), events.ReceiptsStream(partition), 1)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := rec.Body.(*events.GatewayObserved)
	if !ok || o.KeyID != "3EB0AA" || o.Status != "READ" || !o.FromMe || o.ReceivedAt.IsZero() || len(o.JIDHash) != 64 {
		t.Errorf("stored as %+v", rec.Body)
	}
	if bytes.Contains([]byte(rec.Address+o.JIDHash+rec.ID), []byte("5511")) {
		t.Error("a number is stored")
	}
	p.stale = true
	if res := post(t, s.URL+"/receipts/guess", "", update); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("unknown token while the catalog is behind: %d, want 503", res.StatusCode)
	}
}

func TestIngestWithoutTheLog(t *testing.T) {
	t.Parallel()
	r, p := newRig(t), newPlane()
	p.instance(sealed(t, r, instance, "token-one", "secret-one"))
	s := serve(t, NewIngest(p, control.NewSecrets(r.keys), r.keys, r.log, IngestSettings{AppendLimit: 3 * time.Second}))
	if res := post(t, s.URL+"/receipts/token-one", "secret-one", update); res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := r.server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	res := post(t, s.URL+"/receipts/token-one", "secret-one", update+" ")
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q; want 503 with one", res.StatusCode, res.Header.Get("Retry-After"))
	}
}
