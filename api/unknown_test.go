package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

func TestIdempotencyKeyHeader(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	for value, rule := range map[string]string{
		"a, b": "one_value", strings.Repeat("k", 256): "too_long", "ção": "characters", `"open`: "characters", `""`: "required",
	} {
		r := f.send(liveKey, `{"templateId":"generic_notification"}`, keyName, value)
		wantCode(t, r, events.CodeValidation)
		details, _ := r.member(t, "details").(map[string]any)
		want := []any{
			map[string]any{"field": "destinationNumber", "rule": "required"},
			map[string]any{"field": "Idempotency-Key", "rule": rule},
		}
		if diff := cmp.Diff(want, details["errors"]); diff != "" {
			t.Errorf("%q: %s", value, diff)
		}
	}
	req := httptest.NewRequest(http.MethodPost, "/v1/messages/send", strings.NewReader(note))
	req.Header["X-Api-Key"], req.Header["Idempotency-Key"] = []string{liveKey}, []string{"a", "a"}
	w := httptest.NewRecorder()
	f.server.Config.Handler.ServeHTTP(w, req)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "one_value") {
		t.Errorf("the header twice: %d %s", w.Code, w.Body)
	}
	if n := len(f.events()); n != 0 {
		t.Errorf("%d events", n)
	}
}

// A post without a key that was left without a known result is found by the next identical one, by that one only.
func TestUnknownPostIsFoundByItsRepeat(t *testing.T) {
	t.Parallel()
	for name, landed := range map[string]bool{"landed": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.storing()
			other := newFixture(t) // another process
			other.log, other.recall, other.catalog = f.log, f.recall, f.catalog
			f.start()
			other.start()
			next := f.log.append
			unknown := func(ctx context.Context, e events.Event) (uint64, error) {
				if landed {
					_, _ = next(ctx, e)
				}
				return 0, context.DeadlineExceeded
			}
			f.log.append = unknown
			wantCode(t, f.send(ownKey, text), events.CodeUnavailable)
			wantCode(t, other.send(ownKey, text), events.CodeUnavailable) // the repeat finds it, and knows no more
			f.log.append = next
			if len(f.recall.kept) != 1 {
				t.Fatalf("%d posts kept", len(f.recall.kept))
			}
			id := f.recall.kept[0].MessageID
			if r := other.send(liveKey, note); r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("another body: %d %s", r.status, r.body)
			}
			if r := other.send(ownKey, text+" "); r.member(t, "id") != id || r.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("the repeat: %d %s, want %s", r.status, r.body, id)
			}
			if r := other.send(ownKey, text); r.member(t, "id") == id || r.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("the next one is a new message: %d %s", r.status, r.body)
			}
			if n := len(f.events()) + len(other.events()); n != 3 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// Two deliberate posts that were both accepted stay two messages.
func TestAcceptedPostsAreNotRepeats(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	if a, b := f.send(ownKey, text), f.send(ownKey, text); a.member(t, "id") == b.member(t, "id") || len(f.events()) != 2 {
		t.Errorf("%s and %s, %d events", a.body, b.body, len(f.events()))
	}
}

// A client that gives up before the append has a result is the one that asks again.
func TestPostOfAClientThatLeftIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	arrived := make(chan struct{})
	f.log.append = func(ctx context.Context, _ events.Event) (uint64, error) {
		close(arrived)
		<-ctx.Done()
		return 0, ctx.Err()
	}
	f.start()
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequest(http.MethodPost, "/v1/messages/send", strings.NewReader(text)).WithContext(ctx)
	req.Header.Set("X-Api-Key", ownKey)
	go func() {
		<-arrived
		cancel()
	}()
	f.server.Config.Handler.ServeHTTP(httptest.NewRecorder(), req)
	if len(f.recall.kept) != 1 || !f.recall.kept[0].Pending() {
		t.Errorf("kept: %s", fmt.Sprint(f.recall.kept))
	}
}
