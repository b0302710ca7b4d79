package evolutionsim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type captured struct {
	Case    string  `json:"case"`
	Method  string  `json:"method"`
	Path    string  `json:"path"`
	Request *string `json:"request"`
	Status  int     `json:"status"`
	Answer  string  `json:"answer"`
}

// unanswered are captures of a WhatsApp that does not answer, which a test sets with a fault.
var unanswered = map[string]bool{"70-sendText-usync-never-answers": true, "71b-whatsappNumbers-usync-never-answers": true}

// TestCapturedAnswersAreRepeated replays what was asked of a real gateway and compares status, error texts and the shape of every answer.
func TestCapturedAnswersAreRepeated(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../evolution/testdata/answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	rows := 0
	for lines.Scan() {
		var c captured
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		group, name, _ := strings.Cut(c.Case, "/")
		if unanswered[name] {
			continue
		}
		rows++
		t.Run(c.Case, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, group, name)
			body := ""
			if c.Request != nil {
				body = *c.Request
			}
			status, answer := do(t, s, c.Method, c.Path, keyOf(s, name), body)
			if status != c.Status {
				t.Fatalf("status %d, want %d: %s", status, c.Status, answer)
			}
			compare(t, c, answer)
		})
	}
	if rows != 146 {
		t.Errorf("%d rows were replayed, want 146", rows)
	}
}

func keyOf(s *Server, name string) string {
	switch name {
	case "02-auth-wrong", "01-auth-missing", "03-auth-wrong-unknown-instance":
		return "WRONG"
	case "14-connectionState-instance-token", "16-fetchInstances-token", "183-sendText-victim-with-acme-token":
		return "INSTANCE-TOKEN"
	}
	return s.APIKey()
}

// prepare brings a simulator into the state in which the case was captured.
func prepare(t *testing.T, group, name string) *Server {
	t.Helper()
	number := strings.SplitN(name, "-", 2)[0]
	i := acme("")
	switch {
	case group == "v236-unpaired" && strings.Contains(" 93 94 96 97 100 ", " "+number+" "), name == "04-sendText-while-qr":
		i.Number, i.State = "", stateConnecting
	case group == "v236-unpaired":
		i.Number = ""
	case strings.Contains(" 100 101 104 105 106 107 109 121 127 128 129 ", " "+number+" "):
		i.State = stateClose
	case number == "124":
		i.State = stateConnecting
	}
	switch {
	case strings.Contains(name, "canon12") && number != "51":
		i.Accounts = []string{"551188887777"}
	case name == "51-sendText-br11-canon12":
		i.Missing = []string{"5511988887777"}
	case name == "51-sendText-br11-canon12-plus-format":
		i.Accounts = []string{"551188887777"}
	case number == "54":
		i.Accounts = []string{"553188887777"}
	}
	i.Missing = append(i.Missing, "5521911112222")
	s := start(t, Options{Instances: []Instance{i, {Name: "ghost", Unloaded: true}, {Name: "victim", Token: "VICTIM-TOKEN"}}})
	switch name {
	case "01-auth-missing", "09-create", "104-sendText-after-delete":
		s.removeInstance("acme")
	case "180-create-second-instance":
		s.removeInstance("victim")
	}
	if !strings.Contains(name, "uncached") && group == "v236" {
		s.numbers.put("5511999990000", "5511999990000"+userServer)
	}
	switch number {
	case "51c":
		s.numbers.put("5511988887777", "551188887777"+userServer)
	case "163", "164":
		for _, call := range []string{"sendText", "whatsappNumbers"} {
			if _, err := s.AddFault(Fault{Kind: "misroute", Call: call, JID: "5519988887777" + userServer}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if group == "v236" {
		store := s.instance("acme")
		if store != nil && number != "173" {
			m := &message{
				rowID: rowID(), keyID: "3EB0C1BD045B881CD1266D", jid: "5511999990000" + userServer, kind: "conversation",
				content: map[string]string{"conversation": "hello world"}, composed: 1795957114, instanceID: store.id,
			}
			m.context = textContext(store.created)
			store.store.add(m)
			store.store.saw(m.keyID, "SERVER_ACK")
		}
	}
	return s
}

func compare(t *testing.T, c captured, answer []byte) {
	t.Helper()
	var got, want any
	if err := json.Unmarshal([]byte(c.Answer), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if c.Status >= 400 && !strings.Contains(c.Case, "30c") {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-captured +simulated:\n%s", diff)
		}
		return
	}
	if diff := cmp.Diff(shapes(want), shapes(got)); diff != "" {
		t.Errorf("-captured +simulated:\n%s", diff)
	}
	if strings.Contains(c.Path, "sendText") {
		if diff := cmp.Diff(value(want, "key", "remoteJid"), value(got, "key", "remoteJid")); diff != "" {
			t.Error(diff)
		}
	}
	if strings.Contains(c.Path, "findMessages") && c.Status == 200 {
		if w, g := value(want, "messages", "total") == 0., value(got, "messages", "total") == 0.; w != g {
			t.Errorf("found %v, captured %v", value(got, "messages", "total"), value(want, "messages", "total"))
		}
	}
}

func value(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// shapes lists every path of a value with its type. What depends on stored contacts or an earlier end of the connection is left out.
func shapes(v any) map[string]string {
	found := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				if name != "name" && !strings.HasPrefix(name, "disconnection") && !strings.HasPrefix(name, "profile") && name != "ownerJid" {
					walk(path+"."+name, value)
				}
			}
		case []any:
			for _, value := range v {
				walk(path+"[]", value)
			}
		default:
			found[path] = fmt.Sprint(reflect.TypeOf(v))
		}
	}
	walk("", v)
	for path := range found {
		if strings.Contains(path, "MessageUpdate") || strings.HasPrefix(path, ".webhook.") {
			delete(found, path)
		}
	}
	return found
}
