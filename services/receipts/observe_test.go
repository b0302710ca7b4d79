package receipts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

type row struct {
	Gateway, Event, Body string
}

func rows(t testing.TB) []row {
	t.Helper()
	f, err := os.Open("testdata/evolution-webhooks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []row
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxRow)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// TestObserveRecorded goes through every webhook recorded from real gateways.
func TestObserveRecorded(t *testing.T) {
	t.Parallel()
	kinds := map[string]Kind{
		EventMessagesUpdate: KindReceipt, EventConnectionUpdate: KindConnection, EventStatusInstance: KindConnection, EventLogoutInstance: KindConnection,
	}
	seen := map[Kind]int{}
	for _, r := range rows(t) {
		want, kept := kinds[r.Event]
		if !kept {
			want = KindOther
		}
		got, kind := Observe([]byte(r.Body))
		seen[kind]++
		if kind != want || (len(got) == 1) != kept {
			t.Errorf("%s %s: kind %s with %d observations", r.Gateway, r.Event, kind, len(got))
			continue
		}
		if !kept {
			continue
		}
		o := got[0]
		var raw struct {
			DateTime time.Time `json:"date_time"`
			Data     *struct {
				KeyID, Status, State, RemoteJID string
				FromMe                          bool
			}
		}
		if err := json.Unmarshal([]byte(r.Body), &raw); err != nil {
			t.Fatal(err)
		}
		if o.Body.Event != r.Event || !o.Body.At.Equal(raw.DateTime) {
			t.Errorf("%s: event %s at %s", r.Event, o.Body.Event, o.Body.At)
		}
		if kind == KindReceipt {
			if o.Body.KeyID != raw.Data.KeyID || o.Body.Status != raw.Data.Status || o.Body.FromMe != raw.Data.FromMe || o.JID != raw.Data.RemoteJID {
				t.Errorf("%s: %+v of %s", r.Event, o, r.Body)
			}
			if _, ok := StateOf(o.Body.Status); !ok {
				t.Errorf("status %s means nothing", o.Body.Status)
			}
		} else if raw.Data != nil && o.Body.State != raw.Data.State+raw.Data.Status {
			t.Errorf("%s: state %q", r.Event, o.Body.State)
		}
		for _, personal := range []string{"5511", "777777", "INSTANCE-TOKEN", "Maria", "http"} {
			if kept, _ := json.Marshal(o.Body); bytes.Contains(kept, []byte(personal)) {
				t.Errorf("%s keeps %q: %s", r.Event, personal, kept)
			}
		}
	}
	if seen[KindReceipt] < 10 || seen[KindConnection] < 10 || seen[KindOther] < 10 {
		t.Errorf("the recorded webhooks are not all there: %v", seen)
	}
}

func TestObserveForms(t *testing.T) {
	t.Parallel()
	update := func(more events.GatewayObserved) []Observation {
		more.Event = EventMessagesUpdate
		return []Observation{{Body: more}}
	}
	tests := map[string]struct {
		body string
		kind Kind
		want []Observation
	}{
		"1.x": {
			`{"event":"messages.update","data":{"remoteJid":"j","fromMe":true,"id":"3EB0","status":"DELIVERY_ACK","datetime":1700000000123,"owner":"acme"}}`, KindReceipt,
			[]Observation{{JID: "j", Body: events.GatewayObserved{Event: EventMessagesUpdate, KeyID: "3EB0", Status: "DELIVERY_ACK", FromMe: true, At: time.UnixMilli(1700000000123).UTC()}}},
		},
		"business":              {`{"event":"messages.update","data":{"keyId":"wamid.HB=","fromMe":true,"status":"DELIVERED","messageId":"row"}}`, KindReceipt, update(events.GatewayObserved{KeyID: "wamid.HB=", Status: "DELIVERED", FromMe: true})},
		"number":                {`{"event":"messages.update","data":{"keyId":"K","fromMe":true,"status":0}}`, KindReceipt, update(events.GatewayObserved{KeyID: "K", Status: "ERROR", FromMe: true})},
		"number out of range":   {`{"event":"messages.update","data":{"keyId":"K","fromMe":true,"status":17}}`, KindReceipt, update(events.GatewayObserved{KeyID: "K", FromMe: true})},
		"nested key":            {`{"event":"messages.update","data":{"key":{"id":"K","fromMe":false},"update":{"status":4}}}`, KindReceipt, update(events.GatewayObserved{KeyID: "K", Status: "READ"})},
		"list":                  {`{"event":"MESSAGES_UPDATE","data":[{"keyId":"A","fromMe":true},{"keyId":"B"},{"status":"READ"}]}`, KindReceipt, append(update(events.GatewayObserved{KeyID: "A", FromMe: true}), update(events.GatewayObserved{KeyID: "B", FromMe: true})...)},
		"unknown word stays":    {`{"event":"messages.update","data":{"keyId":"K","fromMe":true,"status":"SOMETHING_NEW"}}`, KindReceipt, update(events.GatewayObserved{KeyID: "K", Status: "SOMETHING_NEW", FromMe: true})},
		"text as status is not": {`{"event":"messages.update","data":{"keyId":"K","fromMe":true,"status":"call me at +55 11"}}`, KindReceipt, update(events.GatewayObserved{KeyID: "K", FromMe: true})},
		"no status":             {`{"event":"messages.update","data":{"keyId":"K","fromMe":true}}`, KindReceipt, update(events.GatewayObserved{KeyID: "K", FromMe: true})},
		"an edit from 2.3.7": {
			`{"event":"messages.update","data":{"keyId":"K","fromMe":true,"status":"SERVER_ACK","message":{"conversation":"x"}}}`, KindReceipt,
			[]Observation{{Edit: true, Body: events.GatewayObserved{Event: EventMessagesUpdate, KeyID: "K", FromMe: true}}},
		},
		"an empty content is none": {`{"event":"messages.update","data":{"keyId":"K","fromMe":true,"status":"READ","message":null}}`, KindReceipt, update(events.GatewayObserved{KeyID: "K", Status: "READ", FromMe: true})},
		"row id is no key id":      {`{"event":"messages.update","data":{"messageId":"cmx1","fromMe":true,"status":"READ"}}`, KindReceipt, nil},
		"strange key id":           {`{"event":"messages.update","data":{"keyId":"a b","fromMe":true,"status":"READ"}}`, KindReceipt, nil},
		"data null":                {`{"event":"messages.update","data":null}`, KindReceipt, nil},
		"data text":                {`{"event":"messages.update","data":"x"}`, KindReceipt, nil},
		"data missing":             {`{"event":"connection.update"}`, KindUnreadable, nil},
		"not JSON":                 {`event=messages.update`, KindUnreadable, nil},
		"no event":                 {`{"data":{}}`, KindUnreadable, nil},
		"event of another type":    {`{"event":7}`, KindUnreadable, nil},
		"invalid UTF-8 in a text":  {"{\"event\":\"messages.update\",\"data\":{\"keyId\":\"K\",\"status\":\"\xff\xfe\"}}", KindReceipt, update(events.GatewayObserved{KeyID: "K", FromMe: true})},
		"unknown event":            {`{"event":"messages.upsert","data":{"message":{"conversation":"x"}}}`, KindOther, nil},
	}
	for name, tt := range tests {
		got, kind := Observe([]byte(tt.body))
		if diff := cmp.Diff(tt.want, got); diff != "" || kind != tt.kind {
			t.Errorf("%s: kind %s (-want +got):\n%s", name, kind, diff)
		}
	}
}

func TestConnectionOf(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]Connection{
		`{"event":"connection.update","data":{"state":"open","statusReason":200}}`:                  ConnectionOpen,
		`{"event":"connection.update","data":{"state":"connecting","statusReason":200}}`:            ConnectionSame,
		`{"event":"connection.update","data":{"state":"close","statusReason":403}}`:                 ConnectionClosed,
		`{"event":"connection.update","data":{"state":"refused","statusReason":428}}`:               ConnectionClosed,
		`{"event":"status.instance","data":{"status":"closed","disconnectionReasonCode":401}}`:      ConnectionClosed,
		`{"event":"logout.instance","data":null}`:                                                   ConnectionClosed,
		`{"event":"status.instance","data":{"status":"removed","disconnectionReasonCode":"words"}}`: ConnectionSame,
	} {
		got, _ := Observe([]byte(body))
		if len(got) != 1 || ConnectionOf(got[0].Body) != want {
			t.Errorf("%s: %+v, want %q", body, got, want)
		}
	}
	if ConnectionOf(events.GatewayObserved{Event: EventMessagesUpdate, State: "open"}) != ConnectionSame {
		t.Error("a receipt says something about the connection")
	}
}

