package evolutionsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// event is the envelope of every webhook.
type event struct {
	Event       string `json:"event"`
	Instance    string `json:"instance"`
	Data        any    `json:"data"`
	Destination string `json:"destination"`
	Time        string `json:"date_time"`
	Sender      string `json:"sender,omitempty"` // absent until the account has connected
	ServerURL   string `json:"server_url"`
	APIKey      string `json:"apikey"` // the instance's token, in clear
}

// receiptData is the data of messages.update.
type receiptData struct {
	KeyID      string `json:"keyId"`
	RemoteJID  string `json:"remoteJid"`
	FromMe     bool   `json:"fromMe"`
	Status     string `json:"status"`
	InstanceID string `json:"instanceId"`
	MessageID  string `json:"messageId,omitempty"`
}

// posting makes the post of one event, or nil when the instance has no webhook for it.
func (s *Server) posting(i *instance, name string, data any) *post {
	i.mu.Lock()
	hook, number := i.webhook, i.number
	i.mu.Unlock()
	if hook == nil || !hook.Enabled || !strings.HasPrefix(hook.URL, "http") {
		return nil
	}
	subscribed := strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
	if len(hook.Events) > 0 && !slices.Contains(hook.Events, subscribed) {
		return nil
	}
	e := event{
		Event: name, Instance: i.name, Data: data, Destination: hook.URL, ServerURL: s.url, APIKey: i.token,
		Time: time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
	}
	if number != "" {
		e.Sender = number + userServer
	}
	body, err := json.Marshal(e) //nolint:gosec // the real gateway shows the token too (docs/reference/gateway.md)
	if err != nil {
		return nil
	}
	url := hook.URL
	if hook.ByEvents {
		url += "/" + strings.ReplaceAll(name, ".", "-")
	}
	return &post{url: url, headers: hook.Headers, body: body}
}

// emit posts one event as soon as a worker is free.
func (s *Server) emit(i *instance, name string, data any) {
	if p := s.posting(i, name, data); p != nil {
		s.hooks.add(&task{due: time.Now(), post: p})
	}
}

// Emit posts any event of an instance, for what the simulator does not do by itself (an incoming message, a receipt of a LID).
func (s *Server) Emit(instance, name string, data any) error {
	i := s.instance(instance)
	if i == nil {
		return fmt.Errorf("emit event: no instance %q", instance)
	}
	s.emit(i, name, data)
	return nil
}

// receiptPost notes a receipt in the store and makes its post.
func (s *Server) receiptPost(i *instance, m *message, r receipt) *post {
	row := i.store.saw(m.keyID, r.status)
	data := receiptData{KeyID: m.keyID, RemoteJID: m.jid, FromMe: true, Status: r.status, InstanceID: i.id, MessageID: row}
	if r.jid != "" {
		data.RemoteJID = r.jid
	}
	if r.unposted {
		return nil
	}
	return s.posting(i, "messages.update", data)
}

// planReceipts posts the receipts of one message one after another: the next waits for its time and for the first try of the one before.
func (s *Server) planReceipts(i *instance, m *message, list []receipt) {
	if len(list) == 0 {
		return
	}
	accepted := time.Now()
	var next func(n int)
	next = func(n int) {
		if n == len(list) {
			return
		}
		s.hooks.add(&task{
			due:  accepted.Add(list[n].delay),
			make: func() *post { return s.receiptPost(i, m, list[n]) },
			then: func() { next(n + 1) },
		})
	}
	next(0)
}

// postNow posts a receipt before the answer of its own send, and waits until the webhook was answered.
func (s *Server) postNow(x *exchange, m *message, r receipt) {
	if !x.wait(r.delay) {
		return
	}
	if p := s.receiptPost(x.instance, m, r); p != nil {
		x.watch()
		s.hooks.attempt(p)
	}
}

// emitState posts what the gateway posts when a connection changes. A lost connection posts nothing for close.
func (s *Server) emitState(i *instance, state string, reason int) {
	switch {
	case state == stateClose && reason == 0:
		return
	case state == stateClose:
		s.emitEnd(i, reason)
		return
	}
	data := map[string]any{"instance": i.name, "state": state, "statusReason": 200}
	if state == stateOpen {
		i.mu.Lock()
		data["wuid"], data["profileName"] = i.number+userServer, "Simulated"
		i.mu.Unlock()
	}
	s.emit(i, "connection.update", data)
}

// emitEnd posts the three webhooks of a connection that ended for good.
func (s *Server) emitEnd(i *instance, reason int) {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	object := fmt.Sprintf(`{"error":{"data":null,"isBoom":true,"isServer":false,"output":{"statusCode":%d}},"date":%q}`, reason, now)
	s.emit(i, "status.instance", map[string]any{
		"instance": i.name, "status": "closed", "disconnectionAt": now, "disconnectionReasonCode": reason, "disconnectionObject": object,
	})
	s.emit(i, "logout.instance", nil)
	s.emit(i, "connection.update", map[string]any{"instance": i.name, "state": stateClose, "statusReason": reason})
}
