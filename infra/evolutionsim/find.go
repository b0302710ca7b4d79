package evolutionsim

import (
	"net/http"
	"time"
)

// findMessages filters as the gateway does: an empty or false filter is none, times need both bounds, text is never looked at.
func (s *Server) findMessages(x *exchange) reply {
	where, violation := whereOf(x.in)
	if violation != nil {
		return *violation
	}
	from, to, ok := bounds(where["messageTimestamp"])
	if !ok {
		return plainError(http.StatusInternalServerError, "\nInvalid `this.prismaRepository.message.count()` invocation in\n(path):4864:55\n\nArgument `gte` is missing.")
	}
	rawKey, _ := where["key"].(map[string]any)
	k, kind := fields(rawKey), where.string("messageType")
	size, page := positive(x.in["offset"], 50), positive(x.in["page"], 1)
	rows, total := []rowBody{}, 0
	x.instance.store.each(func(m *message) bool {
		composed := time.Unix(m.composed, 0)
		switch {
		case k.string("id") != "" && k.string("id") != m.keyID,
			k.string("remoteJid") != "" && k.string("remoteJid") != m.jid,
			kind != "" && kind != m.kind,
			!from.IsZero() && (composed.Before(from) || composed.After(to)):
			return true
		}
		if total >= (page-1)*size && len(rows) < size {
			rows = append(rows, m.row())
		}
		total++
		return true
	})
	return jsonReply(http.StatusOK, map[string]any{"messages": map[string]any{
		"total": total, "pages": (total + size - 1) / size, "currentPage": page, "records": rows,
	}})
}

// whereOf reads the filter and makes the refusals of its schema.
func whereOf(in fields) (fields, *reply) {
	refuse := func(violations ...string) (fields, *reply) {
		r := invalid(violations...)
		return nil, &r
	}
	if in["where"] == nil {
		return fields{}, nil
	}
	raw, ok := in["where"].(map[string]any)
	if !ok {
		return refuse("where is not of a type(s) object")
	}
	where := fields(raw)
	rawKey, _ := where["key"].(map[string]any)
	var violations []string
	for _, name := range []string{"id", "remoteJid"} {
		if value, given := rawKey[name]; given && value == "" {
			violations = append(violations, "The property cannot be empty")
		}
	}
	if value, given := rawKey["fromMe"]; given {
		if _, ok := value.(bool); !ok {
			violations = append(violations, "where.key.fromMe is not of a type(s) boolean", "where.key.fromMe is not one of enum values: true,false")
		}
	}
	if len(violations) > 0 {
		return refuse(violations...)
	}
	return where, nil
}

// bounds reads the time filter: ISO strings or milliseconds. Without both bounds there is none; garbage is not ok.
func bounds(raw any) (from, to time.Time, ok bool) {
	filter, _ := raw.(map[string]any)
	if filter["gte"] == nil || filter["lte"] == nil {
		return time.Time{}, time.Time{}, true
	}
	from, fromOK := moment(filter["gte"])
	to, toOK := moment(filter["lte"])
	return from, to, fromOK && toOK
}

func moment(v any) (time.Time, bool) {
	switch v := v.(type) {
	case float64:
		return time.UnixMilli(int64(v)).Truncate(time.Second), true
	case string:
		t, err := time.Parse(time.RFC3339, v)
		return t.Truncate(time.Second), err == nil
	}
	return time.Time{}, false
}

func positive(v any, otherwise int) int {
	if n, ok := v.(float64); ok && n >= 1 && n < 1e6 {
		return int(n)
	}
	return otherwise
}

type statusBody struct {
	ID          string  `json:"id"`
	KeyID       string  `json:"keyId"`
	RemoteJID   string  `json:"remoteJid"`
	FromMe      bool    `json:"fromMe"`
	Participant *string `json:"participant"`
	PollUpdates *string `json:"pollUpdates"`
	Status      string  `json:"status"`
	MessageID   string  `json:"messageId"`
	InstanceID  string  `json:"instanceId"`
}

// findStatusMessage applies only id and remoteJid.
func (s *Server) findStatusMessage(x *exchange) reply {
	where, violation := whereOf(x.in)
	if violation != nil {
		return *violation
	}
	size, page := positive(x.in["offset"], 50), positive(x.in["page"], 1)
	rows, total := []statusBody{}, 0
	x.instance.store.each(func(m *message) bool {
		if id := where.string("id"); id != "" && id != m.keyID || where.string("remoteJid") != "" && where.string("remoteJid") != m.jid {
			return true
		}
		for _, u := range m.updates {
			if total >= (page-1)*size && len(rows) < size {
				rows = append(rows, statusBody{
					ID: u.rowID, KeyID: m.keyID, RemoteJID: m.jid, FromMe: true, Status: u.status, MessageID: m.rowID, InstanceID: m.instanceID,
				})
			}
			total++
		}
		return true
	})
	return jsonReply(http.StatusOK, rows)
}
