package evolution

import (
	"net/http"
	"strings"
)

// Call names a route of the gateway. The two sends can have an effect on a phone; no other call can.
type Call string

// The calls of this package. A route that is not listed is named by its own second segment, like "fetchInstances".
const (
	CallSendText          Call = "sendText"
	CallSendButtons       Call = "sendButtons"
	CallSendPresence      Call = "sendPresence"
	CallWhatsAppNumbers   Call = "whatsappNumbers"
	CallConnectionState   Call = "connectionState"
	CallConnect           Call = "connect"
	CallFindMessages      Call = "findMessages"
	CallFindStatusMessage Call = "findStatusMessage"
	CallSetWebhook        Call = "setWebhook"
	CallVersion           Call = "version"
)

// IsSend reports whether the call can make a message leave.
func (c Call) IsSend() bool { return c == CallSendText || c == CallSendButtons }

// groups are the first segments of the gateway's routes, behind whatever path the base URL adds.
var groups = map[string]bool{"message": true, "chat": true, "instance": true, "webhook": true}

// CallOf names the call that a request line makes. The path may carry a prefix of the base URL and a query.
// A request that is no route of the gateway gives "unknown".
func CallOf(method, path string) Call {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if method == http.MethodGet && len(segments) == 1 && segments[0] == "" {
		return CallVersion
	}
	for i := 0; i+1 < len(segments); i++ {
		if !groups[segments[i]] {
			continue
		}
		call := Call(segments[i+1])
		switch {
		case call.IsSend() && (segments[i] != "message" || method != http.MethodPost):
			return "unknown"
		case segments[i] == "webhook" && call == "set":
			return CallSetWebhook
		}
		return call
	}
	return "unknown"
}
