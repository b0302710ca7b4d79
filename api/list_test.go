package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

// fakeReads are lists and figures.
type fakeReads struct {
	lists      fakeLists
	deliveries fakeDeliveries
	figures    fakeFigures
}

func noReads() fakeReads {
	return fakeReads{
		lists:      func(Scope, MessageFilter, ListPlace, int) ([]MessageView, error) { return nil, nil },
		deliveries: func(string, string, int) ([]DeliveryView, error) { return nil, nil },
		figures: func(_ Scope, bounds []time.Time) ([]map[events.Status]int, error) {
			return make([]map[events.Status]int, len(bounds)-1), nil
		},
	}
}

func (f fakeReads) ports() Reads {
	return Reads{Lists: f.lists, Deliveries: f.deliveries, Figures: f.figures}
}

// fakeDeliveries gives the tries to tell an endpoint, the newest first, each of a delivery of its own.
type fakeDeliveries func(tenant, endpoint string, limit int) ([]DeliveryView, error)

func (f fakeDeliveries) Deliveries(_ context.Context, tenant, endpoint string, before uint64, limit int) ([]DeliveryView, error) {
	all, err := f(tenant, endpoint, limit)
	all = slices.DeleteFunc(slices.Clone(all), func(d DeliveryView) bool { return before > 0 && d.Place >= before })
	return all[:min(len(all), limit)], err
}

func (f fakeDeliveries) Delivery(_ context.Context, tenant, endpoint, webhookID string) (DeliveryView, error) {
	all, err := f(tenant, endpoint, 1000)
	for _, d := range all {
		if d.WebhookID == webhookID {
			return d, err
		}
	}
	return DeliveryView{}, cmp.Or(err, error(events.Errorf(events.CodeNotFound, "none")))
}

func (f fakeDeliveries) Ended(_ context.Context, tenant, endpoint string, filter EndedFilter, limit int) (out []DeliveryView, _ error) {
	all, err := f(tenant, endpoint, 1000)
	for _, d := range slices.Backward(all) {
		if slices.Contains(filter.Results, d.Result) && !d.At.Before(filter.From) && d.At.Before(filter.To) && d.Place > filter.After && len(out) < limit {
			out = append(out, d)
		}
	}
	return out, err
}

type fakeLists func(s Scope, f MessageFilter, after ListPlace, limit int) ([]MessageView, error)

func (f fakeLists) Messages(_ context.Context, s Scope, filter MessageFilter, after ListPlace, limit int) ([]MessageView, error) {
	return f(s, filter, after, limit)
}

// holds makes the lists find messages in the scope of liveKey only.
func (f *fixture) holds(all ...MessageView) *fixture {
	f.reads.lists = func(s Scope, _ MessageFilter, after ListPlace, limit int) ([]MessageView, error) {
		if s != (Scope{Tenant: "acme", Project: "shop", Environment: events.Live}) {
			return nil, nil
		}
		sorted := slices.Clone(all)
		slices.SortFunc(sorted, func(a, b MessageView) int {
			return -cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
		})
		if after != (ListPlace{}) {
			sorted = slices.DeleteFunc(sorted, func(m MessageView) bool {
				return cmp.Or(m.CreatedAt.Compare(after.CreatedAt), strings.Compare(m.ID, after.ID)) >= 0
			})
		}
		return sorted[:min(limit, len(sorted))], nil
	}
	return f
}

// many are messages of a moment, the first of them the newest.
func many(n int) []MessageView {
	out := make([]MessageView, n)
	for i := range out {
		out[i] = stored(func(m *MessageView) {
			m.ID = fmt.Sprintf("msg_%032d", n-i)
			m.CreatedAt = clock.Add(-time.Duration(i/3) * time.Minute)
			m.Sealed.Blob = nil
		})
	}
	return out
}

func pageOf(t *testing.T, r reply) MessageList {
	t.Helper()
	var l MessageList
	if err := json.Unmarshal(r.body, &l); err != nil || r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	return l
}

func TestListPages(t *testing.T) {
	t.Parallel()
	all := many(7)
	f := newFixture(t).holds(all...).start()
	for _, route := range []string{"/v1/messages", "/api/v1/messages"} {
		var got []string
		next := route + "?limit=3&category=UTILITY"
		for pages := 0; next != ""; pages++ {
			r := f.get(next, liveKey)
			page := pageOf(t, r)
			for _, m := range page.Data {
				got = append(got, m.ID)
			}
			link := r.header.Get("Link")
			if (page.NextCursor == nil) != (link == "") || len(page.Data) != []int{3, 3, 1}[pages] {
				t.Fatalf("page %d: %d messages, cursor %v, link %q", pages, len(page.Data), page.NextCursor, link)
			}
			if link == "" {
				break
			}
			ref, found := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
			base, err := url.Parse(next)
			if err != nil || !found {
				t.Fatalf("link %q: %v", link, err)
			}
			to, err := base.Parse(ref)
			if err != nil || to.Query().Get("cursor") != *page.NextCursor || to.Query().Get("category") != "UTILITY" {
				t.Fatalf("link %q: %v", link, err)
			}
			next = to.String()
		}
		var want []string
		for _, m := range all {
			want = append(want, m.ID)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", route, diff)
		}
	}
}

