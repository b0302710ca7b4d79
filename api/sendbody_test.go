package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

const to = `"destinationNumber":"+5511987650123"`

// faultsOf gives the faults of a refused body as "field rule".
func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	var coded *events.Error
	if !errors.As(err, &coded) {
		return nil
	}
	list, _ := coded.Details["errors"].([]events.FieldError)
	out := []string{}
	for _, f := range list {
		out = append(out, f.Field+" "+f.Rule)
	}
	return out
}

func TestDecodeSendFaults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxLabel+1)
	for body, want := range map[string][]string{
		``:                         {"body required"},
		" \n":                      {"body required"},
		`{`:                        {"body json"},
		`{} {}`:                    {"body json"},
		`[]`:                       {"body wrong_type"},
		`null`:                     {"body wrong_type"},
		`"x"`:                      {"body wrong_type"},
		"{\"text\":\"\xff\"}":      {"body not_utf8"},
		`{"text":"\ud800"}`:        {"body not_utf8"},
		`{"text":"x\udc00\ud800"}`: {"body not_utf8"},
		strings.Repeat("[", 40):    {"body too_deep"},
		`{"x":"` + strings.Repeat("[", 40) + `\"[",` + to + `,"text":"a"}`: nil,
		`{}`: {"destinationNumber required", "templateId exactly_one"},
		// All faults at once.
		`{"destinationNumber":5,"templateId":[],"variables":"x","urgent":"yes","labels":{},"deliverAt":7,"markRead":1}`: {
			"destinationNumber wrong_type", "templateId wrong_type", "variables wrong_type", "deliverAt wrong_type",
			"urgent wrong_type", "labels wrong_type", "markRead wrong_type",
		},
		`{` + to + `,"groupId":"1@g.us","text":"a"}`:                                                                 {"destinationNumber exactly_one"},
		`{` + to + `,"text":"a","templateId":"b"}`:                                                                   {"templateId exactly_one"},
		`{` + to + `,"text":"a","media":"https://x"}`:                                                                {"templateId exactly_one"},
		`{` + to + `,"text":"  "}`:                                                                                   {"text required"},
		`{` + to + `,"text":7}`:                                                                                      {"text wrong_type"},
		`{` + to + `,"text":"a","footer":"f"}`:                                                                       {"footer needs_buttons"},
		`{` + to + `,"text":"a","header":7,"buttons":{}}`:                                                            {"header wrong_type", "buttons wrong_type"},
		`{` + to + `,"text":"a","buttons":[{"type":"URL","text":"b"}]}`:                                              {"buttons[0].url required"},
		`{` + to + `,"text":"a","category":"SPAM"}`:                                                                  {"category unknown_value"},
		`{` + to + `,"templateId":"a","category":"OTP","buttons":[{}]}`:                                              {"buttons only_with_text", "category only_with_text"},
		`{` + to + `,"templateId":"a","buttons":[],"header":null}`:                                                   nil,
		`{` + to + `,"templateId":"a","deliverAt":"tomorrow"}`:                                                       {"deliverAt date_time"},
		`{` + to + `,"templateId":"a","deliverAt":"2026-11-30T10:00:00"}`:                                            {"deliverAt date_time"},
		`{` + to + `,"templateId":"a","deliverAt":"2027-11-30T10:00Z"}`:                                              {"deliverAt too_far"},
		`{` + to + `,"templateId":"a","deliverUntil":"2026-11-29T15:22:01.123Z"}`:                                    {"deliverUntil not_in_future"},
		`{` + to + `,"templateId":"a","deliverAt":"2026-11-30T10:00:00-0300","deliverUntil":"2026-11-30T13:00:00Z"}`: {"deliverUntil not_after_deliver_at"},
		`{` + to + `,"templateId":"a","deliverUntil":"2026-12-06T15:22:01.124Z"}`:                                    {"deliverUntil window_too_long"},
		`{` + to + `,"templateId":"a","deliverUntil":"2026-12-06T15:22:01.123Z"}`:                                    nil,
		`{` + to + `,"templateId":"a","labels":["a"," ","` + long + `"]}`:                                            {"labels[1] required", "labels[2] too_long"},
		`{` + to + `,"templateId":"a","labels":[` + strings.Repeat(`"a",`, MaxLabels) + `"a"]}`:                      {"labels too_many"},
	} {
		_, err := decodeOrder([]byte(body), 32, clock)
		if diff := cmp.Diff(want, faultsOf(t, err)); diff != "" {
			t.Errorf("%.120s:\n%s", body, diff)
		}
		if want == nil && err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestDecodeSendNotBuilt(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]events.Code{
		`{"groupId":"1203@g.us","text":"a"}`:                         CodeGroupNotSupported,
		`{"newsletterId":"1203@newsletter","templateId":"a"}`:        CodeNewsletterNotSupported,
		`{` + to + `,"media":"https://x/y.png","mediaType":"image"}`: CodeMediaNotSupported,
		`{` + to + `,"media":"https://x/y.png","templateId":"a"}`:    CodeMediaNotSupported,
	} {
		if _, err := decodeOrder([]byte(body), 32, clock); events.CodeOf(err) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// The documented fields and the decoded ones are the same.
func TestSendFieldsAreDecoded(t *testing.T) {
	t.Parallel()
	for i := range reflect.TypeFor[sendRequest]().NumField() {
		field := reflect.TypeFor[sendRequest]().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		value := map[reflect.Kind]string{reflect.String: `"x"`, reflect.Bool: `true`, reflect.Map: `{"a":1}`, reflect.Slice: `["x"]`}[field.Type.Kind()]
		var o sendOrder
		if f := o.read(map[string]json.RawMessage{name: json.RawMessage(value)}); len(f) > 0 {
			t.Errorf("%s: %v", name, f)
		}
		if reflect.ValueOf(o.sendRequest).Field(i).IsZero() {
			t.Errorf("%s is documented and not decoded", name)
		}
	}
}

// No body makes the decoder panic, take what it should refuse, or repeat what it was given.
func FuzzDecodeSend(f *testing.F) {
	for _, s := range []string{
		note, text, `{}`, `{"text":1}`, `[[[[`, `{"labels":[null,"` + canary + `"]}`, "{\"text\":\"\\ud800\"}",
		`{` + to + `,"text":"a","header":{"text":"b"},"buttons":[{"type":"` + canary + `"}]}`, `{"deliverAt":"9999-12-31T23:59:59.999999999Z"}`,
		`{"` + canary + `":{"` + canary + `":[]},"deliverUntil":"` + canary + `"}`, `{"category":"` + canary + `","variables":{"a":{}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := decodeOrder(raw, 32, clock)
		if err == nil {
			until := o.until(events.OTP, clock)
			if !until.After(clock) || until.Sub(clock) > events.MaxHorizon+events.MaxWindow || o.DestinationNumber == "" ||
				(o.TemplateID == "") == (o.Text == "") {
				t.Errorf("accepted: %+v", o)
			}
			return
		}
		if k, ok := problems[events.CodeOf(err)]; !ok || k.status != http.StatusBadRequest {
			t.Errorf("refused with %v", err)
		}
		p, _ := json.Marshal(problemOf(t.Context(), err))
		if strings.Contains(string(p), canary) {
			t.Errorf("repeats its input: %s", p)
		}
	})
}

// decodeOrder reads a body and gives its first refusal as a send would.
func decodeOrder(raw []byte, maxDepth int, now time.Time) (sendOrder, error) {
	o, f := readSend(raw, maxDepth, now)
	if f = append(f, o.late...); len(f) > 0 {
		return o, faultsError(f)
	}
	return o, o.unsupported()
}
