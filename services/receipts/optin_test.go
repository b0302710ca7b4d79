package receipts

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/services/control"
)

// upsert is a message that a contact wrote, in the shape of the captured ones.
func upsert(key, message string) string {
	return `{"event":"messages.upsert","instance":"acme","data":{"key":{` + key + `},"pushName":"Maria","message":` + message +
		`,"messageType":"conversation","messageTimestamp":1795957412},"date_time":"2026-11-29T13:03:33.987Z","apikey":"INSTANCE-TOKEN"}`
}

const (
	byNumber = `"remoteJid":"5511999990000@s.whatsapp.net","fromMe":false,"id":"3A0000000000000000A2"`
	byLID    = `"remoteJid":"77777777777777@lid","remoteJidAlt":"5511999990000@s.whatsapp.net","fromMe":false,"id":"3A0000000000000000A2"`
)

func TestOptInIsReadFromTheEndOfAText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw     string
		project string
	}{
		"alone":                {upsert(byNumber, `{"conversation":"ps optin project-c3"}`), "project-c3"},
		"after other words":    {upsert(byNumber, `{"conversation":"Quero receber avisos.\nPS  Optin project-c3 \n"}`), "project-c3"},
		"extended text":        {upsert(byNumber, `{"extendedTextMessage":{"text":"oi ps optin project-c3"}}`), "project-c3"},
		"known by a LID":       {upsert(byLID, `{"conversation":"ps optin project-c3"}`), "project-c3"},
		"after a long text":    {upsert(byNumber, `{"conversation":"`+strings.Repeat("ã", 5000)+` ps optin project-c3"}`), "project-c3"},
		"not at the end":       {upsert(byNumber, `{"conversation":"ps optin project-c3 please"}`), ""},
		"inside a word":        {upsert(byNumber, `{"conversation":"caps optin project-c3"}`), ""},
		"no project":           {upsert(byNumber, `{"conversation":"ps optin"}`), ""},
		"written by ourselves": {upsert(strings.Replace(byNumber, "false", "true", 1), `{"conversation":"ps optin project-c3"}`), ""},
		"a group":              {upsert(`"remoteJid":"120363000000000000@g.us","fromMe":false`, `{"conversation":"ps optin project-c3"}`), ""},
		"only a LID":           {upsert(`"remoteJid":"77777777777777@lid","fromMe":false`, `{"conversation":"ps optin project-c3"}`), ""},
		"nobody says who":      {upsert(`"remoteJid":"5511999990000@s.whatsapp.net"`, `{"conversation":"ps optin project-c3"}`), ""},
		"another event":        {strings.Replace(upsert(byNumber, `{"conversation":"ps optin project-c3"}`), "messages.upsert", "send.message", 1), ""},
		"no JSON":              {`{"optin`, ""},
	} {
		project, digits, ok := OptIn([]byte(c.raw))
		if project != c.project || ok != (c.project != "") || ok && digits != "5511999990000" {
			t.Errorf("%s: project %q, digits %q, %v", name, project, digits, ok)
		}
	}
}

func FuzzOptIn(f *testing.F) {
	f.Add([]byte(upsert(byLID, `{"conversation":"oi ps optin project-c3"}`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		project, digits, ok := OptIn(raw)
		if ok && (!events.ValidToken(project) || digits == "") {
			t.Errorf("project %q, digits %q", project, digits)
		}
	})
}

// What a contact writes to the shared number is an opt-in of their number, once a day; nothing else of it is kept anywhere.
func TestAContactOptsInByWritingToTheSharedNumber(t *testing.T) {
	t.Parallel()
	r, p := newRig(t), newPlane()
	shared := sealed(t, r, instance, "token-one", "secret-one")
	shared.Shared, shared.TenantID = true, events.PlatformTenant
	p.instance(shared)
	own := sealed(t, r, "inst-two", "token-two", "secret-two")
	p.instance(own)
	project := &events.Defined[events.Project]{Value: events.Project{ID: "project-c3", TenantID: "acme"}}
	p.define(events.KindProject, "project-c3", project)
	s := serve(t, NewIngest(p, control.NewSecrets(r.keys), r.keys, r.log, IngestSettings{Control: r.log}))
	hash, err := r.keys.Hash(t.Context(), "acme", PurposeRecipient, []byte(recipient.Canonical("5511999990000")))
	if err != nil {
		t.Fatal(err)
	}
	id := events.OptInID("project-c3", hash)
	stored := func() (events.OptIn, uint64, bool) {
		rec, err := r.log.LastBySubject(t.Context(), events.StreamControl, events.ControlSubject(events.KindOptIn, id))
		if events.CodeOf(err) == events.CodeNotFound {
			return events.OptIn{}, 0, false
		}
		if err != nil {
			t.Fatal(err)
		}
		return rec.Body.(*events.Defined[events.OptIn]).Value, rec.Position.Sequence, true
	}
	said := upsert(byNumber, `{"conversation":"Olá! ps optin project-c3"}`)
	for _, c := range []struct{ path, secret, body string }{
		{"/receipts/token-two", "secret-two", said}, // a customer's own number
		{"/receipts/token-one", "secret-one", strings.Replace(said, "project-c3", "project-xx", 1)},
		{"/receipts/token-one", "secret-one", upsert(byNumber, `{"conversation":"Olá!"}`)},
	} {
		if res := post(t, s.URL+c.path, c.secret, c.body); res.StatusCode != http.StatusOK {
			t.Errorf("status %d", res.StatusCode)
		}
		if _, _, ok := stored(); ok {
			t.Fatalf("%s opted in", c.body)
		}
	}
	if res := post(t, s.URL+"/receipts/token-one", "secret-one", said); res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	first, seq, ok := stored()
	if !ok || first.TenantID != "acme" || first.ProjectID != "project-c3" || first.RecipientHash != hash ||
		first.Source != events.SourceInbound || first.FirstAt.IsZero() || !first.LastAt.Equal(first.FirstAt) {
		t.Fatalf("recorded %+v", first)
	}
	// Before this process has heard of it, and after, the same word again changes nothing.
	for range 2 {
		if res := post(t, s.URL+"/receipts/token-one", "secret-one", said); res.StatusCode != http.StatusOK {
			t.Errorf("status %d", res.StatusCode)
		}
		if _, again, _ := stored(); again != seq {
			t.Error("it was recorded twice in a day")
		}
		p.defineAt(seq, events.KindOptIn, id, &events.Defined[events.OptIn]{Value: first})
	}
	// The next day, in a process that has read all of it.
	old, later := first, newPlane()
	old.FirstAt, old.LastAt = first.FirstAt.Add(-72*time.Hour), first.LastAt.Add(-48*time.Hour)
	later.instance(shared)
	later.define(events.KindProject, "project-c3", project)
	later.defineAt(seq, events.KindOptIn, id, &events.Defined[events.OptIn]{Value: old})
	s = serve(t, NewIngest(later, control.NewSecrets(r.keys), r.keys, r.log, IngestSettings{Control: r.log}))
	if res := post(t, s.URL+"/receipts/token-one", "secret-one", said); res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
	if later, _, _ := stored(); !later.FirstAt.Equal(old.FirstAt) || !later.LastAt.After(old.LastAt) {
		t.Errorf("the next day it is %+v", later)
	}
	if last, err := r.log.LastSequence(t.Context(), events.ReceiptsStream(partition)); err != nil || last != 0 {
		t.Errorf("what contacts wrote is in RECEIPTS: %d, %v", last, err)
	}
}
