package evolutionsim

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/await/awaittest"
)

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
		"unposted":    {Fault{Mode: "unposted", Statuses: []string{"DELIVERY_ACK"}}, []string{"SERVER_ACK"}},
		"of a LID":    {Fault{Mode: "late", JID: "77777777777777@lid", DelayMS: 1}, []string{"SERVER_ACK", "DELIVERY_ACK"}},
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
			for _, h := range k.hooks() {
				if tt.fault.JID != "" && (h.Data.RemoteJID == tt.fault.JID) != (h.Data.KeyID == id) {
					t.Errorf("address of %+v", h.Data)
				}
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
		"hang before":   {Fault{Kind: "hang"}, 0, func(_ int, _ []byte, err error) bool { return errors.Is(err, context.Canceled) }},
		"hang after":    {Fault{Kind: "hang", When: "after"}, 1, func(_ int, _ []byte, err error) bool { return errors.Is(err, context.Canceled) }},
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
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if tt.fault.Kind == "hang" { // given up once it hangs where it is to hang, and has for a moment
				var giving sync.WaitGroup
				defer giving.Wait()
				giving.Go(func() {
					await.Until(ctx, time.Minute, time.Millisecond, func() bool {
						return s.Stats().Requests == 1 && len(s.Ledger(Filter{}).Entries) == tt.left
					})
					await.Elapsed(ctx, 50*time.Millisecond)
					cancel()
				})
			}
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
	if _, err := s.AddFault(Fault{Kind: "delay", DelayMS: 3000, Times: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, _, err := try(ctx, s, "POST", "/message/sendText/acme", s.APIKey(), `{"number":"5511999990000","text":"x"}`)
		ended <- err
	}()
	awaittest.Eventually(t, 20*time.Second, time.Millisecond, "the gateway has the request", func() bool { return s.Stats().Requests == 1 }, nil)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	awaittest.Eventually(t, 20*time.Second, time.Millisecond, "the message leaves", func() bool { return s.Stats().Accepted == 1 }, nil)
}
