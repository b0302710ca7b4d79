package evolutionsim

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

func (s *Server) root() reply {
	return jsonReply(http.StatusOK, map[string]any{ //nolint:gosec // a public greeting, no credential
		"status": 200, "message": "Welcome to the Evolution API, it is working!", "version": *s.version.Load(),
		"clientName": "evolution_exchange", "manager": s.url + "/manager", "documentation": "https://doc.evolution-api.com",
		"whatsappWebVersion": "2.3000.1027934701",
	})
}

type stateBody struct {
	Instance struct {
		Name  string `json:"instanceName"`
		State string `json:"state,omitempty"`
	} `json:"instance"`
}

func (s *Server) connectionState(x *exchange) reply {
	var body stateBody
	body.Instance.Name = x.instance.name
	if v := x.instance.view(); v.loaded {
		body.Instance.State = v.state
	}
	return jsonReply(http.StatusOK, body)
}

var presences = []string{"unavailable", "available", "composing", "recording", "paused"}

// sendPresence catches every error itself, so that all of them are 400.
func (s *Server) sendPresence(x *exchange) reply {
	violations := required(x.in, "number", "presence", "delay")
	presence := x.in.string("presence")
	if _, given := x.in["presence"]; given && !setOf(presences)[presence] {
		violations = append(violations, "presence is not one of enum values: "+strings.Join(presences, ","))
	}
	if len(violations) > 0 {
		return invalid(violations...)
	}
	v := x.instance.view()
	to := s.resolve(x.instance, x.in.number())
	switch {
	case !v.loaded:
		return listError(http.StatusBadRequest, "TypeError: "+undefined("sendPresence"))
	case !v.socket:
		return listError(http.StatusBadRequest, "TypeError: "+undefined("onWhatsApp"))
	case v.state != stateOpen:
		return listError(http.StatusBadRequest, "Error: Connection Closed")
	case !to.exists:
		return listError(http.StatusBadRequest, "[object Object]")
	}
	delay, _ := x.in.milliseconds("delay")
	x.wait(delay)
	return jsonReply(http.StatusCreated, map[string]string{"presence": presence})
}

// whatsappNumbers answers every error as a bare 400.
func (s *Server) whatsappNumbers(x *exchange) reply {
	list, ok := x.in["numbers"].([]any)
	if !ok {
		return jsonReply(http.StatusBadRequest, struct{}{})
	}
	if len(list) == 0 {
		return rawInvalid("numbers does not meet minimum length of 1")
	}
	v := x.instance.view()
	seen := map[string]bool{}
	answers := []absent{}
	for _, n := range list {
		number, ok := n.(string)
		switch {
		case !ok:
			return rawInvalid(`"numbers" must be an array of numeric strings`)
		case seen[number]:
			return rawInvalid("numbers contains duplicate item")
		}
		seen[number] = true
		to := s.resolve(x.instance, number)
		switch {
		case !v.loaded, to.asks && !v.socket:
			return jsonReply(http.StatusBadRequest, struct{}{})
		case to.asks && v.state != stateOpen:
			return reply{status: http.StatusBadRequest, body: []byte(boom)}
		case to.asks && to.exists:
			s.numbers.put(jidUser(createJID(number)), to.jid)
		}
		if x.misroute != "" {
			to.jid = x.misroute
		}
		answers = append(answers, absent{to.jid, to.exists, number, x.instance.lids[jidUser(to.jid)]})
	}
	return jsonReply(http.StatusOK, answers)
}

func (s *Server) setWebhook(x *exchange) reply {
	raw, ok := x.in["webhook"].(map[string]any)
	in := fields(raw)
	if !ok {
		return invalid(`instance requires property "webhook"`)
	}
	if violations := required(in, "enabled", "url"); len(violations) > 0 {
		return invalid(violations...)
	}
	hook := &Webhook{URL: in.string("url"), Headers: map[string]string{}, Events: []string{}}
	hook.Enabled, _ = in["enabled"].(bool)
	hook.ByEvents, _ = in["byEvents"].(bool)
	events, given := in["events"].([]any)
	if !given && hook.Enabled {
		return plainError(http.StatusInternalServerError, undefined("length"))
	}
	for _, e := range events {
		hook.Events = append(hook.Events, fmt.Sprint(e))
	}
	headers, _ := in["headers"].(map[string]any)
	for name, value := range headers {
		hook.Headers[name] = fmt.Sprint(value)
	}
	x.instance.mu.Lock()
	x.instance.webhook = hook
	x.instance.mu.Unlock()
	return jsonReply(http.StatusCreated, webhookBody(x.instance, hook))
}

func (s *Server) findWebhook(x *exchange) reply {
	x.instance.mu.Lock()
	hook := x.instance.webhook
	x.instance.mu.Unlock()
	if hook == nil {
		return reply{status: http.StatusOK, body: []byte("null")}
	}
	return jsonReply(http.StatusOK, webhookBody(x.instance, hook))
}

func webhookBody(i *instance, hook *Webhook) map[string]any {
	now := stamp(time.Now())
	return map[string]any{
		"id": "cmx1w" + i.id[:8], "url": hook.URL, "headers": hook.Headers, "enabled": hook.Enabled, "events": hook.Events,
		"webhookByEvents": hook.ByEvents, "webhookBase64": false, "createdAt": now, "updatedAt": now, "instanceId": i.id,
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
