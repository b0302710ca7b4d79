package events_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

type greeted struct {
	First string `json:"first"`
	Last  string `json:"last"`
	Times int    `json:"times"`
}

// greetings is a registry of an event in its third version: v1 had one name, v2 split it, v3 counts.
func greetings(ups ...int) *events.Registry {
	r := events.NewRegistry(events.Spec{Name: "test.greeted", Version: 3, New: func() any { return new(greeted) }})
	lift := func(change func(map[string]any)) events.Upcast {
		return func(raw json.RawMessage) (json.RawMessage, error) {
			var m map[string]any
			if err := json.Unmarshal(raw, &m); err != nil {
				return nil, err
			}
			change(m)
			return json.Marshal(m)
		}
	}
	all := map[int]events.Upcast{
		1: lift(func(m map[string]any) {
			name, _ := m["name"].(string)
			m["first"], m["last"], _ = strings.Cut(name, " ")
			delete(m, "name")
		}),
		2: lift(func(m map[string]any) { m["times"] = 1 }),
	}
	for _, from := range ups {
		r.WithUpcast("test.greeted", from, all[from])
	}
	return r
}

func stored(wireType, body string) events.Stored {
	return events.Stored{Wire: events.Wire{
		Subject: "evt.0.a.test.greeted",
		Header:  map[string][]string{events.HeaderID: {"1"}, events.HeaderType: {wireType}}, Data: []byte(body),
	}}
}

func TestOlderVersionsAreLifted(t *testing.T) {
	t.Parallel()
	r := greetings(1, 2)
	want := &greeted{First: "Ada", Last: "Byron", Times: 1}
	for typ, body := range map[string]string{
		"test.greeted.v1": `{"name":"Ada Byron"}`,
		"test.greeted.v2": `{"first":"Ada","last":"Byron"}`,
		"test.greeted.v3": `{"first":"Ada","last":"Byron","times":1}`,
	} {
		rec, err := r.Decode(stored(typ, body))
		if err != nil || !rec.Known || rec.Type != typ {
			t.Errorf("%s: %+v, %v", typ, rec, err)
		}
		if diff := cmp.Diff(any(want), rec.Body); diff != "" {
			t.Errorf("%s: %s", typ, diff)
		}
	}
}

func TestDecodeFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		r     *events.Registry
		typ   string
		body  string
		code  events.Code
		known bool
	}{
		{"no upcaster", greetings(1), "test.greeted.v1", `{"name":"Ada"}`, events.CodeMalformed, false},
		{"upcaster fails", greetings(1, 2), "test.greeted.v2", `[`, events.CodeMalformed, false},
		{"body does not fit", greetings(1, 2), "test.greeted.v3", `{"times":"three"}`, events.CodeMalformed, false},
		{"newer version", greetings(1, 2), "test.greeted.v4", `[`, "", false},
		{"unknown name", greetings(1, 2), "test.waved.v1", `[`, "", false},
		{"no version", greetings(1, 2), "test.greeted", `{}`, "", false},
		{"version zero", greetings(1, 2), "test.greeted.v0", `{}`, "", false},
		{"version not canonical", greetings(1, 2), "test.greeted.v03", `{}`, "", false},
		{"version with a sign", greetings(1, 2), "test.greeted.v+3", `{}`, "", false},
		{"field of a later writer", greetings(1, 2), "test.greeted.v3", `{"times":3,"place":"x"}`, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rec, err := c.r.Decode(stored(c.typ, c.body))
			if events.CodeOf(err) != c.code || rec.Known != c.known || (rec.Body != nil) != c.known {
				t.Errorf("code %q, known %v, body %v", events.CodeOf(err), rec.Known, rec.Body)
			}
			if err == nil && rec.Type != c.typ {
				t.Errorf("the envelope of an unknown event is lost: %+v", rec)
			}
		})
	}
}

