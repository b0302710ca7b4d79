package events_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

var update = flag.Bool("update", false, "write the golden files of new events; a released one must not change")

// golden is an event as it stands in the log, readable.
type golden struct {
	Subject string            `json:"subject"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

func goldenPath(wireType string) string { return filepath.Join("testdata", "golden", wireType+".json") }

func readGolden(t *testing.T, path string) (golden, events.Stored) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read golden: %v", err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatalf("decode %s: %v", path, err)
	}
	h := map[string][]string{}
	for k, v := range g.Headers {
		h[k] = []string{v}
	}
	var body bytes.Buffer // as it was written: the file is indented
	if err := json.Compact(&body, g.Body); err != nil {
		t.Fatalf("body of %s: %v", path, err)
	}
	return g, events.Stored{
		Wire:     events.Wire{Subject: g.Subject, Header: h, Data: body.Bytes()},
		Position: events.Position{Partition: 2, Sequence: 99}, Time: at(2000),
	}
}

func TestGoldenOfEverySpec(t *testing.T) {
	t.Parallel()
	all := samples()
	for _, s := range events.Standard.Specs() {
		ev, ok := all[s.WireType()]
		if !ok {
			t.Errorf("no sample of %s", s.WireType())
			continue
		}
		t.Run(s.WireType(), func(t *testing.T) {
			t.Parallel()
			w, err := events.Standard.Encode(ev)
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			g := golden{Subject: w.Subject, Headers: map[string]string{}, Body: w.Data}
			for k, v := range w.Header {
				if len(v) != 1 {
					t.Fatalf("header %s has %d values", k, len(v))
				}
				g.Headers[k] = v[0]
			}
			text, err := json.MarshalIndent(g, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, '\n')
			if *update {
				if err := os.WriteFile(goldenPath(s.WireType()), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(goldenPath(s.WireType()))
			if err != nil {
				t.Fatalf("every released version has a golden file (go test -run Golden . -update): %v", err)
			}
			if diff := cmp.Diff(string(want), string(text)); diff != "" {
				t.Errorf("the wire changed; a change needs a new version and an upcaster (-golden +got):\n%s", diff)
			}
			_, stored := readGolden(t, goldenPath(s.WireType()))
			rec, err := events.Standard.Decode(stored)
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			ev.DedupID = "" // it is in the deduplication header only
			wantRec := events.Recorded{Event: ev, Position: stored.Position, Stored: at(2000), Known: true}
			if diff := cmp.Diff(wantRec, rec); diff != "" {
				t.Errorf("decoded differs (-sample +got):\n%s", diff)
			}
		})
	}
	for typ := range all {
		if s, _, ok := events.Standard.Lookup(typ); !ok || s.WireType() != typ {
			t.Errorf("sample of %s, which is not registered in this version", typ)
		}
	}
}

// unset lists the fields of a body, by their path, that its JSON lacks: what is left out of a golden file, nobody sees on the wire.
func unset(of reflect.Type, raw json.RawMessage, at string) (out []string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of.Implements(reflect.TypeFor[json.Marshaler]()), of.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
	case of.Kind() == reflect.Slice:
		var items []json.RawMessage
		if of.Elem().Kind() != reflect.Struct || json.Unmarshal(raw, &items) != nil {
			return nil
		}
		for _, item := range items {
			out = append(out, unset(of.Elem(), item, at)...)
		}
	case of.Kind() == reflect.Struct:
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return []string{at + ": no object"}
		}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if member, ok := members[name]; ok {
				out = append(out, unset(of.Field(i).Type, member, at+"."+name)...)
				continue
			}
			out = append(out, at+"."+name)
		}
	default:
	}
	return out
}

// Every golden file shows every field that its body has, so that what is compared with it (docs/events.md) sees them all.
func TestGoldenShowsEveryField(t *testing.T) {
	t.Parallel()
	want := []string{ // only a failure has a code
		events.TypeReceiptDelivered + ".code", events.TypeReceiptRead + ".code", events.TypeReceiptSent + ".code",
	}
	var got []string
	for _, s := range events.Standard.Specs() {
		_, stored := readGolden(t, goldenPath(s.WireType()))
		got = append(got, unset(reflect.TypeOf(s.New()), stored.Data, s.WireType())...)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields that no golden file shows; set them in samples_test.go (-allowed +found):\n%s", diff)
	}
}

// Whatever was released decodes for ever, in its own version and as the newest body.
func TestGoldenDecodesForEver(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(goldenPath("*"))
	if err != nil || len(paths) < len(events.Standard.Specs()) {
		t.Fatalf("%d golden files, %v", len(paths), err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		g, stored := readGolden(t, path)
		wireType := strings.TrimSuffix(filepath.Base(path), ".json")
		seen[wireType] = true
		if g.Headers[events.HeaderType] != wireType {
			t.Errorf("%s holds a %s", path, g.Headers[events.HeaderType])
		}
		rec, err := events.Standard.Decode(stored)
		if err != nil || !rec.Known || rec.Body == nil {
			t.Errorf("%s: known %v, body %T, %v", path, rec.Known, rec.Body, err)
		}
		stored.HeadersOnly, stored.Data = true, nil
		part, err := events.Standard.Decode(stored)
		if err != nil || !part.Partial || part.Body != nil {
			t.Errorf("%s by headers: %+v, %v", path, part, err)
		}
		if diff := cmp.Diff(rec.Envelope, part.Envelope); diff != "" {
			t.Errorf("%s: the envelope depends on the body:\n%s", path, diff)
		}
	}
	for _, s := range events.Standard.Specs() {
		for v := 1; v <= s.Version; v++ {
			if name := (events.Spec{Name: s.Name, Version: v}).WireType(); !seen[name] {
				t.Errorf("no golden file of released version %s", name)
			}
		}
	}
}

// JetStream would drop the second of two fenced events of one message, or the retry of a start, if they carried an id it knows.
func TestOnlyEventsOutsideTheFencedGroupCarryTheDeduplicationHeader(t *testing.T) {
	t.Parallel()
	fenced := 0
	for typ, ev := range samples() {
		w, err := events.Standard.Encode(ev)
		if err != nil {
			t.Fatalf("encode %s: %v", typ, err)
		}
		s, _, _ := events.Standard.Lookup(typ)
		addr, err := events.ParseEventSubject(w.Subject)
		inGroup := err == nil && addr.Group == events.GroupDispatch
		if s.Fenced != inGroup {
			t.Errorf("%s: fenced %v, in the fenced group %v", typ, s.Fenced, inGroup)
		}
		id, prev := w.Header[events.HeaderMsgID], w.Header[events.HeaderPrev]
		if s.Fenced {
			fenced++
			if id != nil || prev == nil {
				t.Errorf("%s: %s %q, %s %q", typ, events.HeaderMsgID, id, events.HeaderPrev, prev)
			}
			continue
		}
		want := ev.ID
		if ev.DedupID != "" {
			want = ev.DedupID
		}
		if len(id) != 1 || id[0] != want || prev != nil {
			t.Errorf("%s: %s %q, %s %q", typ, events.HeaderMsgID, id, events.HeaderPrev, prev)
		}
	}
	if fenced != 11 {
		t.Errorf("%d fenced events, the group has 11", fenced)
	}
}

func TestTimesTravelInMilliseconds(t *testing.T) {
	t.Parallel()
	ev := samples()[events.TypeReceiptRead]
	ev.Time = at(1500).Add(123456 * time.Nanosecond).In(time.FixedZone("x", -3*3600))
	w, err := events.Standard.Encode(ev)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Header[events.HeaderTime]; len(got) != 1 || got[0] != "2026-11-29T12:00:01.500Z" {
		t.Errorf("time %q", got)
	}
}

func TestTheFirstFencedEventNamesZero(t *testing.T) {
	t.Parallel()
	ev := samples()[events.TypeDispatchStarted]
	ev.Prev = 0
	w, err := events.Standard.Encode(ev)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0"}, w.Header[events.HeaderPrev]); diff != "" {
		t.Error(diff)
	}
}
