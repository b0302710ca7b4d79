package evolutionsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// sendTo sends a text and gives the status and key id of the answer.
func sendTo(t *testing.T, s *Server, body string) (int, string) {
	t.Helper()
	status, answer := do(t, s, "POST", "/message/sendText/acme", s.APIKey(), body)
	var out struct {
		Key struct{ ID string }
	}
	_ = json.Unmarshal(answer, &out) // a 400 has no key
	return status, out.Key.ID
}

// Falsy filters: the gateway ignores a filter that is empty, false, null or half a range, and gives everything.
func TestFalsyFiltersGiveEverything(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Instances: []Instance{acme("")}})
	for i := range 3 {
		sendTo(t, s, fmt.Sprintf(`{"number":"551199999000%d","text":"x"}`, i))
	}
	for _, where := range []string{
		`{}`, `{"key":{}}`, `{"key":{"id":null}}`, `{"key":{"id":0,"fromMe":false}}`, `{"key":{"fromMe":true}}`,
		`{"messageTimestamp":{"gte":"2030-01-01T00:00:00Z"}}`, `{"message":{"conversation":"y"}}`,
	} {
		_, answer := do(t, s, "POST", "/chat/findMessages/acme", s.APIKey(), `{"where":`+where+`}`)
		var out struct {
			Messages struct{ Total int }
		}
		if err := json.Unmarshal(answer, &out); err != nil || out.Messages.Total != 3 {
			t.Errorf("%s: %s", where, answer)
		}
	}
}

// Chosen ids: from 2.4 on a text goes out under the id it is told; older gateways and buttons ignore it.
func TestChosenIDsFrom24On(t *testing.T) {
	t.Parallel()
	const chosen = "3EB0AAAAAAAAAAAAAAAAAA"
	for version, want := range map[string]bool{"2.3.6": false, "2.3.7": false, "2.4.0-rc2": true, "2.4.1": true, "latest": false} {
		s := start(t, Options{Version: version, Instances: []Instance{acme("")}})
		status, id := sendTo(t, s, `{"number":"5511999990000","text":"x","messageId":"`+chosen+`"}`)
		if status != http.StatusCreated || (id == chosen) != want {
			t.Errorf("%s: %d %s", version, status, id)
		}
		if got := len(s.Ledger(Filter{KeyID: chosen}).Entries) == 1; got != want {
			t.Errorf("%s: left under it %v", version, got)
		}
	}
}

// Several gateway ids for one message: a gateway that gives an id of its own although it was told one.
func TestAChosenIDCanBeIgnored(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Version: "2.4.0", Instances: []Instance{acme("")}})
	if _, err := s.AddFault(Fault{Kind: "renamed", Times: 1}); err != nil {
		t.Fatal(err)
	}
	if _, id := sendTo(t, s, `{"number":"5511999990000","text":"x","messageId":"3EB0AA"}`); id == "3EB0AA" || id == "" {
		t.Error(id)
	}
	if _, id := sendTo(t, s, `{"number":"5511999990000","text":"x","messageId":"3EB0AB"}`); id != "3EB0AB" {
		t.Error(id)
	}
}

// Sent but 400: what left without a row is in the ledger, and told apart there.
func TestTheLedgerSaysWhatHasNoRow(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Instances: []Instance{acme("")}})
	if _, err := s.AddFault(Fault{Kind: "unsaved", TextContains: "lost"}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"kept": true, "lost": false, `nul \u0000`: false} {
		status, _ := sendTo(t, s, `{"number":"5511999990000","text":"`+text+`"}`)
		if (status == http.StatusCreated) != want {
			t.Errorf("%s: %d", text, status)
		}
	}
	for _, e := range s.Ledger(Filter{}).Entries {
		if e.Stored != (e.Text == "kept") {
			t.Errorf("%+v", e)
		}
	}
}

// LID: the number check tells the other name of an account.
func TestTheNumberCheckTellsALID(t *testing.T) {
	t.Parallel()
	i := acme("")
	i.LIDs = map[string]string{"5511999990000": "123456789012345@lid"}
	s := start(t, Options{Instances: []Instance{i}})
	_, answer := do(t, s, "POST", "/chat/whatsappNumbers/acme", s.APIKey(), `{"numbers":["5511999990000","5511999990001"]}`)
	var out []struct{ JID, LID string }
	if err := json.Unmarshal(answer, &out); err != nil || len(out) != 2 || out[0].LID != "123456789012345@lid" || out[1].LID != "" {
		t.Errorf("%s", answer)
	}
}

// Cross-delivery: the gateway finds numbers in its cache by a part of a spelling, so one of area 19 takes over that of area 51 with the
// same eight digits at the end. The check shows it before a send does; another cache of numbers is the cure.
func TestTheMixedCacheSendsToSomebodyElse(t *testing.T) {
	t.Parallel()
	const south, stranger = "5551988887777", "5519988887777"
	s := start(t, Options{NumberCache: CacheMixed, Instances: []Instance{acme("")}})
	sent := func(number, want string) {
		t.Helper()
		status, answer := do(t, s, "POST", "/message/sendText/acme", s.APIKey(), `{"number":"`+number+`","text":"x"}`)
		var out struct {
			Key struct{ RemoteJID string }
		}
		if err := json.Unmarshal(answer, &out); err != nil || status != http.StatusCreated || out.Key.RemoteJID != want+userServer {
			t.Errorf("%s: %d %s", number, status, answer)
		}
	}
	checked := func(number, want string) {
		t.Helper()
		_, answer := do(t, s, "POST", "/chat/whatsappNumbers/acme", s.APIKey(), `{"numbers":["`+number+`"]}`)
		var out []struct {
			JID    string
			Exists bool
		}
		if err := json.Unmarshal(answer, &out); err != nil || len(out) != 1 || !out[0].Exists || out[0].JID != want+userServer {
			t.Errorf("%s: %s", number, answer)
		}
	}
	sent(south, "555188887777")
	sent(stranger, stranger)
	checked(south, stranger)
	sent(south, stranger)
	sent(stranger, stranger)
	sent("5511988887777", "5511988887777") // a number that no other ends in
	off := CacheOff
	if err := s.ChangeGateway(GatewayChange{NumberCache: &off}); err != nil {
		t.Fatal(err)
	}
	checked(south, "555188887777")
	sent(stranger, stranger)
	sent(south, "555188887777")
	wrong := NumberCache("other")
	if err := s.ChangeGateway(GatewayChange{NumberCache: &wrong}); err == nil {
		t.Error("an unknown cache is taken")
	}
	if _, err := Start(t.Context(), Options{NumberCache: wrong}); err == nil {
		t.Error("an unknown cache is taken at the start")
	}
}

// An upgrade while it runs: what the new version does it does from then on.
func TestTheGatewayIsUpgradedWhileItRuns(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Instances: []Instance{acme("")}})
	status, answer := do(t, s, "POST", "/sim/gateway", "", `{"version":"2.4.0","numberCache":"mixed"}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	if _, answer := do(t, s, "GET", "/", "", ""); !strings.Contains(string(answer), `"version":"2.4.0"`) {
		t.Errorf("%s", answer)
	}
	if _, id := sendTo(t, s, `{"number":"5511999990000","text":"x","messageId":"3EB0AC"}`); id != "3EB0AC" {
		t.Error(id)
	}
}
