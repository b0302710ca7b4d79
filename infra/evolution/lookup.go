package evolution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Query asks the gateway for messages that we sent. It needs KeyID, or RemoteJID with From and To: the gateway ignores a filter that is
// empty, so a query without one would give everything.
type Query struct {
	Instance  string
	KeyID     string
	RemoteJID string    // as the gateway resolved it, not as the number was given
	From, To  time.Time // the gateway's composing time, whole seconds, both inclusive
	PageSize  int       // 50 when 0
	MaxPages  int       // 20 when 0
}

// Record is one message as the gateway stored it. A record proves that the message was written to WhatsApp's socket.
type Record struct {
	KeyID     string
	RemoteJID string
	FromMe    bool
	// Text is what was sent: the conversation of a text, or the body of a message with buttons (see ButtonsText); "" for other kinds.
	Text      string
	Timestamp time.Time // when the gateway composed it
	Statuses  []string  // acknowledgements seen, in no order
}

// Lookup is the answer to a Query.
type Lookup struct {
	Records []Record // newest first
	// Complete tells that every page was read. Only then can a count of records mean anything.
	Complete bool
}

// ErrQueryTooWide refuses a query that the gateway would answer with messages of others.
var ErrQueryTooWide = errors.New("a look-up needs a key id, or a jid and both times")

// FindMessages looks for messages of ours. It drops what the query did not ask for, whatever the gateway returns. That a message is not
// found does not prove that it was not sent: the gateway stores it after sending, may fail to, or may still hold it in a queue.
func (c *Client) FindMessages(ctx context.Context, q Query) (Lookup, error) {
	if q.KeyID == "" && (q.RemoteJID == "" || q.From.IsZero() || q.To.IsZero()) {
		return Lookup{}, ErrQueryTooWide
	}
	setDefault(&q.PageSize, 50)
	setDefault(&q.MaxPages, 20)
	var found Lookup
	seen := map[string]bool{}
	for page, read := 1, 0; page <= q.MaxPages; page++ {
		var out findMessagesAnswer
		in := q.body(page)
		err := c.call(ctx, CallFindMessages, http.MethodPost, path("/chat/findMessages", q.Instance), c.config.Limits.Other, in, &out)
		if err != nil {
			return Lookup{}, fmt.Errorf("read page %d of messages: %w", page, err)
		}
		for _, row := range out.Messages.Records {
			record := row.record()
			if !seen[record.KeyID] && q.asksFor(record) {
				seen[record.KeyID] = true
				found.Records = append(found.Records, record)
			}
		}
		read += len(out.Messages.Records)
		if read >= out.Messages.Total || len(out.Messages.Records) == 0 {
			found.Complete = read >= out.Messages.Total
			break
		}
	}
	return found, nil
}

func (q Query) body(page int) map[string]any {
	key := map[string]any{"fromMe": true}
	where := map[string]any{"key": key}
	if q.KeyID != "" {
		key["id"] = q.KeyID
	}
	if q.RemoteJID != "" {
		key["remoteJid"] = q.RemoteJID
	}
	if !q.From.IsZero() && !q.To.IsZero() {
		where["messageTimestamp"] = map[string]string{"gte": q.From.UTC().Format(time.RFC3339), "lte": q.To.UTC().Format(time.RFC3339)}
	}
	return map[string]any{"where": where, "page": page, "offset": q.PageSize} // offset is the gateway's word for the page's size
}

func (q Query) asksFor(r Record) bool {
	switch {
	case !r.FromMe, q.KeyID != "" && r.KeyID != q.KeyID, q.RemoteJID != "" && r.RemoteJID != q.RemoteJID:
		return false
	case q.From.IsZero() || q.To.IsZero():
		return true
	}
	return !r.Timestamp.Before(q.From.Truncate(time.Second)) && !r.Timestamp.After(q.To)
}

type findMessagesAnswer struct {
	Messages struct {
		Total   int          `json:"total"`
		Records []messageRow `json:"records"`
	} `json:"messages"`
}

type messageRow struct {
	Key struct {
		ID        string `json:"id"`
		RemoteJID string `json:"remoteJid"`
		FromMe    bool   `json:"fromMe"`
	} `json:"key"`
	Message struct {
		Conversation string `json:"conversation"`
		Extended     struct {
			Text string `json:"text"`
		} `json:"extendedTextMessage"`
		ViewOnce struct {
			Message struct {
				Interactive interactive `json:"interactiveMessage"`
			} `json:"message"`
		} `json:"viewOnceMessage"`
		Interactive interactive `json:"interactiveMessage"`
	} `json:"message"`
	Timestamp json.RawMessage `json:"messageTimestamp"`
	Updates   []struct {
		Status string `json:"status"`
	} `json:"MessageUpdate"`
}

type interactive struct {
	Body struct {
		Text string `json:"text"`
	} `json:"body"`
}

func (m messageRow) record() Record {
	r := Record{KeyID: m.Key.ID, RemoteJID: m.Key.RemoteJID, FromMe: m.Key.FromMe, Timestamp: timestamp(m.Timestamp)}
	r.Text = firstOf(m.Message.Conversation, m.Message.Extended.Text,
		strings.TrimRight(m.Message.ViewOnce.Message.Interactive.Body.Text, "\n"), strings.TrimRight(m.Message.Interactive.Body.Text, "\n"))
	for _, update := range m.Updates {
		r.Statuses = append(r.Statuses, update.Status)
	}
	return r
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// FindStatuses asks which acknowledgements of one message the gateway saw, in no order. None does not prove that there were none: the
// gateway stores them only where it is set to, and none for a message that waits.
func (c *Client) FindStatuses(ctx context.Context, instance, keyID string) ([]string, error) {
	if keyID == "" {
		return nil, ErrQueryTooWide
	}
	in := map[string]any{"where": map[string]string{"id": keyID}, "page": 1, "offset": 50}
	var rows []struct {
		KeyID  string `json:"keyId"`
		ID     string `json:"id"` // the gateway's own row; in 1.x the key id, as in its webhooks
		Status string `json:"status"`
	}
	err := c.call(ctx, CallFindStatusMessage, http.MethodPost, path("/chat/findStatusMessage", instance), c.config.Limits.Other, in, &rows)
	if err != nil {
		return nil, err
	}
	var statuses []string
	for _, row := range rows {
		if row.KeyID == keyID || (row.KeyID == "" && row.ID == keyID) {
			statuses = append(statuses, row.Status)
		}
	}
	return statuses, nil
}