// A listed message is what a read of it shows, personal fields included; where the key is gone they are empty.
func TestListShowsWhatAReadShows(t *testing.T) {
	t.Parallel()
	m := stored()
	erased := stored(func(m *MessageView) { m.ID, m.Sealed.Blob = idAt(clock, 1), nil })
	gone := stored(func(m *MessageView) { m.ID, m.Sealed.KeyID = idAt(clock, 1), "gone" })
	f := newFixture(t).serve(m).holds(m, erased, gone)
	open := f.keyring.open
	f.keyring.open = func(tenant string, s events.Sealed, aad []byte) ([]byte, error) {
		if s.KeyID == "gone" {
			return nil, fmt.Errorf("open: %w", ErrKeyMissing)
		}
		return open(tenant, s, aad)
	}
	f.start()
	var one Message
	if err := json.Unmarshal(f.get("/v1/messages/"+m.ID, liveKey).body, &one); err != nil {
		t.Fatal(err)
	}
	for _, got := range pageOf(t, f.get("/v1/messages", liveKey)).Data {
		if got.ID == m.ID {
			if diff := gocmp.Diff(one, got, gocmp.AllowUnexported(Message{})); diff != "" {
				t.Error(diff)
			}
		} else if got.DestinationNumber != "" {
			t.Errorf("%s shows %s", got.ID, got.DestinationNumber)
		}
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var scope Scope
	var filter MessageFilter
	var limit int
	f.reads.lists = func(s Scope, got MessageFilter, _ ListPlace, n int) ([]MessageView, error) {
		scope, filter, limit = s, got, n
		return nil, nil
	}
	f.start()
	hash, err := f.hasher.Hash(t.Context(), "acme", "recipient", []byte("5511987650123"))
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]MessageFilter{
		"":                                  {},
		"status=FAILED":                     {Status: events.StatusFailed},
		"stage=SENDING":                     {Stage: events.StageSending},
		"category=OTP":                      {Category: events.OTP},
		"instance=own":                      {Instance: "own"},
		"template=t-note":                   {Template: "t-note"},
		"template=generic_notification":     {Template: "t-note"},
		"template=nothing":                  {Template: "nothing"},
		"label=a%20b":                       {Label: "a b"},
		"destinationNumber=5511987650123":   {RecipientHash: hash},
		"destinationNumber=%2B551187650123": {RecipientHash: hash}, // without its ninth digit
		"destinationNumber=+5511987650123":  {RecipientHash: hash}, // reads as a space
		"createdFrom=2026-11-29T12:00:00-03:00&createdTo=2026-11-29T15:00:00.5+00:00": {
			From: time.Date(2026, 11, 29, 15, 0, 0, 0, time.UTC), To: time.Date(2026, 11, 29, 15, 0, 0, 5e8, time.UTC),
		},
		"status=READ&category=UTILITY&other=1": {Status: events.StatusRead, Category: events.Utility},
	} {
		pageOf(t, f.get("/v1/messages?"+query, liveKey))
		if diff := gocmp.Diff(want, filter); diff != "" || limit != 51 || scope.Project != "shop" {
			t.Errorf("%s: limit %d of %+v, filter (-want +got):\n%s", query, limit, scope, diff)
		}
	}
}

// Every fault of a query is told at once, by name and rule.
func TestListFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	long := strings.Repeat("x", 257)
	for query, want := range map[string][]string{
		"limit=0": {"limit 1_to_200"}, "limit=201": {"limit 1_to_200"}, "limit=x": {"limit 1_to_200"},
		"destinationNumber=0": {"destinationNumber length"}, "cursor=x": {"cursor invalid"}, "label=" + long: {"label too_long"},
		"status=sent&stage=X&category=otp&createdFrom=today&createdTo=2026-11-29&instance=" + long + "&template=" + long + "&cursor=" + long: {
			"status unknown_value", "stage unknown_value", "category unknown_value", "createdFrom date_time", "createdTo date_time",
			"instance too_long", "template too_long", "cursor too_long",
		},
	} {
		r := f.get("/v1/messages?"+query, liveKey)
		wantCode(t, r, events.CodeValidation)
		var p struct {
			Details struct {
				Errors []events.FieldError `json:"errors"`
			} `json:"details"`
		}
		if err := json.Unmarshal(r.body, &p); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range p.Details.Errors {
			got = append(got, e.Field+" "+e.Rule)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%.60s (-want +got):\n%s", query, diff)
		}
	}
}

