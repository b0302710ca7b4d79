package receipts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/services/control"
)

// EventMessagesUpsert is the gateway's event of a message that came in. Nothing of it is kept but an opt-in.
const EventMessagesUpsert = "messages.upsert"

// PurposeRecipient separates hashes of recipients from all others, as the API does where messages are accepted.
const PurposeRecipient = "recipient"

// optInFresh is how long the last word of a contact is not recorded again.
const optInFresh = 24 * time.Hour

// optInText is what a contact ends a message to the shared number with: "… ps optin <project id>".
var optInText = regexp.MustCompile(`(?is)(?:^|\s)ps\s+optin\s+([a-z0-9-]{1,40})\s*$`)

// maxOptInText bounds the text that is looked at; the end of a longer one is.
const maxOptInText = 4096

// OptIn reads the opt-in that a webhook of the shared number may hold: the project, and the digits of the contact. It is false for
// every other message, for groups, for contacts that the gateway knows by no telephone number, and for what our own side wrote.
func OptIn(raw []byte) (project, digits string, ok bool) {
	if !bytes.Contains(bytes.ToLower(raw), []byte("optin")) { // of nearly all nothing more is read
		return "", "", false
	}
	var m struct {
		Event string `json:"event"`
		Data  struct {
			Key struct {
				RemoteJID    string `json:"remoteJid"`
				RemoteJIDAlt string `json:"remoteJidAlt"`
				FromMe       *bool  `json:"fromMe"`
			} `json:"key"`
			Message struct {
				Conversation string `json:"conversation"`
				Extended     struct {
					Text string `json:"text"`
				} `json:"extendedTextMessage"`
			} `json:"message"`
		} `json:"data"`
	}
	if json.Unmarshal(raw, &m) != nil || eventName(m.Event) != EventMessagesUpsert || m.Data.Key.FromMe == nil || *m.Data.Key.FromMe {
		return "", "", false
	}
	text := firstOf(m.Data.Message.Conversation, m.Data.Message.Extended.Text)
	found := optInText.FindStringSubmatch(text[max(0, len(text)-maxOptInText):])
	if found == nil {
		return "", "", false
	}
	for _, jid := range []string{m.Data.Key.RemoteJID, m.Data.Key.RemoteJIDAlt} {
		if digits, ok = recipient.JIDDigits(jid); ok {
			return strings.ToLower(found[1]), digits, true
		}
	}
	return "", "", false
}

// optIn records the opt-in of a webhook in CONTROL and says what became of it; "" when there is none.
func (in *Ingest) optIn(ctx context.Context, instance events.Instance, raw []byte, now time.Time) (result string, err error) {
	if !instance.Shared || in.settings.Control == nil {
		return "", nil
	}
	project, digits, ok := OptIn(raw)
	if !ok {
		return "", nil
	}
	var tenant string
	in.catalog.Read(func(c *catalog.Catalog) {
		p, _ := c.Project(project)
		tenant = p.TenantID
	})
	if tenant == "" {
		return "optin_unknown", nil
	}
	hash, err := in.hasher.Hash(ctx, tenant, PurposeRecipient, []byte(recipient.Canonical(digits)))
	if err != nil {
		return "", fmt.Errorf("hash contact: %w", err)
	}
	id := events.OptInID(project, hash)
	var have events.OptIn
	var version uint64
	in.catalog.Read(func(c *catalog.Catalog) {
		have, _ = c.OptIn(project, hash)
		version = c.Version(events.KindOptIn, id)
	})
	if have.ID != "" && now.Sub(have.LastAt) < optInFresh {
		return "optin_known", nil
	}
	next := events.OptIn{
		ID: id, TenantID: tenant, ProjectID: project, RecipientHash: hash, Source: events.SourceInbound, FirstAt: now, LastAt: now,
	}
	if have.ID != "" {
		next.FirstAt = have.FirstAt
	}
	_, err = control.Define(ctx, in.settings.Control, events.KindOptIn, id, next, control.Author{By: "ingest", Reason: "the contact wrote it"}, version)
	switch {
	case err == nil:
		return "optin", nil
	case events.CodeOf(err) == events.CodeConflict: // the same word was recorded by somebody else a moment ago
		return "optin_known", nil
	default:
		return "", fmt.Errorf("record opt-in: %w", err)
	}
}
