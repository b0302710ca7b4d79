package evolution

import (
	"regexp"
	"strings"
	"time"
)

// Answer is one answer of the gateway as it came.
type Answer struct {
	Status      int
	ContentType string
	RetryAfter  string    // the header as sent
	At          time.Time // when it came; makes a Retry-After given as a date into a wait
	Body        []byte
	Incomplete  bool // the body broke off or was longer than the client reads: only the status can be used
}

// Judge says what an answer to a call means. It is the table of docs/reference/gateway.md: by call, status, form of the envelope and
// whole known texts. What is not in the table is Unknown for a send and Failed for any other call. version is the gateway's, as
// Client.Version gives it; one answer means different things in different versions, and an empty version is none of them.
func Judge(call Call, version string, answer Answer) Verdict {
	if answer.Incomplete {
		answer.Body = nil
	}
	var v Verdict
	if call.IsSend() {
		v = judgeSend(call, version, answer)
	} else {
		v = judgeOther(call, version, answer)
	}
	if v.Outcome == Deferred || v.Outcome == Failed {
		v.RetryAfter = retryAfter(answer.RetryAfter, answer.At)
	}
	return v
}

func judgeSend(call Call, version string, a Answer) Verdict {
	switch {
	case a.Status >= 200 && a.Status < 300:
		return accepted(a.Body)
	case a.Status == 400:
		return judge400(readEnvelope(a.Body))
	case a.Status == 500:
		return judge500(call, version, readEnvelope(a.Body))
	case a.Status == 413 || a.Status == 414:
		return refused(CodeRejected)
	case a.Status == 408:
		return unknown(CauseTimeout)
	case a.Status >= 300 && a.Status < 400:
		v := unknown(CauseRedirected)
		v.Alert = true
		return v
	}
	if v, ok := judgeSender(a); ok {
		return v
	}
	if a.Status > 500 && a.Status < 600 {
		return unknown(CauseGatewayError)
	}
	return unknown(CauseUnrecognised)
}

// judgeSender knows the answers that tell about the sender or the gateway and never depend on the call.
func judgeSender(a Answer) (Verdict, bool) {
	switch a.Status {
	case 401, 403:
		v := parked(CauseUnauthorized, ScopeInstance)
		v.FailCode = CodeRejected
		return v, true
	case 404:
		return judge404(a)
	case 429:
		return deferred(CauseRateLimited, ScopeInstance), true
	case 503:
		if code, _ := text(readEnvelope(a.Body).fields["code"]); code == "LICENSE_REQUIRED" {
			v := parked(CauseLicenseRequired, ScopeGateway)
			v.FailCode = CodeRejected
			return v, true
		}
	}
	return Verdict{}, false
}

var unknownInstance = regexp.MustCompile(`^The "[^"]*" instance does not exist$`)

func judge404(a Answer) (Verdict, bool) {
	e := readEnvelope(a.Body)
	if e.wrapped && e.shape == shapeList {
		switch {
		case unknownInstance.MatchString(e.text):
			v := parked(CauseInstanceUnknown, ScopeInstance)
			v.FailCode = CodeInstanceMissing
			return v, true
		case strings.HasPrefix(e.text, "Cannot POST /"), strings.HasPrefix(e.text, "Cannot GET /"):
			return parked(CauseRouteUnknown, ScopeGateway), true
		}
	}
	if !e.isObject && !a.Incomplete && isHTML(a.ContentType, a.Body) {
		return parked(CauseRouteUnknown, ScopeGateway), true
	}
	return Verdict{}, false
}

const undefinedProperty = "Cannot read properties of undefined (reading '"

// contentRefusals are checks that the gateway makes on the content before it touches WhatsApp.
var contentRefusals = map[string]bool{
	"Text is required":                                      true,
	"At least one button is required":                       true,
	"Maximum of 3 reply buttons allowed":                    true,
	"Reply buttons cannot be mixed with other button types": true,
	"Only one PIX button is allowed":                        true,
}

// judge400 keeps in mind that the gateway answers 400 to whatever fails after it began to send, too.
func judge400(e envelope) Verdict {
	switch {
	case !e.wrapped:
		return unknown(CauseUnrecognised)
	case e.shape == shapeNested:
		return refused(CodeRequestInvalid)
	case e.shape == shapeObject && string(e.object["exists"]) == "false":
		v := refused(CodeNumberNotOnWhatsApp)
		v.NumberRefused = true
		return v
	case e.shape == shapeList && contentRefusals[e.text]:
		return refused(CodeRejected)
	case e.shape == shapeList && notReady400(e.text):
		return parked(CauseInstanceNotReady, ScopeInstance)
	}
	return unknown(cause400(e.text))
}

func notReady400(s string) bool {
	property, ok := strings.CutPrefix(s, "TypeError: "+undefinedProperty)
	return ok && (property == "sendMessage')" || property == "presenceSubscribe')" || property == "id')")
}

// cause400 names an unknown 400 for people; the outcome does not depend on it.
func cause400(s string) string {
	switch {
	case s == "Error: Connection Closed":
		return CauseConnectionClosed
	case s == "[object Object]":
		return CauseErrorObject
	case strings.HasPrefix(s, "Prisma"), strings.HasPrefix(s, "DriverAdapterError"):
		return CauseNotSaved
	}
	return CauseUnrecognised
}

// judge500 knows the errors that come from before the gateway's own send block: a plain string, never a list.
func judge500(call Call, version string, e envelope) Verdict {
	if !e.wrapped || e.shape != shapeString {
		return unknown(CauseGatewayError)
	}
	if e.text == "Connection Closed" {
		if !checksNumberFirst(version) {
			return unknown(CauseConnectionClosed)
		}
		return Verdict{Outcome: Deferred, Scope: ScopeInstance, Code: CauseConnectionClosed, Park: true}
	}
	switch property, ok := strings.CutPrefix(e.text, undefinedProperty); {
	case !ok:
	case property == "textMessage')", property == "onWhatsApp')":
		return parked(CauseNotLoaded, ScopeInstance)
	case property == "find')":
		return deferred(CauseNumberCheckUnanswered, ScopeMessage)
	case property == "length')" && call == CallSendButtons:
		return refused(CodeRequestInvalid)
	}
	return unknown(CauseGatewayError)
}

var versionPattern = regexp.MustCompile(`^v?2\.([34])(?:\D|$)`)

// checksNumberFirst reports whether the version is one (2.3, 2.4) whose only source of a plain "Connection Closed" is the check of the
// number, which comes before anything is sent.
func checksNumberFirst(version string) bool { return versionPattern.MatchString(version) }
