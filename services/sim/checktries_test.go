package sim

import (
	"encoding/json"
	"strings"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/webhook"
)

// checkTries: each delivery reached its receiver, or was given up on record; every try of it had the same body, the signature of its
// endpoint and an id that was appended (P10).
func (h *history) checkTries(ids map[string]hookKey) {
	results := h.hookResults()
	bodies, answered := map[string]string{}, map[string]bool{}
	for _, try := range h.rec.Tries {
		k, known := ids[try.ID]
		switch body, again := bodies[try.ID]; {
		case !known:
			h.broke("hooks", "", "%s was told %s, which nobody appended", try.Host, try.ID)
			continue
		case again && body != try.Body:
			h.broke("hooks", k.message, "two tries of %s differ: %s and %s", try.ID, body, try.Body)
		case !again && !says(try.Body, k):
			h.broke("hooks", k.message, "%s of it was told as %s", k.status, try.Body)
		}
		bodies[try.ID] = try.Body
		if !try.Signed {
			h.broke("hooks", k.message, "a try at %s bears no valid signature", clock(try.At))
		}
		if m := h.messages[k.message]; m != nil && try.Host != "hook-"+m.Tenant {
			h.broke("hooks", k.message, "%s was told", try.Host)
		}
		answered[try.ID] = answered[try.ID] || try.Status/100 == 2
	}
	for id, k := range ids {
		switch {
		case results[id][events.HookSucceeded] && !answered[id]:
			h.broke("hooks", k.message, "%s of it is recorded as told, and the receiver never said so", k.status)
		case !results[id][events.HookSucceeded] && !results[id][events.HookExhausted] && !h.off[h.endpointOf(k)]: // else it waits
			h.broke("hooks", k.message, "%s of it was neither told nor given up", k.status)
		}
	}
	for _, s := range h.rec.Waiting {
		if h.off[s.Subject[strings.LastIndexByte(s.Subject, '.')+1:]] {
			continue // until somebody switches it on
		}
		h.broke("hooks", "", "%s still waits in %s", s.Header[events.HeaderID], s.Subject)
	}
}

// endpointOf is the endpoint that hears of a message.
func (h *history) endpointOf(k hookKey) string {
	if m := h.messages[k.message]; m != nil {
		return "hook-" + m.Tenant
	}
	return ""
}

// hookResults gives what the log of tries says of each delivery.
func (h *history) hookResults() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, s := range h.rec.HookLog {
		id, result, _ := strings.Cut(s.Header[events.HeaderID][0], ".") // <delivery>.<number>.<result>
		_, result, _ = strings.Cut(result, ".")
		if out[id] == nil {
			out[id] = map[string]bool{}
		}
		out[id][result] = true
	}
	return out
}

// says reports whether a body tells of a transition.
func says(body string, k hookKey) bool {
	var b struct {
		Event string
		Data  struct{ ID string }
	}
	name, ok := webhook.Name(k.status)
	return ok && json.Unmarshal([]byte(body), &b) == nil && b.Event == name && b.Data.ID == k.message
}
