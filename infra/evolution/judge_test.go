package evolution

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func wrapped(status int, message string) string {
	return fmt.Sprintf(`{"status":%d,"error":"x","response":{"message":%s}}`, status, message)
}

// TestJudgeFollowsTheTable covers every row of the verdict table, those without a capture written by hand, and the near misses of each.
func TestJudgeFollowsTheTable(t *testing.T) {
	t.Parallel()
	const undefined = "Cannot read properties of undefined (reading '"
	tests := []struct {
		name    string
		call    Call
		version string
		answer  Answer
		want    Verdict
	}{
		{"200 without key", CallSendText, "", Answer{Status: 200, Body: []byte(`{"ok":true}`)}, Verdict{Outcome: Accepted, Code: CauseNoGatewayID}},
		{"201 empty", CallSendText, "", Answer{Status: 201}, Verdict{Outcome: Accepted, Code: CauseNoGatewayID}},
		{"201 HTML", CallSendButtons, "", Answer{Status: 201, Body: []byte(`<html>`)}, Verdict{Outcome: Accepted, Code: CauseNoGatewayID}},
		{"201 array", CallSendText, "", Answer{Status: 201, Body: []byte(`[1]`)}, Verdict{Outcome: Accepted, Code: CauseNoGatewayID}},
		{"201 broken off", CallSendText, "", Answer{Status: 201, Body: []byte(`{"key":{"id":"K"}}`), Incomplete: true}, Verdict{Outcome: Accepted, Code: CauseNoGatewayID}},
		{"201 id is a number", CallSendText, "", Answer{Status: 201, Body: []byte(`{"key":{"id":7}}`)}, Verdict{Outcome: Accepted, Code: CauseNoGatewayID}},
		{"201 id with line break", CallSendText, "", Answer{Status: 201, Body: []byte(`{"key":{"id":"a\nb"}}`)}, Verdict{Outcome: Accepted, Code: CauseNoGatewayID}},
		{
			"201 of v1", CallSendText, "1.8.2",
			Answer{Status: 201, Body: []byte(`{"key":{"id":"K","remoteJid":"5511999990000@s.whatsapp.net"},"messageTimestamp":"1700000000"}`)},
			Verdict{Outcome: Accepted, GatewayID: "K", RemoteJID: "5511999990000@s.whatsapp.net", MessageTimestamp: time.Unix(1700000000, 0).UTC()},
		},
		{"400 validation without wrapper", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(`{"message":[["x"]]}`)}, unknown(CauseUnrecognised)},
		{"400 deeper nesting", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `[[["x"]]]`))}, unknown(CauseUnrecognised)},
		{"400 empty nesting", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `[[]]`))}, unknown(CauseUnrecognised)},
		{"400 known text with more", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `["Text is required!"]`))}, unknown(CauseUnrecognised)},
		{"400 known text twice", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `["Text is required","x"]`))}, unknown(CauseUnrecognised)},
		{"400 known text as string", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `"Text is required"`))}, unknown(CauseUnrecognised)},
		{"400 exists true", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `[{"exists":true}]`))}, unknown(CauseUnrecognised)},
		{"400 exists as text", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `[{"exists":"false"}]`))}, unknown(CauseUnrecognised)},
		{"400 exists false outside the list", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `{"exists":false}`))}, unknown(CauseUnrecognised)},
		{"400 message absent", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(`{"response":{}}`)}, unknown(CauseUnrecognised)},
		{"400 empty", CallSendText, "2.3.6", Answer{Status: 400}, unknown(CauseUnrecognised)},
		{"400 HTML", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte("<html>")}, unknown(CauseUnrecognised)},
		{"400 Prisma", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `["PrismaClientKnownRequestError: \nInvalid"]`))}, unknown(CauseNotSaved)},
		{"400 other property", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `["TypeError: `+undefined+`key')"]`))}, unknown(CauseUnrecognised)},
		{"400 timed out", CallSendText, "2.2.3", Answer{Status: 400, Body: []byte(wrapped(400, `["Error: Timed Out"]`))}, unknown(CauseUnrecognised)},
		{"400 broken off", CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `[["x"]]`)), Incomplete: true}, unknown(CauseUnrecognised)},
		{"401 HTML", CallSendText, "", Answer{Status: 401, Body: []byte("<html>")}, Verdict{Outcome: Deferred, Scope: ScopeInstance, Code: CauseUnauthorized, FailCode: CodeRejected, Park: true, Alert: true}},
		{"403 empty", CallSendButtons, "", Answer{Status: 403}, Verdict{Outcome: Deferred, Scope: ScopeInstance, Code: CauseUnauthorized, FailCode: CodeRejected, Park: true, Alert: true}},
		{"404 HTML by type", CallSendText, "", Answer{Status: 404, ContentType: "text/html; charset=utf-8", Body: []byte("Cannot POST /manager/message/sendText/x")}, parked(CauseRouteUnknown, ScopeGateway)},
		{"404 HTML by content", CallSendText, "", Answer{Status: 404, Body: []byte("\n<!DOCTYPE html>…")}, parked(CauseRouteUnknown, ScopeGateway)},
		{"404 other JSON", CallSendText, "", Answer{Status: 404, Body: []byte(`{"message":"gone"}`)}, unknown(CauseUnrecognised)},
		{"404 empty", CallSendText, "", Answer{Status: 404}, unknown(CauseUnrecognised)},
		{"404 text around the known one", CallSendText, "", Answer{Status: 404, Body: []byte(wrapped(404, `["x The \"a\" instance does not exist"]`))}, unknown(CauseUnrecognised)},
		{"408", CallSendText, "", Answer{Status: 408}, unknown(CauseTimeout)},
		{"413", CallSendText, "", Answer{Status: 413}, refused(CodeRejected)},
		{"414 HTML", CallSendText, "", Answer{Status: 414, Body: []byte("<html>")}, refused(CodeRejected)},
		{"429", CallSendText, "", Answer{Status: 429, RetryAfter: "7"}, Verdict{Outcome: Deferred, Scope: ScopeInstance, Code: CauseRateLimited, RetryAfter: 7 * time.Second}},
		{"500 closed 2.3", CallSendText, "2.3.6", Answer{Status: 500, Body: []byte(wrapped(500, `"Connection Closed"`))}, Verdict{Outcome: Deferred, Scope: ScopeInstance, Code: CauseConnectionClosed, Park: true}},
		{"500 closed 2.4", CallSendButtons, "2.4.0-rc2", Answer{Status: 500, Body: []byte(wrapped(500, `"Connection Closed"`))}, Verdict{Outcome: Deferred, Scope: ScopeInstance, Code: CauseConnectionClosed, Park: true}},
		{"500 closed 2.2", CallSendText, "2.2.3", Answer{Status: 500, Body: []byte(wrapped(500, `"Connection Closed"`))}, unknown(CauseConnectionClosed)},
		{"500 closed 2.30", CallSendText, "2.30.0", Answer{Status: 500, Body: []byte(wrapped(500, `"Connection Closed"`))}, unknown(CauseConnectionClosed)},
		{"500 closed unknown version", CallSendText, "", Answer{Status: 500, Body: []byte(wrapped(500, `"Connection Closed"`))}, unknown(CauseConnectionClosed)},
		{"500 closed in a list", CallSendText, "2.3.6", Answer{Status: 500, Body: []byte(wrapped(500, `["Connection Closed"]`))}, unknown(CauseGatewayError)},
		{"500 error closed in a list", CallSendText, "2.3.6", Answer{Status: 500, Body: []byte(wrapped(500, `["Error: Connection Closed"]`))}, unknown(CauseGatewayError)},
		{"500 length on text", CallSendText, "2.3.6", Answer{Status: 500, Body: []byte(wrapped(500, `"`+undefined+`length')"`))}, unknown(CauseGatewayError)},
		{"500 property with more", CallSendText, "2.3.6", Answer{Status: 500, Body: []byte(wrapped(500, `"`+undefined+`find') x"`))}, unknown(CauseGatewayError)},
		{"500 empty", CallSendText, "2.3.6", Answer{Status: 500}, unknown(CauseGatewayError)},
		{"502 HTML", CallSendText, "2.3.6", Answer{Status: 502, Body: []byte("<html>")}, unknown(CauseGatewayError)},
		{"503 licence", CallSendText, "2.4.0", Answer{Status: 503, Body: []byte(`{"error":"service not activated","code":"LICENSE_REQUIRED","register_url":"x"}`)}, Verdict{Outcome: Deferred, Scope: ScopeGateway, Code: CauseLicenseRequired, FailCode: CodeRejected, Park: true, Alert: true}},
		{"503 else", CallSendText, "2.4.0", Answer{Status: 503, Body: []byte(`{"code":"X"}`)}, unknown(CauseGatewayError)},
		{"504", CallSendText, "2.4.0", Answer{Status: 504}, unknown(CauseGatewayError)},
		{"302", CallSendText, "", Answer{Status: 302}, Verdict{Outcome: Unknown, Scope: ScopeMessage, Code: CauseRedirected, Alert: true}},
		{"101", CallSendText, "", Answer{Status: 101}, unknown(CauseUnrecognised)},
		{"418", CallSendText, "", Answer{Status: 418}, unknown(CauseUnrecognised)},
		{"state HTML", CallConnectionState, "", Answer{Status: 200, Body: []byte("<html>")}, failed(CauseUnreadable, ScopeMessage)},
		{"presence 500", CallSendPresence, "2.3.6", Answer{Status: 500}, failed(CauseGatewayError, ScopeMessage)},
		{"number check licence", CallWhatsAppNumbers, "2.4.0", Answer{Status: 503, Body: []byte(`{"code":"LICENSE_REQUIRED"}`)}, Verdict{Outcome: Failed, Scope: ScopeGateway, Code: CauseLicenseRequired, FailCode: CodeRejected, Park: true, Alert: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.want.Scope == "" {
				tt.want.Scope = ScopeMessage
			}
			if diff := cmp.Diff(tt.want, Judge(tt.call, tt.version, tt.answer)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestJudgeMarksARefusedNumberAsNoEnd(t *testing.T) {
	t.Parallel()
	v := Judge(CallSendText, "2.3.6", Answer{Status: 400, Body: []byte(wrapped(400, `[{"jid":"x","exists":false,"number":"1"}]`))})
	want := Verdict{Outcome: Refused, Scope: ScopeMessage, Code: CodeNumberNotOnWhatsApp, NumberRefused: true}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
}

func TestJudgeFailureDependsOnWhatWasWritten(t *testing.T) {
	t.Parallel()
	broken := errors.New("reset")
	for _, tt := range []struct {
		wrote, stopped bool
		err            error
		want           Verdict
	}{
		{false, false, broken, deferred(CauseNotConnected, ScopeGateway)},
		{false, false, context.DeadlineExceeded, deferred(CauseNotConnected, ScopeGateway)},
		{false, true, broken, deferred(CauseStopped, ScopeMessage)},
		{true, true, broken, unknown(CauseBroken)},
		{true, false, broken, unknown(CauseBroken)},
		{true, false, fmt.Errorf("x: %w", context.DeadlineExceeded), Verdict{Outcome: Unknown, Scope: ScopeInstance, Code: CauseNoAnswer}},
	} {
		if diff := cmp.Diff(tt.want, JudgeFailure(CallSendText, tt.wrote, tt.stopped, tt.err)); diff != "" {
			t.Errorf("wrote %v stopped %v err %v: %s", tt.wrote, tt.stopped, tt.err, diff)
		}
		if got := JudgeFailure(CallSendPresence, tt.wrote, tt.stopped, tt.err).Outcome; got != Failed {
			t.Errorf("presence: outcome %q, want failed", got)
		}
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, " ": 0, "soon": 0, "-5": 0, "1.5": 0, "0": MinRetryAfter, "30": 30 * time.Second,
		"99999": MaxRetryAfter, "99999999999999999999999999": MaxRetryAfter,
		now.Add(time.Minute).Format(http.TimeFormat):    time.Minute,
		now.Add(-time.Hour).Format(http.TimeFormat):     MinRetryAfter,
		now.Add(99 * time.Hour).Format(http.TimeFormat): MaxRetryAfter,
		"Fri, 31 Dec 9999 23:59:59 GMT":                 MaxRetryAfter,
		"Mon, 99 Foo 2026 12:00:00 GMT":                 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestCallOf(t *testing.T) {
	t.Parallel()
	for line, want := range map[[2]string]Call{
		{"POST", "/message/sendText/acme"}:                 CallSendText,
		{"POST", "/message/sendText"}:                      CallSendText,
		{"POST", "/gw/message/sendButtons/a?x=/chat/find"}: CallSendButtons,
		{"GET", "/message/sendText/acme"}:                  "unknown",
		{"POST", "/chat/sendText/acme"}:                    "unknown",
		{"POST", "/webhook/set/acme"}:                      CallSetWebhook,
		{"GET", "/"}:                                       CallVersion,
		{"POST", "/"}:                                      "unknown",
		{"GET", "/instance/fetchInstances?x"}:              "fetchInstances",
		{"GET", "/manager"}:                                "unknown",
	} {
		if got := CallOf(line[0], line[1]); got != want {
			t.Errorf("%v: %q, want %q", line, got, want)
		}
	}
}

// FuzzJudge holds what must be true of any answer: no panic, a known outcome, and no claim about a send from bytes that prove nothing.
func FuzzJudge(f *testing.F) {
	f.Add(true, "2.3.6", 400, "application/json", "", []byte(wrapped(400, `[["x"]]`)))
	f.Add(true, "2.3.6", 500, "", "9", []byte(wrapped(500, `"Connection Closed"`)))
	f.Add(true, "", 201, "text/html", "", []byte(`{"key":{"id":"K"},"messageTimestamp":1e99}`))
	f.Add(false, "x", 400, "", "Fri, 31 Dec 9999 23:59:59 GMT", []byte(`{}`))
	f.Fuzz(func(t *testing.T, send bool, version string, status int, contentType, retry string, body []byte) {
		call := CallWhatsAppNumbers
		if send {
			call = CallSendText
		}
		v := Judge(call, version, Answer{Status: status, ContentType: contentType, RetryAfter: retry, At: time.Unix(1, 0), Body: body})
		sendOutcome := v.Outcome == Accepted || v.Outcome == Refused || v.Outcome == Deferred || v.Outcome == Unknown
		if send != sendOutcome || (!send && v.Outcome != Answered && v.Outcome != Failed) {
			t.Fatalf("outcome %q of %s", v.Outcome, call)
		}
		if v.Scope != ScopeMessage && v.Scope != ScopeInstance && v.Scope != ScopeGateway {
			t.Fatalf("scope %q", v.Scope)
		}
		if v.RetryAfter < 0 || v.RetryAfter > MaxRetryAfter || len(v.GatewayID) > maxGatewayID {
			t.Fatalf("out of bounds: %+v", v)
		}
		if (v.Outcome == Accepted) != (send && status >= 200 && status < 300) {
			t.Fatalf("status %d: %q", status, v.Outcome)
		}
	})
}
