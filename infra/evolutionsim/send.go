package evolutionsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// taking is a message about to leave, for faults to alter.
type taking struct {
	message    *message
	text       string // for the ledger
	receipts   []receipt
	early      []receipt // posted before the answer
	unsaved    bool      // the database fails after the message left
	withoutRow bool      // no row is kept: look-ups find nothing, receipts come all the same
}

// receipt is one acknowledgement to come.
type receipt struct {
	status string
	delay  time.Duration // after the acceptance
}

func (s *Server) sendText(x *exchange) (reply, *taking) {
	violations := required(x.in, "number", "text")
	switch {
	case len(violations) > 0:
		return invalid(violations...), nil
	case !isString(x.in, "number") || !isString(x.in, "text"):
		return invalid("Invalid format"), nil
	}
	if answer, ok := checkExtras(x.in); !ok {
		return answer, nil
	}
	v := x.instance.view()
	if !v.loaded {
		return plainError(http.StatusInternalServerError, undefined("textMessage")), nil
	}
	text := x.in.string("text")
	if strings.TrimSpace(text) == "" {
		return listError(http.StatusBadRequest, "Text is required"), nil
	}
	jid, answer, ok := s.reach(x, v)
	if !ok {
		return answer, nil
	}
	m := s.compose(x, jid, "conversation", map[string]string{"conversation": text})
	if !strings.HasSuffix(jid, "@g.us") {
		m.context = textContext(time.Now())
		x.quote(m)
	}
	return reply{}, s.taking(m, text)
}

// quote adds the message that a text answers. An id that the gateway does not have is ignored.
func (x *exchange) quote(m *message) {
	quoted, _ := x.in["quoted"].(map[string]any)
	key, _ := quoted["key"].(map[string]any)
	other, ok := x.instance.store.get(fields(key).string("id"))
	if !ok {
		return
	}
	m.context["stanzaId"], m.context["participant"], m.context["quotedMessage"] = other.keyID, other.jid, other.content
}

var buttonTypes = []string{"reply", "copy", "url", "call", "pix"}

func (s *Server) sendButtons(x *exchange) (reply, *taking) {
	violations := required(x.in, "number")
	list, given := x.in["buttons"].([]any)
	types := map[string]int{}
	for n, b := range list {
		button, _ := b.(map[string]any)
		kind := fields(button).string("type")
		types[kind]++
		if !slices.Contains(buttonTypes, kind) {
			violations = append(violations, fmt.Sprintf("buttons[%d].type is not one of enum values: %s", n, strings.Join(buttonTypes, ",")))
		}
	}
	if len(violations) > 0 {
		return invalid(violations...), nil
	}
	v := x.instance.view()
	switch {
	case !v.loaded:
		return plainError(http.StatusInternalServerError, undefined("buttonMessage")), nil
	case !given:
		return plainError(http.StatusInternalServerError, undefined("length")), nil
	case len(list) == 0:
		return listError(http.StatusBadRequest, "At least one button is required"), nil
	case types["reply"] > 0 && types["pix"] > 0, types["pix"] > 0 && len(list) > 1:
		return listError(http.StatusBadRequest, "Only one PIX button is allowed"), nil
	case types["reply"] > 3:
		return listError(http.StatusBadRequest, "Maximum of 3 reply buttons allowed"), nil
	case types["reply"] > 0 && types["reply"] < len(list):
		return listError(http.StatusBadRequest, "Reply buttons cannot be mixed with other button types"), nil
	}
	jid, answer, ok := s.reach(x, v)
	if !ok {
		return answer, nil
	}
	text, content := buttonsContent(x.in, list)
	m := s.compose(x, jid, "viewOnceMessage", content)
	m.buttons = true
	return reply{}, s.taking(m, text)
}

// buttonsContent is the message as the gateway stores it, and its text.
func buttonsContent(in fields, list []any) (string, any) {
	title := "undefined"
	if s, ok := in["title"].(string); ok {
		title = s
	}
	text := "*" + title + "*"
	if d := in.string("description"); d != "" {
		text += "\n\n" + d + "\n"
	}
	footer := map[string]any{}
	if f, ok := in["footer"].(string); ok {
		footer["text"] = f
	}
	buttons := make([]map[string]string, 0, len(list))
	for _, b := range list {
		button, _ := b.(map[string]any)
		buttons = append(buttons, nativeButton(button))
	}
	params := `{"from":"api","templateId":"` + uuid.NewString() + `"}`
	return text, map[string]any{"viewOnceMessage": map[string]any{"message": map[string]any{"interactiveMessage": map[string]any{
		"body":              map[string]string{"text": text},
		"footer":            footer,
		"nativeFlowMessage": map[string]any{"buttons": buttons, "messageParamsJson": params},
	}}}}
}

