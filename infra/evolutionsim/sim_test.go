package evolutionsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReceiptsComeInOrderWithTheInstancesHeaders(t *testing.T) {
	t.Parallel()
	k := newSink(t)
	s := start(t, Options{Instances: []Instance{acme(k.URL + "/hook")}, Receipts: Receipts{DeliveryAck: 5 * time.Millisecond, Read: 10 * time.Millisecond}})
	status, id := send(t, s, "hello")
	if status != 201 || len(id) != 22 || !strings.HasPrefix(id, "3EB0") {
		t.Fatalf("%d %q", status, id)
	}
	seen := k.wait(t, 3)
	if diff := cmp.Diff([]string{"SERVER_ACK", "DELIVERY_ACK", "READ"}, statuses(seen, id)); diff != "" {
		t.Error(diff)
	}
	h := seen[0]
	if h.Event != "messages.update" || h.Header.Get("X-Secret") != "s" || h.Data.MessageID == "" || !h.Data.FromMe {
		t.Errorf("%+v", h)
	}
	quiet(t, s)
	_, body := do(t, s, "POST", "/chat/findStatusMessage/acme", s.APIKey(), `{"where":{"id":"`+id+`"}}`)
	if n := strings.Count(string(body), `"keyId":"`+id+`"`); n != 3 {
		t.Errorf("%d statuses stored: %s", n, body)
	}
}

