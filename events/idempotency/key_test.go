package idempotency_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/idempotency"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", idempotency.MaxKey)
	for _, c := range []struct {
		values []string
		key    string
		rule   idempotency.Rule
	}{
		{nil, "", ""},
		{[]string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", ""},
		{[]string{`8e03978e-40d5-43dd-bc93-6894a57f9324`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", ""},
		{[]string{"\t order:17/a+b= "}, "order:17/a+b=", ""},
		{[]string{`"with, comma; and \"quotes\" and \\"`}, `with, comma; and "quotes" and \`, ""},
		{[]string{long}, long, ""},
		{[]string{`"` + long + `"`}, long, ""},
		{[]string{long + "k"}, "", idempotency.RuleTooLong},
		{[]string{`"` + long + `k"`}, "", idempotency.RuleTooLong},
		{[]string{"a", "a"}, "", idempotency.RuleOne},
		{[]string{"a, b"}, "", idempotency.RuleOne},
		{[]string{`"a", "b"`}, "", idempotency.RuleOne},
		{[]string{""}, "", idempotency.RuleRequired},
		{[]string{`""`}, "", idempotency.RuleRequired},
		{[]string{`"a`}, "", idempotency.RuleCharacters},
		{[]string{`"a\`}, "", idempotency.RuleCharacters},
		{[]string{`"a\n"`}, "", idempotency.RuleCharacters},
		{[]string{`"a";p=1`}, "", idempotency.RuleCharacters},
		{[]string{`a"b`}, "", idempotency.RuleCharacters},
		{[]string{"a b"}, "", idempotency.RuleCharacters},
		{[]string{"ção"}, "", idempotency.RuleCharacters},
		{[]string{`"ção"`}, "", idempotency.RuleCharacters},
		{[]string{"a\x00"}, "", idempotency.RuleCharacters},
	} {
		if key, rule := idempotency.ParseKey(c.values); key != c.key || rule != c.rule {
			t.Errorf("%q: key %q, rule %q", c.values, key, rule)
		}
	}
}

// The quoted form says what the bare one does.
func TestQuotedAndBareAreOneKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[!#-+\--:<-\[\]-~]{1,255}`).Draw(t, "key")
		bare, rule := idempotency.ParseKey([]string{key})
		quoted, rule2 := idempotency.ParseKey([]string{`"` + key + `"`})
		if bare != key || quoted != key || rule != "" || rule2 != "" {
			t.Fatalf("%q: bare %q %s, quoted %q %s", key, bare, rule, quoted, rule2)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{`"a"`, "a", `"\"`, "a,b", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, rule := idempotency.ParseKey([]string{value})
		if (key == "") != (rule != "") || len(key) > idempotency.MaxKey || strings.Trim(key, " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") != "" {
			t.Errorf("%q: key %q, rule %q", value, key, rule)
		}
	})
}

// Case 64: each part of the scope makes it another request.
func TestCase64ScopeOfAKey(t *testing.T) {
	t.Parallel()
	one := idempotency.Request{Tenant: "acme", Environment: events.Live, Method: "POST", Path: "/v1/messages/send", Key: "k"}
	names := map[string]idempotency.Request{one.Name(): one}
	for _, change := range []func(*idempotency.Request){
		func(r *idempotency.Request) { r.Tenant = "rival" },
		func(r *idempotency.Request) { r.Environment = events.Test },
		func(r *idempotency.Request) { r.Method = "PUT" },
		func(r *idempotency.Request) { r.Path = "/v1/messages/batch" },
		func(r *idempotency.Request) { r.Key = "K" },
		func(r *idempotency.Request) { r.Item = "0" },
		func(r *idempotency.Request) { r.Key, r.Item = "", "k" },
	} {
		other := one
		change(&other)
		if same, taken := names[other.Name()]; taken {
			t.Errorf("%+v and %+v are one request", same, other)
		}
		names[other.Name()] = other
	}
	if !strings.HasPrefix(one.Name(), "acme.LIVE.") || len(one.Name()) != len("acme.LIVE.")+64 {
		t.Errorf("name %s", one.Name())
	}
}
