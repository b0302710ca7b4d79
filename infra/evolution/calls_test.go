package evolution

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCallsSendTheShapesOfTheGateway(t *testing.T) {
	t.Parallel()
	type seen struct{ Line, Body string }
	requests := make(chan seen, 1)
	answers := map[string]string{
		"connectionState": `{"instance":{"instanceName":"a b","state":"open"}}`,
		"whatsappNumbers": `[{"jid":"551188887777@s.whatsapp.net","exists":true,"number":"5511988887777","name":"x"}]`,
		"sendPresence":    `{"presence":"composing"}`,
		"set":             `{"id":"x"}`,
		"":                `{"status":200,"version":"2.3.6"}`,
	}
	s := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- seen{r.Method + " " + r.URL.EscapedPath(), string(body)}
		segments := strings.Split(r.URL.Path, "/")
		answer(200, answers[segments[max(0, len(segments)-2)]])(w, r)
	})
	c := newClient(t, Config{BaseURL: s.URL + "/"})
	ctx := t.Context()
	expect := func(line, body string) {
		t.Helper()
		if diff := cmp.Diff(seen{line, body}, <-requests); diff != "" {
			t.Error(diff)
		}
	}
	state, err := c.ConnectionState(ctx, "a b")
	if err != nil || state != StateOpen {
		t.Errorf("%q, %v", state, err)
	}
	expect("GET /instance/connectionState/a%20b", "")
	numbers, err := c.WhatsAppNumbers(ctx, "a", []string{"5511988887777"})
	if diff := cmp.Diff([]Number{{Number: "5511988887777", JID: "551188887777@s.whatsapp.net", Exists: true}}, numbers); diff != "" || err != nil {
		t.Error(diff, err)
	}
	expect("POST /chat/whatsappNumbers/a", `{"numbers":["5511988887777"]}`)
	if err := c.SendPresence(ctx, "a", "1", "composing", time.Minute); err != nil {
		t.Error(err)
	}
	expect("POST /chat/sendPresence/a", `{"number":"1","presence":"composing","delay":2500}`)
	if err := c.SetWebhook(ctx, "a", Webhook{URL: "http://x/y"}); err != nil {
		t.Error(err)
	}
	expect("POST /webhook/set/a", `{"webhook":{"enabled":true,"url":"http://x/y","byEvents":false,"base64":false,"events":[]}}`)
	version, err := c.Version(ctx)
	if err != nil || version != "2.3.6" || c.KnownVersion() != "2.3.6" {
		t.Errorf("%q, %v", version, err)
	}
	expect("GET /", "")
}

func TestAFailedCallSaysWhy(t *testing.T) {
	t.Parallel()
	s := gateway(t, answer(404, wrapped(404, `["The \"acme\" instance does not exist"]`)))
	c := newClient(t, Config{BaseURL: s.URL})
	_, err := c.ConnectionState(t.Context(), "acme")
	var f *Failure
	if !errors.As(err, &f) || f.Verdict.Code != CauseInstanceUnknown || f.Verdict.Scope != ScopeInstance || f.Status != 404 {
		t.Errorf("%v", err)
	}
	if strings.Contains(err.Error(), "acme") {
		t.Errorf("error shows the answer: %v", err)
	}
}

func TestNewRefusesWhatIsNoGatewayURL(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "ftp://x", "http://", "http://user:pw@x", "http://x?y=1", "http://x/#f", "://"} {
		if _, err := New(Config{BaseURL: u}); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: %v", u, err)
		}
	}
	if _, err := New(Config{BaseURL: "http://x", APIKey: "a\r\nb"}); err == nil {
		t.Error("a key with a line break was taken")
	}
}

