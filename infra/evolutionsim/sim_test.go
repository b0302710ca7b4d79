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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/infra/await/awaittest"
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

func TestTheLedgerShowsOverlaps(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Instances: []Instance{acme("")}})
	if _, err := s.AddFault(Fault{Kind: "hang", When: "after", TextContains: "o0"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	defer hanging.Wait()
	defer cancel()
	hanging.Go(func() {
		_, _, err := try(ctx, s, "POST", "/message/sendText/acme", s.APIKey(), `{"number":"5511999990000","text":"o0"}`)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the first ended with %v", err)
		}
	})
	awaittest.Eventually(t, 20*time.Second, time.Millisecond, "the first is under way", func() bool { return s.Stats().Accepted == 1 }, nil)
	send(t, s, "o1")
	report := s.Ledger(Filter{Instance: "acme", Text: "o"})
	if report.MaxInFlight["acme"] != 2 || len(report.Entries) != 2 || max(report.Entries[0].InFlight, report.Entries[1].InFlight) != 2 {
		t.Errorf("%+v", report)
	}
	s = start(t, Options{Instances: []Instance{acme("")}, SendTime: 5 * time.Millisecond})
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
	for after, want := range map[string]int{"1": 3, "3": 2, "4": 1, "5": 0, "6": 0} {
		_, body := do(t, s, "GET", "/sim/ledger?after="+after, "", "")
		if got := strings.Count(string(body), `"seq":`); got != want || after == "4" && !strings.Contains(string(body), "t4") {
			t.Errorf("%d entries after %s, want %d: %s", got, after, want, body)
		}
	}
	if status, body := do(t, s, "GET", "/sim/ledger?after=yesterday", "", ""); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, body)
	}
	_, body := do(t, s, "POST", "/chat/findMessages/acme", s.APIKey(), `{}`)
	if !strings.Contains(string(body), `"total":2`) || strings.Contains(string(body), "t2") || !strings.Contains(string(body), "t4") {
		t.Errorf("store: %s", body)
	}
	if len(s.numbers.known) != 2 {
		t.Errorf("%d numbers cached", len(s.numbers.known))
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
			req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL()+"/message/sendText/acme", strings.NewReader(`{"number":"5511999990000","text":"x"}`))
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
