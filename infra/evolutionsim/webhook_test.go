package evolutionsim

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWebhooksAreRetriedAsTheGatewayDoes(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{500: 3, 429: 3, 302: 3, 404: 1, 401: 1, 204: 1} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			k := newSink(t)
			k.status = func(int) int { return status }
			s := start(t, Options{
				Instances: []Instance{acme(k.URL)}, Receipts: Receipts{DeliveryAck: Never, Read: Never},
				Webhooks: Webhooks{MaxAttempts: 3, InitialDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond},
			})
			send(t, s, "x")
			k.wait(t, want)
			quiet(t, s)
			if n := len(k.hooks()); n != want {
				t.Errorf("%d tries, want %d", n, want)
			}
		})
	}
}

func TestARetriedReceiptArrivesAfterNewerOnes(t *testing.T) {
	t.Parallel()
	k := newSink(t)
	k.status = func(n int) int { return map[bool]int{true: 503, false: 200}[n == 1] }
	s := start(t, Options{
		Instances: []Instance{acme(k.URL)}, Receipts: Receipts{Read: Never}, Webhooks: Webhooks{InitialDelay: 4 * time.Second},
	})
	_, id := send(t, s, "x")
	if diff := cmp.Diff([]string{"SERVER_ACK", "DELIVERY_ACK", "SERVER_ACK"}, statuses(k.wait(t, 3), id)); diff != "" {
		t.Error(diff)
	}
}

func TestBackoffDoublesToItsCap(t *testing.T) {
	t.Parallel()
	o := Options{Webhooks: Webhooks{Jitter: -1}}
	o.setDefaults()
	h := &hooks{options: o.Webhooks}
	var got []time.Duration
	for tried := 1; tried <= 9; tried++ {
		got = append(got, h.wait(tried)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{5, 10, 20, 40, 80, 160, 300, 300, 300}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAStateChangePostsWhatTheGatewayPosts(t *testing.T) {
	t.Parallel()
	k := newSink(t)
	i := acme(k.URL)
	i.Webhook.Events = nil
	s := start(t, Options{Instances: []Instance{i}})
	for _, step := range []struct {
		body string
		want []string
	}{
		{`{"state":"close"}`, nil},
		{`{"state":"connecting"}`, []string{"connection.update"}},
		{`{"state":"open"}`, []string{"connection.update"}},
		{`{"state":"close","reason":403}`, []string{"status.instance", "logout.instance", "connection.update"}},
	} {
		before := len(k.hooks())
		if status, body := do(t, s, "POST", "/sim/instances/acme", "", step.body); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		quiet(t, s)
		events := map[string]int{}
		for _, h := range k.hooks()[before:] {
			events[h.Event]++
		}
		want := map[string]int{}
		for _, e := range step.want {
			want[e]++
		}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("%s: %s", step.body, diff)
		}
	}
}

func TestWebhookSetAndByEvents(t *testing.T) {
	t.Parallel()
	k := newSink(t)
	s := start(t, Options{Instances: []Instance{acme("")}, Receipts: Receipts{DeliveryAck: Never, Read: Never}})
	set := `{"webhook":{"enabled":true,"url":"` + k.URL + `/h","byEvents":true,"headers":{"authorization":"B"},"events":["MESSAGES_UPDATE","SEND_MESSAGE"]}}`
	if status, body := do(t, s, "POST", "/webhook/set/acme", s.APIKey(), set); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	send(t, s, "x")
	paths := map[string]bool{}
	for _, h := range k.wait(t, 2) {
		paths[h.Path] = h.Header.Get("Authorization") == "B"
	}
	if diff := cmp.Diff(map[string]bool{"/h/messages-update": true, "/h/send-message": true}, paths); diff != "" {
		t.Error(diff)
	}
	if status, _ := do(t, s, "POST", "/webhook/set/acme", s.APIKey(), `{"webhook":{"enabled":true,"url":"x"}}`); status != 500 {
		t.Errorf("webhook without events: %d", status)
	}
	if status, _ := do(t, s, "POST", "/webhook/set/acme", s.APIKey(), `{"url":"x"}`); status != 400 {
		t.Errorf("flat webhook: %d", status)
	}
	if status, body := do(t, s, "POST", "/message/sendText/acme", s.APIKey(), `{"number":`); status != 400 || !strings.Contains(string(body), "Internal Server Error") {
		t.Errorf("malformed body: %d %s", status, body)
	}
}
