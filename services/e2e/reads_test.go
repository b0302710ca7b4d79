package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/apikey"
	"pilotstatus.dev/services/control"
)

// define records an entity of the control plane and waits until it is served.
func define[T any](r *rig, kind, id string, value T) {
	r.t.Helper()
	c := r.app.Control()
	seq, err := control.Define(r.t.Context(), c.Log, kind, id, value, control.Author{By: "operator:test"}, 0)
	if err == nil {
		err = c.Feed.Await(r.t.Context(), seq)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// key makes a key and gives its raw form.
func (r *rig) key(id, tenant, project string, env events.Environment) string {
	r.t.Helper()
	k, err := apikey.Generate(env, rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	sum := k.SHA256()
	define(r, events.KindKey, id, events.Key{
		ID: id, TenantID: tenant, ProjectID: project, Environment: env, PublicID: k.PublicID(), SHA256: hex.EncodeToString(sum[:]), CreatedAt: time.Now(),
	})
	return k.Reveal()
}

// list reads every page and gives the ids in order.
func (r *rig) list(key, query string) []string {
	r.t.Helper()
	var ids []string
	for cursor := ""; ; {
		status, out := r.do(http.MethodGet, "/v1/messages?"+query+cursor, key, nil)
		if status != http.StatusOK {
			r.t.Fatalf("list: %d %v", status, out)
		}
		for _, m := range out["data"].([]any) {
			ids = append(ids, m.(map[string]any)["id"].(string))
		}
		next, more := out["nextCursor"].(string)
		if !more {
			return ids
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
}

// A caller finds in the first page what it wrote a moment ago, by each filter that fits; pages of one find all of it.
func TestListFindsWhatWasJustAccepted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	number := "+5511977776666"
	var want []string
	for i := range 5 {
		id := r.send(fmt.Sprintf("list %d", i), func(m map[string]any) {
			m["destinationNumber"], m["labels"] = number, []string{"a b"}
		})
		want = append([]string{id}, want...)
		if got := r.list(r.keys.Own, "limit=1&destinationNumber="+url.QueryEscape(number)); !slices.Equal(got, want) {
			t.Fatalf("after %d sends: %v, want %v", i+1, got, want)
		}
	}
	for _, query := range []string{"category=UTILITY", "label=a+b", "createdFrom=" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)} {
		if got := r.list(r.keys.Own, query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, id := range want {
		r.awaitStatus(id, "READ")
	}
	if got := r.list(r.keys.Own, "status=READ&limit=2"); !slices.Equal(got, want) {
		t.Errorf("READ: %v, want %v", got, want)
	}
	for _, query := range []string{"status=QUEUED", "category=OTP", "label=a", "destinationNumber=5511977776667", "template=code"} {
		if got := r.list(r.keys.Own, query); len(got) > 0 {
			t.Errorf("%s: %v", query, got)
		}
	}
}

// Promise P12 (API1): another tenant, another project and another environment see nothing of a tenant, under every id that
// it has, on every route that there is.
func TestP12NothingOfAnotherIsRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	define(r, events.KindTenant, "rival", events.Tenant{ID: "rival"})
	define(r, events.KindProject, "rivals", events.Project{ID: "rivals", TenantID: "rival", ProductionApproved: true})
	define(r, events.KindProject, "other", events.Project{ID: "other", TenantID: r.tenant(), ProductionApproved: true})
	strangers := map[string]string{
		"other tenant":      r.key("key-rival", "rival", "rivals", events.Live),
		"other project":     r.key("key-other", r.tenant(), "other", events.Live),
		"other environment": r.keys.Test,
	}
	var ids []string
	for i := range 3 {
		id := r.send(fmt.Sprintf("secret %d", i))
		m := r.awaitStatus(id, "READ")
		ids = append(ids, id, m["correlationId"].(string), m["externalMessageId"].(string))
	}
	_, first := r.do(http.MethodGet, "/v1/messages?limit=1", r.keys.Own, nil)
	cursor := url.QueryEscape(first["nextCursor"].(string))
	byID, lists := r.reads()
	if len(byID) < 2 || len(lists) < 1 {
		t.Fatalf("routes: %v, %v", byID, lists)
	}
	for name, key := range strangers {
		for _, route := range byID {
			for _, id := range ids {
				path := strings.ReplaceAll(route, "{id}", url.PathEscape(id))
				if status, out := r.do(http.MethodGet, path, key, nil); status != http.StatusNotFound {
					t.Errorf("%s reads %s: %d %v", name, path, status, out)
				}
			}
		}
		for _, route := range lists {
			for _, query := range []string{"", "?limit=50", "?destinationNumber=5511988887777", "?label=a", "?instance=acme-own", "?status=READ"} {
				_, raw, err := call(t.Context(), http.MethodGet, r.app.URLs().API+route+query, key, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					if strings.Contains(string(raw), id) {
						t.Errorf("%s finds %s in %s%s", name, id, route, query)
					}
				}
			}
		}
		if status, out := r.do(http.MethodGet, "/v1/messages?limit=1&cursor="+cursor, key, nil); status != http.StatusBadRequest {
			t.Errorf("%s goes on from a cursor: %d %v", name, status, out)
		}
		if got := r.list(key, ""); len(got) > 0 {
			t.Errorf("%s lists %v", name, got)
		}
	}
	if got := r.list(r.keys.Own, "limit=2"); len(got) != 3 {
		t.Errorf("the owner lists %v", got)
	}
}

// tenant is whose the rig's keys are.
func (r *rig) tenant() string {
	r.t.Helper()
	for _, c := range r.app.Control().Feed.Endpoints() {
		return c.TenantID
	}
	r.t.Fatal("no endpoint")
	return ""
}

// reads gives the paths of every GET of customers: with an id, and without.
func (r *rig) reads() (byID, lists []string) {
	r.t.Helper()
	_, doc := r.do(http.MethodGet, "/openapi.json", "", nil)
	for path, operations := range doc["paths"].(map[string]any) {
		if _, get := operations.(map[string]any)["get"]; !get || !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/admin") {
			continue
		}
		if strings.Contains(path, "{id}") {
			byID = append(byID, path)
		} else {
			lists = append(lists, path)
		}
	}
	return byID, lists
}

// Each try to tell an endpoint is in the views soon, with what its body was made from.
func TestTriesToTellAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.send("kept")
	r.awaitHook(id, "message.read")
	conn, err := pgx.Connect(t.Context(), r.cfg.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var tries int
	eventually(t, "tries", func() bool {
		err = conn.QueryRow(t.Context(), `SELECT count(*) FROM `+r.cfg.Schema+`.deliveries
			WHERE message_id = $1 AND result = 'succeeded' AND http_status BETWEEN 200 AND 299 AND delivery->>'event' = event`, id).Scan(&tries)
		return err == nil && tries == 3
	}, func() string { return fmt.Sprint(tries, err) })
}