func nativeButton(b fields) map[string]string {
	params := map[string]any{}
	put := func(name, from string) {
		if v, ok := b[from]; ok {
			params[name] = v
		}
	}
	put("display_text", "displayText")
	name := map[string]string{"reply": "quick_reply", "url": "cta_url", "call": "cta_call", "copy": "cta_copy", "pix": "payment_info"}[b.string("type")]
	switch name {
	case "quick_reply":
		put("id", "id")
	case "cta_url":
		put("url", "url")
		put("merchant_url", "url")
	case "cta_call":
		put("phone_number", "phoneNumber")
	case "cta_copy":
		put("copy_code", "copyCode")
	}
	encoded, _ := json.Marshal(params) // values that came from JSON
	return map[string]string{"name": name, "buttonParamsJson": string(encoded)}
}

func (s *Server) compose(x *exchange, jid, kind string, content any) *message {
	return &message{
		rowID: rowID(), keyID: keyID(), jid: jid, kind: kind, content: content,
		composed: time.Now().Unix(), instanceID: x.instance.id,
	}
}

func (s *Server) taking(m *message, text string) *taking {
	t := &taking{message: m, text: text}
	for _, r := range []receipt{{"SERVER_ACK", s.options.Receipts.ServerAck}, {"DELIVERY_ACK", s.options.Receipts.DeliveryAck}, {"READ", s.options.Receipts.Read}} {
		if r.delay >= 0 {
			t.receipts = append(t.receipts, r)
		}
	}
	return t
}

// take lets a message leave: from here on it is in the ledger, whatever is answered.
func (s *Server) take(x *exchange, t *taking) reply {
	i, m := x.instance, t.message
	select {
	case i.sending <- struct{}{}:
	case <-s.ctx.Done():
		return reply{}
	}
	open := x.wait(s.options.SendTime)
	<-i.sending
	if !open {
		return reply{}
	}
	x.accept(&Entry{
		Instance: i.name, Call: x.call, Number: x.in.number(), JID: m.jid, KeyID: m.keyID, Text: t.text,
		StartedAt: x.started, AcceptedAt: time.Now(), InFlight: x.inFlight,
	})
	if t.unsaved || strings.ContainsRune(t.text, 0) {
		return listError(http.StatusBadRequest, "DriverAdapterError: unsupported Unicode escape sequence")
	}
	if !s.options.NoSaving && !t.withoutRow {
		i.store.add(m)
	}
	s.emit(i, "send.message", m.sent())
	if !strings.HasSuffix(m.jid, "@g.us") { // receipts of groups never reach the webhook
		for _, r := range t.early {
			s.postNow(x, m, r)
		}
		s.planReceipts(i, m, t.receipts)
	}
	return jsonReply(http.StatusCreated, m.sent())
}

func required(in fields, names ...string) []string {
	var violations []string
	for _, name := range names {
		if _, ok := in[name]; !ok {
			violations = append(violations, fmt.Sprintf("instance requires property %q", name))
		}
	}
	return violations
}

func isString(in fields, name string) bool { _, ok := in[name].(string); return ok }

// checkExtras validates the optional fields that this simulator knows of.
func checkExtras(in fields) (reply, bool) {
	if _, given := in["delay"]; given {
		if _, ok := in.milliseconds("delay"); !ok {
			return invalid("Enter a value in milliseconds"), false
		}
	}
	if list, ok := in["mentioned"].([]any); ok && len(list) == 0 {
		return invalid("mentioned does not meet minimum length of 1"), false
	}
	return reply{}, true
}

// reach resolves the number and gives the answers of an instance that cannot send to it.
func (s *Server) reach(x *exchange, v view) (string, reply, bool) {
	to := s.resolve(x.instance, x.in.number())
	if to.asks {
		switch {
		case !v.socket:
			return "", plainError(http.StatusInternalServerError, undefined("onWhatsApp")), false
		case v.state != stateOpen:
			return "", plainError(http.StatusInternalServerError, "Connection Closed"), false
		case !to.exists:
			return "", errorReply(http.StatusBadRequest, []any{absent{to.jid, false, x.in.number()}}), false
		}
		s.numbers.put(jidUser(createJID(x.in.number())), to.jid)
	}
	delay, _ := x.in.milliseconds("delay")
	if answer, ok := sendable(v, to.group, delay > 0); !ok {
		return "", answer, false
	}
	if !x.wait(delay) {
		return "", reply{}, false
	}
	if x.misroute != "" {
		to.jid = x.misroute
	}
	return to.jid, reply{}, true
}

// sendable gives what the gateway says when its socket fails inside the send.
func sendable(v view, group, delayed bool) (reply, bool) {
	property := "sendMessage"
	if delayed {
		property = "presenceSubscribe"
	}
	switch {
	case v.state == stateOpen:
		return reply{}, true
	case group && !v.paired:
		return listError(http.StatusBadRequest, "[object Object]"), false
	case !v.socket:
		return listError(http.StatusBadRequest, "TypeError: "+undefined(property)), false
	case !v.paired:
		return listError(http.StatusBadRequest, "TypeError: "+undefined("id")), false
	}
	return listError(http.StatusBadRequest, "Error: Connection Closed"), false
}

type absent struct {
	JID    string `json:"jid"`
	Exists bool   `json:"exists"`
	Number string `json:"number"`
}