// rows serves n messages in pages and, like the gateway, whatever the filter.
func rows(t *testing.T, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Page, Offset int
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		var records []string
		for i := (in.Page - 1) * in.Offset; i < min(n, in.Page*in.Offset); i++ {
			records = append(records, fmt.Sprintf(`{"key":{"id":"K%d","fromMe":%t,"remoteJid":"1@s.whatsapp.net"},"message":{"conversation":"t%d"},"messageTimestamp":%d,"MessageUpdate":[{"status":"READ"}]}`, i, i != 3, i, 1000+i))
		}
		_, _ = fmt.Fprintf(w, `{"messages":{"total":%d,"pages":1,"currentPage":%d,"records":[%s]}}`, n, in.Page, strings.Join(records, ","))
	}
}

func TestFindMessagesReadsAllPagesAndDropsWhatWasNotAsked(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{BaseURL: gateway(t, rows(t, 7)).URL})
	q := Query{Instance: "a", RemoteJID: "1@s.whatsapp.net", From: time.Unix(1001, 5), To: time.Unix(1005, 0), PageSize: 2}
	found, err := c.FindMessages(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, r := range found.Records {
		texts = append(texts, r.Text)
	}
	if diff := cmp.Diff([]string{"t1", "t2", "t4", "t5"}, texts); diff != "" || !found.Complete {
		t.Error(diff, found.Complete)
	}
	want := Record{KeyID: "K1", RemoteJID: "1@s.whatsapp.net", FromMe: true, Text: "t1", Timestamp: time.Unix(1001, 0).UTC(), Statuses: []string{"READ"}}
	if diff := cmp.Diff(want, found.Records[0]); diff != "" {
		t.Error(diff)
	}
	q.MaxPages = 2
	if found, err := c.FindMessages(t.Context(), q); err != nil || found.Complete {
		t.Errorf("two of four pages are not complete: %+v, %v", found, err)
	}
	if found, err := c.FindMessages(t.Context(), Query{Instance: "a", KeyID: "K6"}); err != nil || len(found.Records) != 1 || found.Records[0].KeyID != "K6" {
		t.Errorf("by id: %+v, %v", found, err)
	}
	if found, err := c.FindMessages(t.Context(), Query{Instance: "a", KeyID: "OTHER"}); err != nil || len(found.Records) != 0 || !found.Complete {
		t.Errorf("an id that is not there: %+v, %v", found, err)
	}
}

func TestLookUpsNeedAFilter(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{BaseURL: "http://127.0.0.1:1"})
	now := time.Unix(1, 0)
	for _, q := range []Query{{}, {RemoteJID: "x"}, {RemoteJID: "x", From: now}, {From: now, To: now}} {
		if _, err := c.FindMessages(t.Context(), q); !errors.Is(err, ErrQueryTooWide) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := c.FindStatuses(t.Context(), "a", ""); !errors.Is(err, ErrQueryTooWide) {
		t.Error(err)
	}
}

func TestTheTextOfButtonsIsDerivable(t *testing.T) {
	t.Parallel()
	body := `{"messages":{"total":1,"records":[{"key":{"id":"K","fromMe":true},"message":{"viewOnceMessage":{"message":{"interactiveMessage":{"body":{"text":"*T*\n\nD\n"}}}}}}]}}`
	c := newClient(t, Config{BaseURL: gateway(t, answer(200, body)).URL})
	found, err := c.FindMessages(t.Context(), Query{Instance: "a", KeyID: "K"})
	if err != nil || len(found.Records) != 1 || found.Records[0].Text != ButtonsText("T", "D") {
		t.Errorf("%+v, %v", found, err)
	}
	if ButtonsText("T", "") != "*T*" {
		t.Error(ButtonsText("T", ""))
	}
}

func TestFindStatusesKeepsOnlyTheMessageAsked(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{BaseURL: gateway(t, answer(200, `[{"id":"r1","keyId":"A","status":"READ"},{"id":"A","keyId":"B","status":"ERROR"},{"id":"A","status":"DELIVERY_ACK"},{"id":"C","status":"PLAYED"}]`)).URL})
	got, err := c.FindStatuses(t.Context(), "a", "A")
	if diff := cmp.Diff([]string{"READ", "DELIVERY_ACK"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