// API1: a cursor holds for its caller, its filters and its place only.
func TestCursorIsBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t).holds(many(9)...).start()
	first := pageOf(t, f.get("/v1/messages?limit=2&category=UTILITY", liveKey))
	cursor := *first.NextCursor
	use := func(query, key string) reply { return f.get("/v1/messages?"+query, key) }
	if got := pageOf(t, use("category=UTILITY&limit=5&cursor="+cursor, liveKey)); len(got.Data) != 5 {
		t.Errorf("another size of page: %d", len(got.Data))
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	moved := slices.Clone(raw)
	moved[len(moved)-1] ^= 1
	for name, c := range map[string][2]string{
		"other filter":      {"category=OTP&cursor=" + cursor, liveKey},
		"no filter":         {"cursor=" + cursor, liveKey},
		"one more filter":   {"category=UTILITY&label=a&cursor=" + cursor, liveKey},
		"other environment": {"category=UTILITY&cursor=" + cursor, testKey},
		"other project":     {"category=UTILITY&cursor=" + cursor, rawProject},
		"other tenant":      {"category=UTILITY&cursor=" + cursor, otherKey},
		"other place":       {"category=UTILITY&cursor=" + base64.RawURLEncoding.EncodeToString(moved), liveKey},
		"cut":               {"category=UTILITY&cursor=" + base64.RawURLEncoding.EncodeToString(raw[:16]), liveKey},
		"empty mac":         {"category=UTILITY&cursor=" + base64.RawURLEncoding.EncodeToString(raw[16:]), liveKey},
	} {
		r := use(c[0], c[1])
		wantCode(t, r, events.CodeValidation)
		if !strings.Contains(string(r.body), `{"field":"cursor","rule":"invalid"}`) {
			t.Errorf("%s: %s", name, r.body)
		}
	}
	again := newFixture(t).holds(many(9)...).start() // another process
	if got := pageOf(t, again.get("/v1/messages?category=UTILITY&cursor="+cursor, liveKey)); len(got.Data) != 7 {
		t.Errorf("in another process: %d", len(got.Data))
	}
}

// Read your write: a first page waits for the views of every partition that may hold what was accepted a moment ago.
func TestListWaitsForTheViews(t *testing.T) {
	t.Parallel()
	old := "createdTo=" + url.QueryEscape(stamp(clock.Add(-11*time.Second)))
	for name, c := range map[string]struct {
		query  string
		behind bool
		want   int
		waits  int
	}{
		"all partitions":           {"", false, http.StatusOK, 4},
		"behind":                   {"", true, http.StatusServiceUnavailable, 4},
		"partition of an instance": {"instance=own", false, http.StatusOK, 1},
		"old ones only":            {old, true, http.StatusOK, 0},
	} {
		f := newFixture(t).holds(many(3)...)
		var mu sync.Mutex
		waited := map[events.Partition]bool{}
		f.views.wait = func(_ context.Context, p events.Partition, seq uint64) error {
			mu.Lock()
			defer mu.Unlock()
			waited[p] = true
			if c.behind && p == 3 || seq != 99 {
				return context.DeadlineExceeded
			}
			return nil
		}
		r := f.start().get("/v1/messages?limit=1&"+c.query, liveKey)
		if r.status != c.want || len(waited) != c.waits {
			t.Errorf("%s: %d, waited for %v", name, r.status, waited)
		}
		if r.status != http.StatusOK {
			continue
		}
		clear(waited)
		if r := f.get("/v1/messages?limit=1&"+c.query+"&cursor="+*pageOf(t, r).NextCursor, liveKey); r.status != http.StatusOK || len(waited) > 0 {
			t.Errorf("%s, second page: %d, waited for %v", name, r.status, waited)
		}
	}
}

// P7, and a fault of ours is no 503.
func TestListOutages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(*fixture)
		want   events.Code
	}{
		"views down": {func(f *fixture) {
			f.reads.lists = func(Scope, MessageFilter, ListPlace, int) ([]MessageView, error) {
				return nil, events.Errorf(events.CodeUnavailable, "down")
			}
		}, events.CodeUnavailable},
		"no such column": {func(f *fixture) {
			f.reads.lists = func(Scope, MessageFilter, ListPlace, int) ([]MessageView, error) { return nil, errors.New("column") }
		}, events.CodeInternal},
		"no leader": {func(f *fixture) {
			f.heads = func(context.Context, events.Partition) (uint64, error) { return 0, errors.New("no leader") }
		}, events.CodeUnavailable},
		"keys down": {func(f *fixture) {
			f.keyring.open = func(string, events.Sealed, []byte) ([]byte, error) { return nil, errors.New("down") }
		}, events.CodeUnavailable},
		"hashes down": {func(f *fixture) {
			f.hasher = func(string, string, []byte) (string, error) { return "", errors.New("down") }
		}, events.CodeUnavailable},
		"short hash": {func(f *fixture) {
			f.hasher = func(string, string, []byte) (string, error) { return "aa", nil }
		}, events.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t).holds(append(many(3), stored())...)
			c.breaks(f)
			f.start()
			query := "limit=3"
			if name == "keys down" {
				query = "limit=4"
			}
			wantCode(t, f.get("/v1/messages?"+query, liveKey), c.want)
			if name == "hashes down" {
				wantCode(t, f.get("/v1/messages?limit=9&destinationNumber=5511987650123", liveKey), c.want)
				wantCode(t, f.get("/v1/messages?limit=9&cursor="+strings.Repeat("A", 60), liveKey), c.want)
			}
		})
	}
}
