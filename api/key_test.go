package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	for raw, want := range map[string]int{
		liveKey: 202, testKey: 202, importedKey: 202,
		"": 401, "x": 401, revokedKey: 401, expiredKey: 401,
		liveKey[:len(liveKey)-1] + "x":      401, // known id, other secret
		"ps_live_aaaa1111":                  401,
		"ps_live_":                          401,
		"ps_live_zzzz9999_whatever":         401,
		"ps_test_" + liveKey[8:]:            401, // the environment is part of the key
		liveKey + strings.Repeat("x", 4096): 401,
		pausedKey:                           403,
	} {
		if r := f.send(raw, note); r.status != want {
			t.Errorf("%.24s: %d, want %d", raw, r.status, want)
		}
	}
}

// The id of a key is no secret: x-api-key-id authenticates with a secret id only, where the key has been given one. A key
// beside it decides.
func TestKeyIDAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	const secret = "00112233445566778899aabbccddeeff"
	refused := func(what string, header ...string) {
		t.Helper()
		if r := f.send("", note, header...); r.status != http.StatusUnauthorized {
			t.Errorf("%s: %d", what, r.status)
		}
	}
	refused("the id of a key", "x-api-key-id", "key-aaaa")
	refused("a bearer token", "Authorization", "Bearer "+liveKey)
	refused("before it is given", "x-api-key-id", secret)
	for _, given := range []struct{ key, secret string }{{"key-aaaa", secret}, {"key-ffff", strings.Repeat("f", 32)}, {"key-bbbb", "short"}} {
		k, _ := f.catalog.cat.Key(given.key)
		sum := sha256.Sum256([]byte(given.secret))
		k.SecretIDHash = hex.EncodeToString(sum[:])
		define(f.catalog.cat, events.KindKey, k.ID, k)
	}
	for _, name := range []string{"x-api-key-id", "X-API-KEY-ID"} {
		if r := f.send("", note, name, secret, "x-whatsapp-number-id", "n"); r.status != http.StatusAccepted {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if e := f.events(); len(e) != 2 || e[0].Body.(*events.MessageQueued).KeyID != "key-aaaa" {
		t.Errorf("accepted for another key: %+v", e)
	}
	refused("another secret", "x-api-key-id", "ff112233445566778899aabbccddeeff")
	refused("of a revoked key", "x-api-key-id", strings.Repeat("f", 32))
	refused("a secret too short to be one", "x-api-key-id", "short")
	refused("an empty one", "x-api-key-id", "")
	refused("a secret as a key", "x-api-key", secret)
	refused("a wrong key beside it", "x-api-key", "ps_live_zzzz9999_wrong", "x-api-key-id", secret)
	if r := f.send(testKey, note, "x-api-key-id", secret); r.status != http.StatusAccepted || f.events()[2].Body.(*events.MessageQueued).KeyID != "key-bbbb" {
		t.Errorf("a key beside it: %d", r.status)
	}
	f.catalog.behind = time.Minute
	wantCode(t, f.send("", note, "x-api-key-id", strings.Repeat("0", 32)), events.CodeUnavailable)
}

// A process that lags behind CONTROL does not say that a key is unknown, and still reads for keys it knows.
func TestKeysWithCatalogBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.catalog.behind = 6 * time.Second
	m := stored()
	f.serve(m).start()
	wantCode(t, f.send("ps_live_zzzz9999_new", note), events.CodeUnavailable)
	wantCode(t, f.send("", note), events.CodeUnauthorized)
	wantCode(t, f.send(liveKey, note), events.CodeUnavailable)
	if r := f.get("/v1/messages/"+m.ID, liveKey); r.status != http.StatusOK {
		t.Errorf("read: %d", r.status)
	}
}

// A key whose project belongs to another tenant stands for nobody.
func TestKeyOfMixedTenants(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	raw := "ps_live_mixx0000_secret"
	define(f.catalog.cat, events.KindKey, "key-mixx", key(raw, "rival", "shop", events.Live))
	wantCode(t, f.start().send(raw, note), events.CodeUnauthorized)
}

// Two keys in one request: which is meant would be a guess, so neither is taken.
func TestTwoKeysAreNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+"/v1/messages/msg_x", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Add("x-api-key", liveKey)
	req.Header.Add("X-API-Key", liveKey)
	resp, err := f.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// A path with dot segments leads nowhere: to a proxy in front of us it would be another one.
func TestDotSegmentsLeadNowhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	for _, path := range []string{"/v1/messages/..%2f..%2freadyz", "/v1/%2e%2e/livez", "/v1/messages/%2e/livez"} {
		if r := f.get(path, liveKey); r.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