func TestEncodeRefusesWhatCouldNotBeRead(t *testing.T) {
	t.Parallel()
	ok := samples()[events.TypeReceiptSent]
	for name, change := range map[string]func(*events.Event){
		"unknown type":  func(e *events.Event) { e.Type = "receipt.lost.v1" },
		"newer version": func(e *events.Event) { e.Type = "receipt.sent.v2" },
		"other body":    func(e *events.Event) { e.Body = &events.Removed{} },
		"body by value": func(e *events.Event) { e.Body = events.Receipt{} },
		"no body":       func(e *events.Event) { e.Body = nil },
		"no id":         func(e *events.Event) { e.ID = "" },
	} {
		e := ok
		change(&e)
		if _, err := events.Standard.Encode(e); events.CodeOf(err) != events.CodeMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := samples()[events.DefinedType(events.KindTemplate)]
	bad.Body = &events.Defined[events.Template]{Value: events.Template{Versions: []events.TemplateVersion{{Structure: json.RawMessage("{")}}}}
	if _, err := events.Standard.Encode(bad); events.CodeOf(err) != events.CodeMalformed || errors.Unwrap(err) == nil {
		t.Errorf("a body that does not encode: %v", err)
	}
	if _, err := greetings().Encode(events.Event{Envelope: events.Envelope{ID: "1", Type: "test.greeted.v2"}, Body: &greeted{}}); err == nil {
		t.Error("an older version was written")
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header string
		values []string // nil removes it
		ok     bool
	}{
		{events.HeaderID, nil, false},
		{events.HeaderID, []string{""}, false},
		{events.HeaderID, []string{}, false},
		{events.HeaderType, nil, false},
		{events.HeaderTime, []string{"yesterday"}, false},
		{events.HeaderTime, nil, true},
		{events.HeaderTime, []string{"2026-11-29T12:00:00+01:00"}, true},
		{events.HeaderDeliverAt, []string{"2026-11-29"}, false},
		{events.HeaderDeliverUntil, []string{"1795953601"}, false},
		{events.HeaderDueAt, []string{"x"}, false},
		{events.HeaderAttempt, []string{"-1"}, false},
		{events.HeaderAttempt, []string{"1.5"}, false},
		{events.HeaderAttempt, []string{"65536"}, false},
		{events.HeaderAttempt, []string{"3"}, true},
		{events.HeaderPrev, []string{"abc"}, false},
		{events.HeaderPrev, []string{"18446744073709551616"}, false},
		{events.HeaderPrev, nil, true},
		{events.HeaderQueuedSeq, []string{"0x10"}, false},
		{events.HeaderCalled, []string{"yes"}, false},
		{events.HeaderCalled, []string{"false"}, true},
		{events.HeaderSpecVersion, []string{"2.0"}, true},
		{"ce-unheardof", []string{"x"}, true},
	} {
		w, err := events.Standard.Encode(samples()[events.TypeDispatchDeferred])
		if err != nil {
			t.Fatal(err)
		}
		h := maps.Clone(w.Header)
		if c.values == nil {
			delete(h, c.header)
		} else {
			h[c.header] = c.values
		}
		w.Header = h
		rec, err := events.Standard.Decode(events.Stored{Wire: w})
		if (err == nil) != c.ok || (!c.ok && events.CodeOf(err) != events.CodeMalformed) {
			t.Errorf("%s %q: %v", c.header, c.values, err)
			continue
		}
		if !c.ok && !strings.Contains(err.Error(), c.header) {
			t.Errorf("the error does not name %s: %v", c.header, err)
		}
		if !c.ok && rec.ID != "" {
			t.Errorf("%s: something was decoded beside the error", c.header)
		}
	}
}

func TestNeedsBody(t *testing.T) {
	t.Parallel()
	// What a fold decides with is in the headers of every event but these.
	want := []string{events.TypeDispatchClosed, events.TypeDispatchDeferred, events.TypeDispatchDisproved, events.TypeDispatchRestored, events.TypeDispatchSkipped, events.TypeInstanceParked}
	var got []string
	for typ, ev := range samples() {
		if events.Standard.NeedsBody(events.Recorded{Event: ev}) {
			t.Errorf("%s is whole and still wants its body", typ)
		}
		if events.Standard.NeedsBody(events.Recorded{Event: ev, Partial: true}) {
			got = append(got, typ)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if events.Standard.NeedsBody(events.Recorded{Event: events.Event{Envelope: events.Envelope{Type: "x.y.v1"}}, Partial: true}) {
		t.Error("an unknown event wants its body")
	}
}

func TestRegistryRefusesMistakes(t *testing.T) {
	t.Parallel()
	one := events.Spec{Name: "a.b", Version: 1}
	for name, specs := range map[string][]events.Spec{"twice": {one, one}, "no version": {{Name: "a.b"}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			events.NewRegistry(specs...)
		}()
	}
}

func TestNameOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"a.b.v1": "a.b", "a.b.v12": "a.b", "a.b": "a.b", "": "", "a.v1.v2": "a.v1"} {
		if got := events.NameOf(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
