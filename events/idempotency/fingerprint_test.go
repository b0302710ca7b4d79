package idempotency_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"pilotstatus.dev/events/idempotency"
)

func fingerprint(t interface{ Fatal(...any) }, scope, body string) string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatal(err)
	}
	f, err := idempotency.Fingerprint([]string{scope}, members)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Case 64: what is the same request and what is another one.
func TestCase64FingerprintIsOfWhatWasParsed(t *testing.T) {
	t.Parallel()
	body := `{"text":"a/ção","n":{"b":[1,2],"a":"x"}}`
	one := fingerprint(t, "p", body)
	for _, same := range []string{
		`{ "n" : {"a":"x","b":[1, 2]}, "text":"a\/\u00e7\u00e3o" }`,
		"\n" + body + "\t",
	} {
		if fingerprint(t, "p", same) != one {
			t.Errorf("%s is another request", same)
		}
	}
	for _, other := range []string{
		`{"text":"a/ção ","n":{"b":[1,2],"a":"x"}}`,
		`{"text":"a/ção","n":{"b":[2,1],"a":"x"}}`,
		`{"text":"a/ção","n":{"b":[1,2],"a":"x"},"more":null}`,
		`{"text":"a/ção"}`,
	} {
		if fingerprint(t, "p", other) == one {
			t.Errorf("%s is the same request", other)
		}
	}
	if fingerprint(t, "q", body) == one {
		t.Error("the scope does not count")
	}
	if fingerprint(t, "p", `{"n":9007199254740993}`) == fingerprint(t, "p", `{"n":9007199254740992}`) {
		t.Error("large numbers are the same")
	}
	if _, err := idempotency.Fingerprint(nil, map[string]json.RawMessage{"a": json.RawMessage(`{`)}); err == nil {
		t.Error("no error for what is no JSON")
	}
}

// Writing a parsed body anew, in whatever order and spacing, changes nothing.
func TestFingerprintIsCanonical(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.MapOf(rapid.String(), rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Int64(), func(n int64) any { return n }),
			rapid.Map(rapid.MapOf(rapid.String(), rapid.Bool()), func(m map[string]bool) any { return m }),
		)).Draw(t, "body")
		tight, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		wide, err := json.MarshalIndent(body, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if fingerprint(t, "p", string(tight)) != fingerprint(t, "p", string(wide)) {
			t.Fatalf("%s and %s differ", tight, wide)
		}
	})
}

// Fingerprints are stored: a client's repeat after an upgrade must still be the same request.
func TestFingerprintsStayWhatTheyWere(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`: "ec22f869ef65512505b41a8772162d1f1b77f569690fdd213970c0fdddd48d66",
		`{"destinationNumber":"+5511999990000","templateId":"t","variables":{"n":"1","a":"<b>&\u2028\"\\/"}}`: "f114dc8de0e21d36478298a5f89fa85ecae9dc1ecebee3bf5d001b71e30c6555",
		`{"n":[9007199254740993,1e400,-0,1.50,0.1e-7],"x":{"b":1,"a":null,"b":2}}`:                            "fca4c132e6bd1e78ba674a95ec2df5fabd0ff18c38c0d24dc9af416acec07853",
		"{\"text\":\"\u00e7 \U0001f600 \\ud83d\\ude00 \\ud800 \x80\",\"ok\":true,\"z\":null}":                 "944dfa43d10e877d9525ac86cca9acfa172fafa08ac7140f01b3db043d37fe3c",
	} {
		if got := fingerprint(t, "tenant\nproject", body); got != want {
			t.Errorf("%q: %s, was %s", body, got, want)
		}
	}
}
