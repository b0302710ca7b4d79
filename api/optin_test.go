package api

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

func TestOptInRoute(t *testing.T) {
	t.Parallel()
	first, last := clock.Add(-48*time.Hour), clock.Add(-time.Hour)
	required := func(c *catalog.Catalog) {
		define(c, events.KindPlatform, events.PlatformID, events.Platform{OptInRequired: true})
	}
	in := func(c *catalog.Catalog) {
		hash := hashOf("acme", strangerNumber)
		id := events.OptInID("shop", hash)
		define(c, events.KindOptIn, id, events.OptIn{ID: id, TenantID: "acme", ProjectID: "shop", RecipientHash: hash, FirstAt: first, LastAt: last})
	}
	out := func(c *catalog.Catalog) {
		hash := hashOf("acme", strangerNumber)
		define(c, events.KindOptOut, events.OptOutID("acme", hash), events.OptOut{TenantID: "acme", RecipientHash: hash})
	}
	none, gone := reasonNoOptIn, reasonOptedOut
	at := func(t time.Time) *string { s := stamp(t); return &s }
	for name, c := range map[string]struct {
		changes []func(*catalog.Catalog)
		key     string
		want    OptInState
	}{
		"not validated":     {nil, liveKey, OptInState{Authorized: true}},
		"missing":           {[]func(*catalog.Catalog){required}, liveKey, OptInState{Required: true, Enabled: true, Reason: &none}},
		"there":             {[]func(*catalog.Catalog){required, in}, liveKey, OptInState{Authorized: true, Required: true, Enabled: true, FirstOptInAt: at(first), LastSeenAt: at(last)}},
		"there, then out":   {[]func(*catalog.Catalog){required, in, out}, liveKey, OptInState{Required: true, Enabled: true, Reason: &gone, FirstOptInAt: at(first), LastSeenAt: at(last)}},
		"own number":        {[]func(*catalog.Catalog){required}, ownKey, OptInState{Authorized: true, Enabled: true}},
		"TEST":              {[]func(*catalog.Catalog){required}, testKey, OptInState{Authorized: true, Enabled: true}},
		"of another tenant": {[]func(*catalog.Catalog){required, in}, otherKey, OptInState{Required: true, Enabled: true, Reason: &none}},
	} {
		f, _, _ := ruled(t, func(cat *catalog.Catalog) {
			for _, change := range c.changes {
				change(cat)
			}
		})
		for _, number := range []string{"%2B5511900001111", "+5511900001111", "5511900001111"} {
			r := f.get("/v1/messages/opt-in?destinationNumber="+number, c.key)
			var got OptInState
			if err := json.Unmarshal(r.body, &got); err != nil || r.status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, r.status, r.body)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(OptInState{})); diff != "" {
				t.Errorf("%s, %s: %s", name, number, diff)
			}
		}
	}
	f := newFixture(t).start()
	wantCode(t, f.get("/v1/messages/opt-in?destinationNumber=x", liveKey), events.CodeValidation)
	wantCode(t, f.get("/v1/messages/opt-in", liveKey), events.CodeValidation)
	wantCode(t, f.get("/v1/messages/opt-in?destinationNumber=5511900001111", ""), events.CodeUnauthorized)
}
