package receipts

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"pilotstatus.dev/events"
)

// Names of the gateway's events that are kept. All others are counted and answered.
const (
	EventMessagesUpdate   = "messages.update"
	EventConnectionUpdate = "connection.update"
	EventStatusInstance   = "status.instance"
	EventLogoutInstance   = "logout.instance"
)

// Kind says what a webhook of a gateway is to us.
type Kind string

// Kinds of webhooks.
const (
	KindReceipt    Kind = "receipt"    // what became of a message
	KindConnection Kind = "connection" // whether an instance is connected
	KindOther      Kind = "other"      // an event that we do not keep
	KindUnreadable Kind = "unreadable" // not the JSON of any event
)

// Observation is what one webhook says, reduced to the allow-list. JID is the one personal field: it is hashed before anything
// is stored and never leaves the process.
type Observation struct {
	Body events.GatewayObserved
	JID  string
	Edit bool // it tells of a changed content; its status, if any, was left out
}

// maxObservations bounds how many receipts one webhook may hold; gateways send one.
const maxObservations = 100

// Observe reads the body of a webhook. It keeps allow-listed fields only and never fails: what it cannot read is KindUnreadable,
// what we do not keep is KindOther, and a receipt without a key id gives no observation.
//
// Gateways from 2.0 name the key id `keyId` and send one object; 1.x names it `id` and gives the time as `datetime`; a status may
// be a word of WhatsApp Web, a word of the Business API or a number. `messageId` is the gateway's own row and never read. From 2.3.7
// an edit is an update with its content and a status that is made up: that status says nothing.
func Observe(raw []byte) ([]Observation, Kind) {
	var env struct {
		Event    string          `json:"event"`
		Data     json.RawMessage `json:"data"`
		DateTime string          `json:"date_time"`
	}
	if err := json.Unmarshal(raw, &env); err != nil || env.Event == "" {
		return nil, KindUnreadable
	}
	base := events.GatewayObserved{Event: eventName(env.Event), At: readTime(env.DateTime)}
	switch base.Event {
	case EventMessagesUpdate:
		return observeUpdates(base, env.Data), KindReceipt
	case EventConnectionUpdate, EventStatusInstance:
		var d struct {
			State        word   `json:"state"`
			Status       word   `json:"status"`
			StatusReason number `json:"statusReason"`
			ReasonCode   number `json:"disconnectionReasonCode"`
		}
		if json.Unmarshal(env.Data, &d) != nil {
			return nil, KindUnreadable
		}
		base.State = strings.ToLower(string(d.State + d.Status)) // an event has one of them
		base.StatusReason = int(d.StatusReason + d.ReasonCode)
		return []Observation{{Body: base}}, KindConnection
	case EventLogoutInstance:
		return []Observation{{Body: base}}, KindConnection
	default:
		return nil, KindOther
	}
}

// eventName brings both spellings, "messages.update" and "MESSAGES_UPDATE", to the first.
func eventName(s string) string {
	if strings.ToUpper(s) == s {
		s = strings.ReplaceAll(s, "_", ".")
	}
	return strings.ToLower(s)
}

func observeUpdates(base events.GatewayObserved, data json.RawMessage) []Observation {
	rows := []json.RawMessage{data}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		if json.Unmarshal(data, &rows) != nil {
			return nil
		}
	}
	var out []Observation
	for _, row := range rows[:min(len(rows), maxObservations)] {
		if o, ok := observeUpdate(base, row); ok {
			out = append(out, o)
		}
	}
	return out
}

type messageKey struct {
	ID        keyID  `json:"id"`
	FromMe    *bool  `json:"fromMe"`
	RemoteJID string `json:"remoteJid"`
}

func observeUpdate(base events.GatewayObserved, row json.RawMessage) (Observation, bool) {
	var d struct {
		messageKey            // 1.x has them at the top, under `id`
		KeyID      keyID      `json:"keyId"`
		Key        messageKey `json:"key"`
		Status     status     `json:"status"`
		DateTime   number     `json:"datetime"` // 1.x: Unix milliseconds
		Message    content    `json:"message"`
		Update     struct {
			Status status `json:"status"`
		} `json:"update"`
	}
	if json.Unmarshal(row, &d) != nil {
		return Observation{}, false
	}
	o := Observation{Body: base, JID: firstOf(d.RemoteJID, d.Key.RemoteJID)}
	o.Body.KeyID = firstOf(string(d.KeyID), string(d.Key.ID), string(d.ID))
	if o.Edit = bool(d.Message); !o.Edit {
		o.Body.Status = firstOf(string(d.Status), string(d.Update.Status))
	}
	o.Body.FromMe = true // where it is not said the key id alone decides
	for _, said := range []*bool{d.FromMe, d.Key.FromMe} {
		if said != nil {
			o.Body.FromMe = *said
			break
		}
	}
	if d.DateTime > 0 && d.DateTime < 1<<43 {
		o.Body.At = time.UnixMilli(int64(d.DateTime)).UTC()
	}
	return o, o.Body.KeyID != ""
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func readTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 2000 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC()
}

// word is a state or status as the gateway words it, empty when it is no plain word: free text may be personal.
type word string

func (w *word) UnmarshalJSON(b []byte) error {
	*w = ""
	var s string
	if json.Unmarshal(b, &s) == nil && plain(s, 32, "_") {
		*w = word(s)
	}
	return nil
}

// content is whether there is any; what it is, is not kept.
type content bool

func (c *content) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	*c = len(b) > 2 && b[0] == '{'
	return nil
}

// status is a word in capitals, or a number of the enumeration of WhatsApp Web.
type status string

var statusNumbers = []status{"ERROR", "PENDING", "SERVER_ACK", "DELIVERY_ACK", "READ", "PLAYED"}

func (s *status) UnmarshalJSON(b []byte) error {
	*s = ""
	var n int
	if json.Unmarshal(b, &n) == nil && string(b) != "null" {
		if n >= 0 && n < len(statusNumbers) {
			*s = statusNumbers[n]
		}
		return nil
	}
	var w string
	if json.Unmarshal(b, &w) == nil {
		*s = status(statusWord(w))
	}
	return nil
}

// statusWord gives a status as the gateway words it, in capitals; empty when it is no plain word.
func statusWord(s string) string {
	if !plain(s, 32, "_") {
		return ""
	}
	return strings.ToUpper(s)
}

// keyID is WhatsApp's id of a message, empty when it is none that WhatsApp makes.
type keyID string

func (k *keyID) UnmarshalJSON(b []byte) error {
	*k = ""
	var s string
	if json.Unmarshal(b, &s) == nil && plain(s, 256, "._-=+/:") {
		*k = keyID(s)
	}
	return nil
}

// number is a whole number; anything else is 0.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	*n = 0
	var v int64
	if json.Unmarshal(b, &v) == nil {
		*n = number(v)
	}
	return nil
}

// plain reports whether s is 1 to limit ASCII letters, digits or characters of more.
func plain(s string, limit int, more string) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.Contains(more, string(rune(c))) {
			return false
		}
	}
	return true
}
