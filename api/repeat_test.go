package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/idempotency"
)

const keyName = "Idempotency-Key"

// storing makes the fixture's log one that takes an id once, as the real one does within its window.
func (f *fixture) storing() {
	next := f.log.append
	var mu sync.Mutex
	stored := map[string]uint64{}
	f.log.append = func(ctx context.Context, e events.Event) (uint64, error) {
		mu.Lock()
		defer mu.Unlock()
		if seq, again := stored[e.ID]; again {
			return seq, nil
		}
		seq, err := next(ctx, e)
		if err == nil {
			stored[e.ID] = seq
		}
		return seq, err
	}
}

// A repeat gets the very answer of the first request, and appends nothing.
func TestRepeatIsReplayed(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	first := f.send(liveKey, note, keyName, `"order-17"`)
	f.now = clock.Add(6 * 24 * time.Hour)
	again := f.do(http.MethodPost, "/api/v1/messages/send", liveKey, strings.NewReader("\n"+note), keyName, "order-17")
	if first.status != http.StatusAccepted || again.status != http.StatusAccepted {
		t.Fatalf("%d %s, then %d %s", first.status, first.body, again.status, again.body)
	}
	if diff := cmp.Diff(string(first.body), string(again.body)); diff != "" {
		t.Error(diff)
	}
	if first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" ||
		first.header.Get("Location") != again.header.Get("Location") {
		t.Errorf("headers %v, then %v", first.header, again.header)
	}
	if n := len(f.events()); n != 1 {
		t.Errorf("%d events appended", n)
	}
	for name, c := range f.claims.live() {
		if !strings.HasPrefix(name, "acme.LIVE.") || c.ttl != 7*24*time.Hour || strings.Contains(string(c.value), canary) ||
			strings.Contains(string(c.value), canaryNumber) || strings.Contains(string(c.value), `"event"`) {
			t.Errorf("claim %s for %s: %s", name, c.ttl, c.value)
		}
	}
}

// Case 64 and fault A4: another body is refused and the first message left as it is; the scope of a key is tenant,
// environment, method and path, and a project does not get what belongs to another.
func TestCase64FaultA4SameKeyOtherRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	if r := f.send(liveKey, note, keyName, "k"); r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.body)
	}
	other := f.send(liveKey, strings.Replace(note, "Ana", "Eva", 1), keyName, "k")
	wantCode(t, other, CodeKeyReused)
	if other.status != http.StatusUnprocessableEntity || len(f.events()) != 1 {
		t.Errorf("%d, %d events", other.status, len(f.events()))
	}
	if r := f.send(testKey, note, keyName, "k"); r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("another environment: %d %s", r.status, r.body)
	}
	define(f.catalog.cat, events.KindTemplate, "t-rival", events.Template{
		ID: "t-rival", TenantID: "rival", ProjectID: "rivals", Name: "generic_notification", Category: events.Utility,
		Versions: []events.TemplateVersion{version(1, true, `"{{name}}: {{message}}"`)},
	})
	if r := f.send(otherKey, note, keyName, "k"); r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
	if n := len(f.events()); n != 3 {
		t.Errorf("%d events", n)
	}
}

// Case 65: only what was accepted is replayed; a corrected request may use the key of a refused one.
func TestCase65RefusalsAreNotStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.catalog.behind = time.Minute
	f.start()
	wantCode(t, f.send(liveKey, note, keyName, "k"), events.CodeUnavailable)
	f.catalog.behind = 0
	for _, refused := range []struct {
		body string
		want events.Code
	}{
		{`{`, events.CodeValidation},
		{`{"destinationNumber":"0001","templateId":"generic_notification"}`, events.CodeValidation},
		{`{"destinationNumber":"+5511987650123","templateId":"none"}`, events.CodeTemplateNotFound},
		{`{"destinationNumber":"+5511987650123","templateId":"generic_notification"}`, events.CodeMissingVariables},
		{`{"destinationNumber":"+5511987650123","text":"x"}`, events.CodeFreeTextOwnNumber},
	} {
		wantCode(t, f.send(liveKey, refused.body, keyName, "k"), refused.want)
	}
	if left := f.claims.live(); len(left) != 0 {
		t.Fatalf("claims %v", left)
	}
	if r := f.send(liveKey, note, keyName, "k"); r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("corrected: %d %s", r.status, r.body)
	}
}

// An event that the log can never take leaves no claim.
func TestRefusedAppendReleasesItsClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.log.append = func(context.Context, events.Event) (uint64, error) {
		return 0, events.Errorf(events.CodeMalformed, "x")
	}
	f.start()
	wantCode(t, f.send(liveKey, note, keyName, "k"), events.CodeInternal)
	if left := f.claims.live(); len(left) != 0 {
		t.Errorf("claims %v", left)
	}
}