func TestStateOf(t *testing.T) {
	t.Parallel()
	for _, w := range []string{"", "DELETED", "PENDING", "sent", "ANYTHING"} {
		if s, ok := StateOf(w); ok {
			t.Errorf("%q moves a message to %s", w, s)
		}
	}
	for w, want := range map[string]events.Status{
		"SERVER_ACK": events.StatusSent, "SENT": events.StatusSent, "DELIVERY_ACK": events.StatusDelivered, "DELIVERED": events.StatusDelivered,
		"READ": events.StatusRead, "PLAYED": events.StatusRead, "ERROR": events.StatusFailed, "FAILED": events.StatusFailed,
	} {
		if got, _ := StateOf(w); got != want {
			t.Errorf("%s is %s, want %s", w, got, want)
		}
	}
}

func TestHappenedAt(t *testing.T) {
	t.Parallel()
	received := time.Date(2026, 11, 29, 13, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		said, want time.Time
	}{
		"none":                 {time.Time{}, received},
		"now":                  {received.Add(-300 * time.Millisecond), received.Add(-300 * time.Millisecond)},
		"a retry":              {received.Add(-20 * time.Minute), received.Add(-20 * time.Minute)},
		"São Paulo as UTC":     {received.Add(-3*time.Hour - time.Second), received.Add(-time.Second)},
		"Berlin as UTC":        {received.Add(time.Hour - time.Second), received.Add(-time.Second)},
		"a clock that is fast": {received.Add(time.Second), received.Add(time.Second)},
		"impossible":           {received.Add(-45 * time.Minute), received},
		"days ago":             {received.Add(-72 * time.Hour), received},
		"days ahead":           {received.Add(72 * time.Hour), received},
	} {
		if got := HappenedAt(tt.said, received); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func FuzzObserve(f *testing.F) {
	for _, r := range rows(f) {
		f.Add([]byte(r.Body))
	}
	f.Add([]byte(`{"event":"messages.update","data":[{"key":{"id":"K"},"update":{"status":3}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, kind := Observe(raw)
		if (kind == KindOther || kind == KindUnreadable) && len(got) > 0 {
			t.Errorf("%s is kept", kind)
		}
		for _, o := range got {
			for _, s := range []string{o.Body.Status, o.Body.State} {
				if s != "" && !plain(s, 32, "_") {
					t.Errorf("text %q is kept as a word", s)
				}
			}
			if o.Body.KeyID != "" && !plain(o.Body.KeyID, 256, "._-=+/:") {
				t.Errorf("key id %q is kept", o.Body.KeyID)
			}
			if _, err := json.Marshal(o.Body); err != nil {
				t.Errorf("the observation does not encode: %v", err)
			}
		}
	})
}
