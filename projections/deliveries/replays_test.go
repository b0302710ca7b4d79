package deliveries_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/projections/deliveries"
	"pilotstatus.dev/projections/views"
)

// A delivery that is to be replayed is found by its newest try, whatever tries it had before, a replay's too.
func TestDeliveriesThatEnded(t *testing.T) {
	t.Parallel()
	pool, log := open(t), newLog()
	add := func(tenant, webhook string, n int, result string, more func(*events.HookAttempt)) {
		t.Helper()
		made := &events.HookDelivery{Endpoint: "ep", MessageID: "msg_1", Event: "message.sent"}
		log.try(t, tenant, "ep", n, result, func(a *events.HookAttempt) {
			a.Delivery = made
			if more != nil {
				more(a)
			}
		})
		log.recs[len(log.recs)-1].ID = fmt.Sprintf("%s.%d.%s", webhook, n, result)
		if made.Replay != nil {
			log.recs[len(log.recs)-1].ID = fmt.Sprintf("%s.%s.%d.%s", webhook, made.Replay.Nonce, n, result)
		}
	}
	replayed := func(a *events.HookAttempt) { a.Delivery.Replay = &events.HookReplay{Nonce: "r1"} }
	add("acme", "aa", 1, events.HookFailed, nil)
	add("acme", "aa", 2, events.HookExhausted, nil)
	add("acme", "bb", 1, events.HookExhausted, nil)
	add("acme", "cc", 1, events.HookExhausted, nil)
	add("acme", "bb", 2, events.HookSucceeded, replayed) // replayed since
	add("acme", "cc", 2, events.HookFailed, replayed)    // tried again since
	add("globex", "dd", 1, events.HookExhausted, nil)
	add("acme", "disabled-7", 0, events.HookExhausted, func(a *events.HookAttempt) { a.Delivery = nil })
	add("acme", "ee", 0, events.HookExhausted, nil)
	if err := deliveries.New(pool, deliveries.Config{}).Fill(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	v := views.New(pool)
	for name, c := range map[string]struct {
		results  []string
		from, to time.Time
		after    uint64
		limit    int
		want     []string
	}{
		"exhausted":      {[]string{events.HookExhausted}, now, now.Add(time.Hour), 0, 10, []string{"aa", "ee"}},
		"first page":     {[]string{events.HookExhausted}, now, now.Add(time.Hour), 0, 1, []string{"aa"}},
		"second page":    {[]string{events.HookExhausted}, now, now.Add(time.Hour), 2, 1, []string{"ee"}},
		"failed as well": {[]string{events.HookExhausted, events.HookFailed}, now, now.Add(time.Hour), 0, 10, []string{"aa", "cc", "ee"}},
		"earlier":        {[]string{events.HookExhausted}, now.Add(-time.Hour), now, 0, 10, nil},
	} {
		got, err := v.Ended(t.Context(), "acme", "ep", c.results, c.from, c.to, c.after, c.limit)
		var ids []string
		for _, d := range got {
			ids = append(ids, d.WebhookID)
		}
		if err != nil || !slices.Equal(ids, c.want) {
			t.Errorf("%s: %v, want %v (%v)", name, ids, c.want, err)
		}
	}
	if d, err := v.Delivery(t.Context(), "acme", "ep", "cc"); err != nil || d.Attempt != 2 || d.Made == nil || d.Made.Replay == nil {
		t.Errorf("newest try: %+v, %v", d, err)
	}
	for _, c := range [][3]string{{"acme", "ep", "dd"}, {"globex", "ep", "aa"}, {"acme", "other", "aa"}, {"acme", "ep", "a\x00"}} {
		if _, err := v.Delivery(t.Context(), c[0], c[1], c[2]); events.CodeOf(err) != events.CodeNotFound {
			t.Errorf("%v: %v", c, err)
		}
	}
}
