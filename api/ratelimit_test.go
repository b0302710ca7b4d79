package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

func header(r reply) [3]string {
	return [3]string{r.header.Get("RateLimit-Policy"), r.header.Get("RateLimit"), r.header.Get("Retry-After")}
}

// Every answer to a key tells what is left; when nothing is, the request is refused before anything else is judged of it.
func TestBurstOfAKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.BurstRate, f.cfg.Burst = 0.5, 3
	f.start()
	const policy = `"burst";q=3;w=6`
	for i, want := range [][3]string{
		{policy, `"burst";r=2;t=2`, ""}, {policy, `"burst";r=1;t=4`, ""}, {policy, `"burst";r=0;t=6`, ""}, {policy, `"burst";r=0;t=6`, "6"},
	} {
		var r reply
		switch i {
		case 0:
			r = f.send(liveKey, note)
		case 1: // refusals and reads count as well
			r = f.send(liveKey, `{`)
			wantCode(t, r, events.CodeValidation)
		case 2:
			r = f.get("/v1/messages/msg_x", liveKey)
			wantCode(t, r, events.CodeNotFound)
		case 3:
			r = f.send(liveKey, `{`)
			wantCode(t, r, CodeRateLimited)
			details, _ := r.member(t, "details").(map[string]any)
			if diff := cmp.Diff(map[string]any{"violatedPolicies": []any{"burst"}}, details); r.status != http.StatusTooManyRequests || diff != "" {
				t.Errorf("%d %s", r.status, diff)
			}
		}
		if got := header(r); got != want {
			t.Errorf("request %d: %q, want %q", i, got, want)
		}
	}
	if r := f.send(ownKey, text); r.status != http.StatusAccepted || r.header.Get("RateLimit") != `"burst";r=2;t=2` {
		t.Errorf("another key: %d, %q", r.status, header(r))
	}
	// The burst goes before the approval, and behind the key.
	for range 3 {
		wantCode(t, f.send(rawProject, note), CodeProjectNotApproved)
	}
	wantCode(t, f.send(rawProject, note), CodeRateLimited)
	if r := f.send("", note); r.status != http.StatusUnauthorized || r.header.Get("RateLimit") != "" {
		t.Errorf("no key: %d, %q", r.status, header(r))
	}
	f.now = clock.Add(2 * time.Second)
	if r := f.send(liveKey, note); r.status != http.StatusAccepted || r.header.Get("RateLimit") != `"burst";r=0;t=6` {
		t.Errorf("after the wait for one: %d, %q", r.status, header(r))
	}
}

func TestBurstIsOffBelowZero(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.BurstRate = -1
	f.start()
	for range 3 {
		if r := f.get("/v1/messages/msg_x", liveKey); r.status != http.StatusNotFound || header(r) != [3]string{} {
			t.Fatalf("%d, %q", r.status, header(r))
		}
	}
}

// What counts as many is possible once there is one, and is paid for afterwards.
func TestBurstInDebt(t *testing.T) {
	t.Parallel()
	b := newBursts(50, 100)
	if left, ok := b.take("k", 1000, clock); !ok || left.Left > 0 || left.Reset != 20*time.Second {
		t.Errorf("%+v %v", left, ok)
	}
	if left := b.charge(grant{}, "l", 150, clock); left.Left > 0 || left.Reset != 3*time.Second {
		t.Errorf("charged: %+v", left)
	}
	if _, ok := b.take("k", 1, clock.Add(18*time.Second)); ok {
		t.Error("still in debt")
	}
	if left, ok := b.take("k", 1, clock.Add(18*time.Second+20*time.Millisecond)); !ok || left.Left != 0 {
		t.Errorf("%+v %v", left, ok)
	}
}

// A process keeps count of a bounded number of keys.
func TestBurstsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBursts(1, 1)
	for i := range maxBuckets + 10 {
		b.take(fmt.Sprint(i), 1, clock)
		b.take("often", 1, clock)
	}
	if len(b.buckets) != maxBuckets || b.order.Len() != maxBuckets {
		t.Errorf("%d buckets, %d in order", len(b.buckets), b.order.Len())
	}
	if _, ok := b.take("often", 1, clock); ok {
		t.Error("the one that asks often was forgotten")
	}
}

// Several policies stand in one header, and the wait of a refusal is the longest of what is used up.
func TestLimitsOfSeveralPolicies(t *testing.T) {
	t.Parallel()
	var l limits
	l.note(Limit{Name: "burst", Quota: 100, Window: 2 * time.Second, Left: 7, Reset: 1900 * time.Millisecond})
	l.note(Limit{Name: "day", Quota: 50, Left: 3, Reset: time.Hour})
	l.note(Limit{Name: "day", Quota: 50, Left: -2, Reset: 90*time.Minute + time.Millisecond})
	h := http.Header{}
	l.header(h)
	want := http.Header{
		"Ratelimit-Policy": {`"burst";q=100;w=2, "day";q=50`},
		"Ratelimit":        {`"burst";r=7;t=2, "day";r=0;t=5401`},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Error(diff)
	}
	if w := l.wait(); w != 90*time.Minute+time.Millisecond {
		t.Errorf("wait %s", w)
	}
	var none *limits
	none.note(Limit{})
	if none.wait() != time.Second {
		t.Error("without limits")
	}
}

// The document says of every operation of customers what limits do to it.
func TestLimitsAreDocumented(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	raw := string(f.get("/openapi.json", "").body)
	if n := strings.Count(raw, `429`); n < 3 || !strings.Contains(raw, `"#/components/headers/RateLimit"`) {
		t.Errorf("429 is documented %d times", n)
	}
}
