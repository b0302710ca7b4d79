package evolutionsim

import (
	"sync"
	"time"
)

// message is one row of the gateway's message table.
type message struct {
	rowID      string
	keyID      string
	jid        string
	kind       string         // messageType
	content    any            // message
	context    map[string]any // contextInfo; nil for groups and buttons
	composed   int64          // messageTimestamp, Unix seconds
	buttons    bool
	updates    []update
	instanceID string
}

// update is one row of its table of acknowledgements.
type update struct{ rowID, status string }

// store keeps the newest messages of one instance.
type store struct {
	mu    sync.RWMutex
	rows  []*message // a ring once it is full
	first int        // index of the oldest
	byKey map[string]*message
	limit int
}

func newStore(limit int) *store { return &store{byKey: map[string]*message{}, limit: limit} }

func (s *store) add(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKey[m.keyID] = m
	if len(s.rows) < s.limit {
		s.rows = append(s.rows, m)
		return
	}
	delete(s.byKey, s.rows[s.first].keyID)
	s.rows[s.first] = m
	s.first = (s.first + 1) % s.limit
}

// saw adds an acknowledgement and gives the message's row id; empty when there is no row.
func (s *store) saw(keyID, status string) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.byKey[keyID]
	if !ok {
		return ""
	}
	m.updates = append(m.updates, update{rowID(), status})
	return m.rowID
}

func (s *store) get(keyID string) (*message, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m, ok := s.byKey[keyID]
	return m, ok
}

func (s *store) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.first, s.byKey = nil, 0, map[string]*message{}
}

func (s *store) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.rows)
}

// each calls f for every message, newest first, until it returns false. Its argument must not be kept.
func (s *store) each(f func(*message) bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for n := len(s.rows) - 1; n >= 0; n-- {
		if !f(s.rows[(s.first+n)%len(s.rows)]) {
			return
		}
	}
}

type key struct {
	RemoteJID   string `json:"remoteJid"`
	FromMe      bool   `json:"fromMe"`
	ID          string `json:"id"`
	Participant string `json:"participant,omitempty"`
}

type statusOnly struct {
	Status string `json:"status"`
}

// sentBody is the 201 of a send and the data of send.message.
type sentBody struct {
	Key        key            `json:"key"`
	PushName   string         `json:"pushName"`
	Status     string         `json:"status"`
	Message    any            `json:"message"`
	Context    map[string]any `json:"contextInfo,omitempty"`
	Type       string         `json:"messageType"`
	Timestamp  int64          `json:"messageTimestamp"`
	InstanceID string         `json:"instanceId"`
	Source     string         `json:"source"`
}

// rowBody is one record of findMessages.
type rowBody struct {
	ID         string         `json:"id"`
	Key        key            `json:"key"`
	PushName   string         `json:"pushName"`
	Type       string         `json:"messageType"`
	Message    any            `json:"message"`
	Timestamp  int64          `json:"messageTimestamp"`
	InstanceID string         `json:"instanceId"`
	Source     string         `json:"source"`
	Context    map[string]any `json:"contextInfo"`
	Updates    []statusOnly   `json:"MessageUpdate"`
}

const ownName = "Você"

func (m *message) key() key {
	k := key{RemoteJID: m.jid, FromMe: true, ID: m.keyID}
	if m.buttons {
		k.Participant = m.jid
	}
	return k
}

func (m *message) sent() sentBody {
	return sentBody{m.key(), ownName, "PENDING", m.content, m.context, m.kind, m.composed, m.instanceID, "web"}
}

func (m *message) row() rowBody {
	updates := make([]statusOnly, 0, len(m.updates))
	for _, u := range m.updates {
		updates = append(updates, statusOnly{u.status})
	}
	return rowBody{m.rowID, m.key(), ownName, m.kind, m.content, m.composed, m.instanceID, "web", m.context, updates}
}

func textContext(now time.Time) map[string]any {
	return map[string]any{
		"mentionedJid":              []string{},
		"groupMentions":             []string{},
		"ephemeralSettingTimestamp": map[string]any{"low": now.Add(-48 * time.Hour).Unix(), "high": 0, "unsigned": false},
		"disappearingMode":          map[string]int{"initiator": 0},
	}
}
