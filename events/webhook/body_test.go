package webhook_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/events/webhook"
)

var at = time.Date(2026, 11, 29, 12, 0, 1, 500e6, time.UTC)

func delivery(status events.Status) events.HookDelivery {
	name, _ := webhook.Name(status)
	return events.HookDelivery{
		Endpoint: "ep1", Instance: "inst1", Event: name, MessageID: "msg_1", Queued: events.Position{Partition: 1, Sequence: 7},
		Cause: events.Position{Partition: 1, Sequence: 9}, Status: status, At: at, GatewayID: "3EB0AA", Environment: events.Live,
		CorrelationID: "cor_1", Origin: "ACME", SourceNumber: "5511888880000", WithContent: true,
	}
}

func payload() *events.Payload {
	return &events.Payload{Destination: "+55 11 99999-0000", Digits: "5511999990000", Content: template.Content{Header: "Hi", Body: "code <1> & ok"}}
}

func TestBodyBytes(t *testing.T) {
	t.Parallel()
	got, err := webhook.Body(delivery(events.StatusDelivered), payload())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"event":"message.delivered","type":"message.delivered","timestamp":"2026-11-29T12:00:01.500Z","data":{` +
		`"id":"msg_1","internalMessageId":"msg_1","messageId":"3EB0AA","correlationId":"cor_1","numberId":"inst1","environment":"LIVE",` +
		`"destinationNumber":"+55 11 99999-0000","to":"+5511999990000","from":"+5511888880000","origin":"ACME",` +
		`"content":"*Hi*\n\ncode <1> & ok","status":"DELIVERED","createdAt":"2026-11-29T12:00:01.500Z","deliveredAt":"2026-11-29T12:00:01.500Z"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	again, err := webhook.Body(delivery(events.StatusDelivered), payload())
	if err != nil || !bytes.Equal(got, again) {
		t.Errorf("the body of a second try differs: %s, %v", again, err)
	}
}

func TestBodyOfEachStatus(t *testing.T) {
	t.Parallel()
	for status, field := range map[events.Status]string{
		events.StatusSent: "sentAt", events.StatusDelivered: "deliveredAt", events.StatusRead: "readAt", events.StatusFailed: "failedAt",
	} {
		d := delivery(status)
		d.GatewayID, d.SourceNumber = "", ""
		if status == events.StatusFailed {
			d.ErrorCode = events.FailExpired
		}
		data := fields(t, d, payload())
		for _, f := range []string{"sentAt", "deliveredAt", "readAt", "failedAt"} {
			if _, there := data[f]; there != (f == field) {
				t.Errorf("%s: %s is there: %t", status, f, there)
			}
		}
		if v, there := data["messageId"]; !there || v != nil {
			t.Errorf("%s: messageId is %v, want null", status, v)
		}
		if data["from"] != "" || data["status"] != string(status) {
			t.Errorf("%s: from %v, status %v", status, data["from"], data["status"])
		}
		_, message := data["errorMessage"]
		_, code := data["errorCode"]
		if failed := status == events.StatusFailed; message != failed || code != failed {
			t.Errorf("%s: errorMessage there %t, errorCode there %t", status, message, code)
		}
	}
}

func TestBodyWithoutContent(t *testing.T) {
	t.Parallel()
	without := delivery(events.StatusSent)
	without.WithContent = false
	for name, data := range map[string]map[string]any{
		"not wanted": fields(t, without, payload()),
		"key gone":   fields(t, delivery(events.StatusSent), nil),
	} {
		for _, f := range []string{"destinationNumber", "to", "content"} {
			if v, there := data[f]; !there || v != "" {
				t.Errorf("%s: %s is %v, want an empty string", name, f, v)
			}
		}
		if data["id"] != "msg_1" || data["createdAt"] == "" {
			t.Errorf("%s: id or time is missing: %v", name, data)
		}
	}
}

func TestErrorMessages(t *testing.T) {
	t.Parallel()
	unknown := webhook.ErrorMessage("SOMETHING_ELSE")
	for _, code := range []events.ErrorCode{
		events.FailExpired, events.FailExpiredAfterAttempts, events.FailAttemptsExhausted, events.FailDeliveryTimeout,
		events.FailNotConfirmed, events.FailNotOnWhatsApp, events.FailGatewayRejected, events.FailRequestInvalid,
		events.FailInstanceNotFound, events.FailDuplicateSuppressed, events.FailContentErased,
	} {
		if m := webhook.ErrorMessage(code); m == unknown || !strings.HasSuffix(m, ".") {
			t.Errorf("%s has no sentence of its own: %q", code, m)
		}
	}
}

func TestWithContent(t *testing.T) {
	t.Parallel()
	for days, want := range map[int]bool{0: false, 3: false, 4: true, 90: true} {
		if got := webhook.WithContent(days); got != want {
			t.Errorf("%d days: %t, want %t", days, got, want)
		}
	}
}

func fields(t *testing.T, d events.HookDelivery, p *events.Payload) map[string]any {
	t.Helper()
	raw, err := webhook.Body(d, p)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Data map[string]any `json:"data"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	return got.Data
}
