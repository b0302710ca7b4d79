package evolutionsim

import (
	"fmt"
	"net/http"
	"strings"
	"time"
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
	jid    string        // what it calls the recipient; as the message when empty
	// unposted: the gateway keeps it, and its webhook is lost
	unposted bool
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
	if chosen := x.in.string("messageId"); chosen != "" && passesMessageID(*s.version.Load()) {
		m.keyID = chosen
	}
	return reply{}, s.taking(m, text)
}

// passesMessageID: from 2.4 on the gateway gives a text the id it is told, unvalidated. Older ones do not read the field.
func passesMessageID(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor) // what does not scan is an older version
	return n == 2 && (major > 2 || major == 2 && minor >= 4)
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

func (s *Server) compose(x *exchange, jid, kind string, content any) *message {
	return &message{
		rowID: rowID(), keyID: keyID(), jid: jid, kind: kind, content: content,
		composed: time.Now().Add(time.Duration(s.clockOff.Load()) * time.Millisecond).Unix(), instanceID: x.instance.id,
	}
}

func (s *Server) taking(m *message, text string) *taking {
	t := &taking{message: m, text: text}
	for _, r := range []receipt{
		{status: "SERVER_ACK", delay: s.options.Receipts.ServerAck},
		{status: "DELIVERY_ACK", delay: s.options.Receipts.DeliveryAck},
		{status: "READ", delay: s.options.Receipts.Read},
	} {
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
	failed := t.unsaved || strings.ContainsRune(t.text, 0)
	stored := !failed && !s.options.NoSaving && !t.withoutRow
	x.accept(&Entry{
		Instance: i.name, Call: x.call, Number: x.in.number(), JID: m.jid, KeyID: m.keyID, Text: t.text, Stored: stored,
		StartedAt: x.started, AcceptedAt: time.Now(), InFlight: x.inFlight,
	})
	if failed {
		return listError(http.StatusBadRequest, "DriverAdapterError: unsupported Unicode escape sequence")
	}
	if stored {
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
			return "", errorReply(http.StatusBadRequest, []any{absent{JID: to.jid, Number: x.in.number()}}), false
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
	LID    string `json:"lid,omitempty"` // only in answers of the number check
}