func TestReceiptFaults(t *testing.T) {
	t.Parallel()
	receipts := Receipts{DeliveryAck: time.Millisecond, Read: Never}
	for name, tt := range map[string]struct {
		fault Fault
		want  []string
	}{
		"lost":        {Fault{Mode: "lost"}, []string{}},
		"one lost":    {Fault{Mode: "lost", Statuses: []string{"SERVER_ACK"}}, []string{"DELIVERY_ACK"}},
		"duplicated":  {Fault{Mode: "duplicated", Copies: 3}, []string{"SERVER_ACK", "SERVER_ACK", "SERVER_ACK", "DELIVERY_ACK", "DELIVERY_ACK", "DELIVERY_ACK"}},
		"reversed":    {Fault{Mode: "reversed"}, []string{"DELIVERY_ACK", "SERVER_ACK"}},
		"error":       {Fault{Mode: "error"}, []string{"ERROR"}},
		"rowless":     {Fault{Mode: "rowless"}, []string{"SERVER_ACK", "DELIVERY_ACK"}},
		"early extra": {Fault{Mode: "early", Statuses: []string{"READ"}}, []string{"READ", "SERVER_ACK", "DELIVERY_ACK"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newSink(t)
			s := start(t, Options{Instances: []Instance{acme(k.URL)}, Receipts: receipts})
			tt.fault.Kind, tt.fault.Times, tt.fault.TextContains = "receipts", 1, "broken"
			if _, err := s.AddFault(tt.fault); err != nil {
				t.Fatal(err)
			}
			_, id := send(t, s, "broken one")
			_, whole := send(t, s, "broken two") // the fault works once
			quiet(t, s)
			if diff := cmp.Diff(tt.want, statuses(k.hooks(), id)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"SERVER_ACK", "DELIVERY_ACK"}, statuses(k.hooks(), whole)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnEarlyReceiptIsAnsweredBeforeTheSend(t *testing.T) {
	t.Parallel()
	k := newSink(t)
	s := start(t, Options{Instances: []Instance{acme(k.URL)}})
	if _, err := s.AddFault(Fault{Kind: "receipts", Mode: "early", Statuses: []string{"SERVER_ACK"}}); err != nil {
		t.Fatal(err)
	}
	_, id := send(t, s, "x")
	if seen := k.hooks(); len(seen) == 0 || seen[0].Data.KeyID != id || seen[0].Data.Status != "SERVER_ACK" {
		t.Errorf("when the 201 came the webhook had not: %+v", seen)
	}
}

func TestFaultsOfTheCall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault Fault
		left  int // messages that left
		check func(status int, body []byte, err error) bool
	}{
		"answer before": {Fault{Kind: "answer", Status: 502, Body: "<html>", ContentType: "text/html"}, 0, func(s int, b []byte, _ error) bool { return s == 502 && string(b) == "<html>" }},
		"answer after":  {Fault{Kind: "answer", When: "after", Status: 201, Body: "{"}, 1, func(s int, b []byte, _ error) bool { return s == 201 && string(b) == "{" }},
		"reset before":  {Fault{Kind: "reset"}, 0, func(_ int, _ []byte, err error) bool { return errors.Is(err, syscall.ECONNRESET) }},
		"reset after":   {Fault{Kind: "reset", When: "after"}, 1, func(_ int, _ []byte, err error) bool { return errors.Is(err, syscall.ECONNRESET) }},
		"hang before":   {Fault{Kind: "hang"}, 0, func(_ int, _ []byte, err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		"hang after":    {Fault{Kind: "hang", When: "after"}, 1, func(_ int, _ []byte, err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		"delay":         {Fault{Kind: "delay", DelayMS: 50}, 1, func(s int, _ []byte, _ error) bool { return s == 201 }},
		"unsaved": {Fault{Kind: "unsaved"}, 1, func(s int, b []byte, _ error) bool {
			return s == 400 && strings.Contains(string(b), "DriverAdapterError")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Options{Instances: []Instance{acme("")}})
			if _, err := s.AddFault(tt.fault); err != nil {
				t.Fatal(err)
			}
			limit := 10 * time.Second
			if tt.fault.Kind == "hang" {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			status, body, err := try(ctx, s, "POST", "/message/sendText/acme", s.APIKey(), `{"number":"5511999990000","text":"x"}`)
			if !tt.check(status, body, err) {
				t.Errorf("%d %q %v", status, body, err)
			}
			if report := s.Ledger(Filter{}); len(report.Entries) != tt.left {
				t.Errorf("%d messages left, want %d", len(report.Entries), tt.left)
			}
			if name == "unsaved" {
				if _, body := do(t, s, "POST", "/chat/findMessages/acme", s.APIKey(), `{}`); !strings.Contains(string(body), `"total":0`) {
					t.Errorf("an unsaved message was found: %s", body)
				}
			}
		})
	}
}

func TestAnAbandonedRequestIsSentAllTheSame(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Instances: []Instance{acme("")}})
	if _, err := s.AddFault(Fault{Kind: "delay", DelayMS: 200, Times: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := try(ctx, s, "POST", "/message/sendText/acme", s.APIKey(), `{"number":"5511999990000","text":"x"}`); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); s.Stats().Accepted == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the message never left")
		}
	}
}

func TestTheLedgerShowsOverlaps(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Instances: []Instance{acme("")}, SendTime: 20 * time.Millisecond})
	var both sync.WaitGroup
	for n := range 2 {
		both.Go(func() {
			_, _, err := try(t.Context(), s, "POST", "/message/sendText/acme", s.APIKey(), fmt.Sprintf(`{"number":"5511999990000","text":"o%d"}`, n))
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	report := s.Ledger(Filter{Instance: "acme", Text: "o"})
	if report.MaxInFlight["acme"] != 2 || len(report.Entries) != 2 || max(report.Entries[0].InFlight, report.Entries[1].InFlight) != 2 {
		t.Errorf("%+v", report)
	}
	s.Reset()
	for range 20 {
		send(t, s, "one at a time")
	}
	report = s.Ledger(Filter{})
	if report.MaxInFlight["acme"] != 1 || report.Total != 20 {
		t.Errorf("sends one after another seem to overlap: %+v", report.MaxInFlight)
	}
	for _, e := range report.Entries {
		if e.FinishedAt.Before(e.AcceptedAt) || e.AcceptedAt.Before(e.StartedAt) {
			t.Errorf("times out of order: %+v", e)
		}
	}
}

func TestTheLedgerIsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Instances: []Instance{acme("")}, LedgerCap: 3, MessageCap: 2, NumberCap: 2})
	for n := range 5 {
		do(t, s, "POST", "/message/sendText/acme", s.APIKey(), fmt.Sprintf(`{"number":"551199999000%d","text":"t%d"}`, n, n))
	}
	report := s.Ledger(Filter{})
	var texts []string
	for _, e := range report.Entries {
		texts = append(texts, e.Text)
	}
	if diff := cmp.Diff([]string{"t2", "t3", "t4"}, texts); diff != "" || report.Dropped != 2 || report.Total != 5 {
		t.Error(diff, report.Dropped, report.Total)
	}
	_, body := do(t, s, "POST", "/chat/findMessages/acme", s.APIKey(), `{}`)
	if !strings.Contains(string(body), `"total":2`) || strings.Contains(string(body), "t2") || !strings.Contains(string(body), "t4") {
		t.Errorf("store: %s", body)
	}
	if len(s.numbers.known) != 2 {
		t.Errorf("%d numbers cached", len(s.numbers.known))
	}
}

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
		Instances: []Instance{acme(k.URL)}, Receipts: Receipts{Read: Never}, Webhooks: Webhooks{InitialDelay: 100 * time.Millisecond},
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

func TestControlOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	if status, _ := do(t, s, "POST", "/sim/instances", "", `{"name":"acme","number":"5511888880000"}`); status != 200 {
		t.Fatal(status)
	}
	status, body := do(t, s, "POST", "/sim/faults", "", `{"kind":"answer","status":503,"body":"x","times":2,"call":"connectionState"}`)
	if status != 200 || string(body) != "{\"id\":1}\n" {
		t.Fatalf("%d %s", status, body)
	}
	if status, _ := do(t, s, "GET", "/instance/connectionState/acme", s.APIKey(), ""); status != 503 {
		t.Error(status)
	}
	var list []Fault
	_, body = do(t, s, "GET", "/sim/faults", "", "")
	if err := json.Unmarshal(body, &list); err != nil || len(list) != 1 || list[0].Times != 1 {
		t.Errorf("%s %v", body, err)
	}
	if status, _ := do(t, s, "DELETE", "/sim/faults/1", "", ""); status != 200 || len(s.Faults()) != 0 {
		t.Error("the fault is still set")
	}
	for _, bad := range []string{`{"kind":"nonsense"}`, `{"kind":"hang","wen":"after"}`, `{"kind":"answer"}`, `{"kind":"receipts","mode":"x"}`, `{"kind":"misroute"}`, `{"kind":"hang","when":"x"}`} {
		if status, _ := do(t, s, "POST", "/sim/faults", "", bad); status != 400 {
			t.Errorf("%s: %d", bad, status)
		}
	}
	send(t, s, "one")
	var report Report
	_, body = do(t, s, "GET", "/sim/ledger?text=one&instance=acme", "", "")
	if err := json.Unmarshal(body, &report); err != nil || len(report.Entries) != 1 || report.Entries[0].TextHash == "" {
		t.Errorf("%s %v", body, err)
	}
	do(t, s, "POST", "/sim/reset", "", "")
	if s.Ledger(Filter{}).Total != 0 {
		t.Error("reset kept the ledger")
	}
	if status, _ := do(t, s, "POST", "/sim/emit", "", `{"instance":"acme","event":"messages.upsert","data":{}}`); status != 200 {
		t.Error(status)
	}
	if status, _ := do(t, s, "GET", "/sim/nothing", "", ""); status != 404 {
		t.Error(status)
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

func TestCloseEndsHangingRequestsAndWaitingWebhooks(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Start(ctx, Options{Instances: []Instance{acme("http://127.0.0.1:1")}, Receipts: Receipts{ServerAck: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	send(t, s, "x")
	if _, err := s.AddFault(Fault{Kind: "hang", When: "after"}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := try(t.Context(), s, "POST", "/message/sendText/acme", s.APIKey(), `{"number":"5511999990000","text":"x"}`)
		ended <- err
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Stats().Accepted < 2 {
		<-tick.C
	}
	cancel() // closes as Close does
	s.Close()
	if err := <-ended; err == nil {
		t.Error("the hanging request got an answer")
	}
}

func BenchmarkSend(b *testing.B) {
	sink := newQuietSink(b)
	s, err := Start(b.Context(), Options{Instances: []Instance{acme(sink)}, Receipts: Receipts{Read: Never}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	kept := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer kept.CloseIdleConnections()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, _ := http.NewRequestWithContext(b.Context(), "POST", s.URL()+"/message/sendText/acme", strings.NewReader(`{"number":"5511999990000","text":"x"}`))
			req.Header.Set("apikey", s.APIKey())
			res, err := kept.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

func newQuietSink(b *testing.B) string {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	b.Cleanup(server.Close)
	return server.URL
}
