package evolution

import (
	"bytes"
	"encoding/json"
	"strings"
)

func answered() Verdict { return Verdict{Outcome: Answered, Scope: ScopeMessage} }

func failed(code string, scope Scope) Verdict {
	return Verdict{Outcome: Failed, Scope: scope, Code: code}
}

// judgeOther judges a call that sends no message: it gave what was asked, or it did not.
func judgeOther(call Call, version string, a Answer) Verdict {
	if a.Status >= 200 && a.Status < 300 {
		if !readable(call, a.Body) {
			return failed(CauseUnreadable, ScopeMessage)
		}
		return answered()
	}
	e := readEnvelope(a.Body)
	if v, ok := otherName(a.Status, e); ok {
		return v
	}
	if v, ok := judgeSender(a); ok {
		v.Outcome = Failed
		return v
	}
	switch {
	case a.Status == 400:
		return other400(call, e)
	case a.Status == 500:
		v := judge500(CallSendText, version, e)
		v.Outcome = Failed
		return v
	case a.Status >= 300 && a.Status < 400:
		return failed(CauseRedirected, ScopeGateway)
	case a.Status == 408:
		return failed(CauseTimeout, ScopeMessage)
	case a.Status == 413 || a.Status == 414:
		return failed(CodeRejected, ScopeMessage)
	case a.Status > 500:
		return failed(CauseGatewayError, ScopeMessage)
	}
	return failed(CauseUnrecognised, ScopeMessage)
}

// other400 reads both envelopes: the number check answers 400 without the usual wrapper.
func other400(call Call, e envelope) Verdict {
	boom, _ := object(e.fields["output"])
	code, _ := object(boom["payload"])
	switch reason, _ := text(code["message"]); {
	case e.shape == shapeNested:
		v := failed(CodeRequestInvalid, ScopeMessage)
		v.Alert = true
		return v
	case e.shape == shapeList && strings.HasPrefix(e.text, "TypeError: "+undefinedProperty):
		return failed(CauseInstanceNotReady, ScopeInstance)
	case e.shape == shapeList && e.text == "Error: Connection Closed", reason == "Connection Closed":
		return failed(CauseConnectionClosed, ScopeInstance)
	case e.shape == shapeList && strings.HasSuffix(e.text, "instance is not connected"):
		return failed(CauseConnectionClosed, ScopeInstance)
	case call == CallWhatsAppNumbers && e.isObject && len(e.fields) == 0:
		// The gateway prints a TypeError as {}: the instance never connected, or WhatsApp gave no answer for 60 s.
		return failed(CauseNumberCheckUnanswered, ScopeInstance)
	case e.shape == shapeList && e.text == "[object Object]":
		return failed(CauseErrorObject, ScopeMessage)
	}
	return failed(CauseUnrecognised, ScopeMessage)
}

// otherName knows the answers about names of instances, which only calls without an instance in their path give.
func otherName(status int, e envelope) (Verdict, bool) {
	if !e.wrapped || e.shape != shapeList {
		return Verdict{}, false
	}
	switch {
	case status == 403 && strings.HasSuffix(e.text, "is already in use."):
		return failed(CodeRejected, ScopeMessage), true
	case status == 404 && strings.HasPrefix(e.text, `Instance "`) && strings.HasSuffix(e.text, `" not found`):
		return failed(CauseInstanceUnknown, ScopeInstance), true
	}
	return Verdict{}, false
}

// readable reports whether the body of a 2xx has the form that the call promises.
func readable(call Call, body []byte) bool {
	fields, isObject := object(body)
	has := func(name string) bool { _, ok := fields[name]; return ok }
	switch call {
	case CallConnectionState:
		_, ok := object(fields["instance"])
		return ok
	case CallWhatsAppNumbers, CallFindStatusMessage:
		return isArray(body)
	case CallFindMessages:
		_, ok := object(fields["messages"])
		return ok
	case CallSendPresence:
		return has("presence")
	case CallVersion:
		return has("version")
	case CallSetWebhook:
		return isObject
	case CallConnect:
		return isObject && string(fields["error"]) != "true"
	default: // sends are judged elsewhere
	}
	return json.Valid(body) && string(fields["error"]) != "true"
}

func isArray(body []byte) bool {
	body = bytes.TrimSpace(body)
	return len(body) > 0 && body[0] == '[' && json.Valid(body)
}