// Case 66 and fault A3: fifty posts with one key at two processes are one message; the others replay it or hear that the
// first is under way.
func TestCase66FaultA3FiftyPostsWithOneKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.storing()
	f.start()
	second := newFixture(t)
	second.log, second.claims, second.catalog = f.log, f.claims, f.catalog
	second.start()
	var mu sync.Mutex
	count := map[string]int{}
	ids := map[any]bool{}
	var all sync.WaitGroup
	for i := range 50 {
		at := []*fixture{f, second}[i%2]
		all.Go(func() {
			r := at.send(liveKey, note, keyName, "k")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.status == http.StatusAccepted:
				ids[r.member(t, "id")] = true
				count["accepted"+r.header.Get("Idempotent-Replayed")]++
			case r.status == http.StatusConflict && r.header.Get("Retry-After") == "1":
				count["conflict"]++
			default:
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	if count["accepted"] != 1 || len(ids) != 1 || len(f.events()) != 1 || count["acceptedtrue"]+count["conflict"] != 49 {
		t.Errorf("%v, %d ids, %d events", count, len(ids), len(f.events()))
	}
}

// leftPending posts with a key while the process dies behind its append, which landed or not.
func (f *fixture) leftPending(landed bool) {
	f.t.Helper()
	next := f.log.append
	f.log.append = func(ctx context.Context, e events.Event) (uint64, error) {
		if landed {
			if _, err := next(ctx, e); err != nil {
				return 0, err
			}
		}
		return 0, context.DeadlineExceeded
	}
	r := f.send(liveKey, note, keyName, "k")
	f.log.append = next
	if r.status != http.StatusServiceUnavailable || len(f.claims.live()) != 1 {
		f.t.Fatalf("%d %s, claims %v", r.status, r.body, f.claims.live())
	}
}

// Faults A1 and A2: whether the first append landed or not, a repeat ends with that one message.
func TestFaultsA1A2RepeatAfterAnUnknownAppend(t *testing.T) {
	t.Parallel()
	for name, landed := range map[string]bool{"landed": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.storing()
			f.start()
			f.leftPending(landed)
			var claim idempotency.Claim
			for _, c := range f.claims.live() {
				if err := json.Unmarshal(c.value, &claim); err != nil {
					t.Fatal(err)
				}
			}
			early := f.send(liveKey, note, keyName, "k")
			wantCode(t, early, CodeInProgress)
			if early.status != http.StatusConflict || early.header.Get("Retry-After") != "1" {
				t.Errorf("%d, Retry-After %q", early.status, early.header.Get("Retry-After"))
			}
			wantCode(t, f.send(liveKey, strings.Replace(note, "Ana", "Eva", 1), keyName, "k"), CodeKeyReused)
			f.now = clock.Add(10 * time.Second)
			for i := range 2 {
				r := f.send(liveKey, note, keyName, "k")
				if r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "true" || r.member(t, "id") != claim.MessageID {
					t.Fatalf("repeat %d: %d %s", i, r.status, r.body)
				}
			}
			all := f.events()
			if len(all) != 1 || all[0].ID != claim.MessageID || !all[0].Time.Equal(clock) {
				t.Errorf("log %+v", all)
			}
			for _, c := range f.claims.live() {
				if strings.Contains(string(c.value), `"event"`) {
					t.Error("the claim is still pending")
				}
			}
		})
	}
}

// Fault A5: when the log has forgotten the id, the message is looked for; where it is not, the request is a new one.
func TestFaultA5RepeatAfterTheDedupWindow(t *testing.T) {
	t.Parallel()
	for name, landed := range map[string]bool{"landed": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t) // its log takes an id as often as it is given
			f.finder = func(p events.Partition, since, until time.Time, ids []string) (map[string]events.Recorded, error) {
				if p != events.PartitionOf("shared", 4) || !since.Before(clock) || until.Before(clock.Add(10*time.Minute)) {
					t.Errorf("looked in partition %s from %s to %s", p, since, until)
				}
				found := map[string]events.Recorded{}
				for _, e := range f.events() {
					if len(ids) == 1 && e.ID == ids[0] {
						found[e.ID] = events.Recorded{Event: e}
					}
				}
				return found, nil
			}
			f.start()
			f.leftPending(landed)
			f.now = clock.Add(3 * time.Hour)
			r := f.send(liveKey, note, keyName, "k")
			again := f.send(liveKey, note, keyName, "k")
			if r.status != http.StatusAccepted || (r.header.Get("Idempotent-Replayed") == "true") != landed ||
				again.header.Get("Idempotent-Replayed") != "true" || string(r.body) != string(again.body) {
				t.Errorf("%d %s, then %d %s", r.status, r.body, again.status, again.body)
			}
			if n := len(f.events()); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}

func TestRepeatWhileNothingCanBeKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.finder = func(events.Partition, time.Time, time.Time, []string) (map[string]events.Recorded, error) {
		return nil, errors.New("no leader")
	}
	f.start()
	f.leftPending(false)
	f.now = clock.Add(time.Hour)
	wantCode(t, f.send(liveKey, note, keyName, "k"), events.CodeUnavailable)
	f.claims.err = errors.New("bucket down")
	wantCode(t, f.send(liveKey, note, keyName, "k"), events.CodeUnavailable)
	wantCode(t, f.send(liveKey, note, keyName, "new"), events.CodeUnavailable)
	if n := len(f.events()); n != 0 {
		t.Errorf("%d events", n)
	}
	if r := f.send(liveKey, note); r.status != http.StatusAccepted { // who gives no key does not depend on the bucket
		t.Errorf("without a key: %d %s", r.status, r.body)
	}
}

// A repeat that comes after the window of the first request is answered as that was; a new request is refused.
func TestRepeatAfterItsWindow(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	body := `{"destinationNumber":"+5511987650123","templateId":"code","variables":{"code":"1"},"deliverUntil":"2026-11-29T15:22:30Z"}`
	f.send(testKey, body, keyName, "k")
	f.now = clock.Add(time.Minute)
	if r := f.send(testKey, body, keyName, "k"); r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %s", r.status, r.body)
	}
	wantCode(t, f.send(testKey, body, keyName, "new"), events.CodeValidation)
	wantCode(t, f.send(testKey, body), events.CodeValidation)
}
