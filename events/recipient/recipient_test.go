package recipient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseKeepsThreeForms(t *testing.T) {
	t.Parallel()
	type forms struct{ Given, Digits, Canonical, E164, Masked string }
	for _, want := range []forms{
		{"+5511988887777", "5511988887777", "5511988887777", "+5511988887777", "+55******7777"},
		{"5511988887777", "5511988887777", "5511988887777", "+5511988887777", "+55******7777"},
		{"+551188887777", "551188887777", "5511988887777", "+551188887777", "+55******7777"},
		{"551133334444", "551133334444", "551133334444", "+551133334444", "+55******4444"},
		{"+12125550100", "12125550100", "12125550100", "+12125550100", "+1******0100"},
		{"+81999998888", "81999998888", "81999998888", "+81999998888", "+81******8888"},
		{"+390612345678", "390612345678", "390612345678", "+390612345678", "+39******5678"},
		{"351912345678", "351912345678", "351912345678", "+351912345678", "+351******5678"},
		{"+50688887777", "50688887777", "50688887777", "+50688887777", "+506******7777"},
		{"+2902345", "", "", "", ""},
		{"+29022345", "29022345", "29022345", "+29022345", "+290******45"},
	} {
		r, err := Parse(want.Given)
		if want.Digits == "" {
			if err == nil {
				t.Errorf("Parse(%q) succeeded", want.Given)
			}
			continue
		}
		if err != nil {
			t.Errorf("Parse(%q): %v", want.Given, err)
			continue
		}
		got := forms{r.Given(), r.Digits(), r.Canonical(), r.E164(), r.Masked()}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", want.Given, diff)
		}
	}
}

func TestParseNamesTheBrokenRule(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]Rule{
		"":                              RuleRequired,
		"+":                             RuleCharacters,
		"++5511988887777":               RuleCharacters,
		" +5511988887777":               RuleCharacters,
		"+55 11 98888-7777":             RuleCharacters,
		"(55)11988887777":               RuleCharacters,
		"5511988887777\n":               RuleCharacters,
		"+551198888777\u096d":           RuleCharacters,
		"\uff0b5511988887777":           RuleCharacters,
		"BR.1349123456":                 RuleCharacters,
		"+5511988887777\x00":            RuleCharacters,
		"+1234567":                      RuleLength,
		"+1234567890123456":             RuleLength,
		strings.Repeat("9", 1<<16):      RuleLength,
		"0011988887777":                 RuleCountryCode,
		"+0511988887777":                RuleCountryCode,
		"120363012345678901@g.us":       RuleKind,
		"120363012345678901@newsletter": RuleKind,
		"5511988887777@s.whatsapp.net":  RuleKind,
		"123456789012345@lid":           RuleKind,
		// The number of case 22: valid in Japan by its digits alone.
		"81999998888": RuleAmbiguous,
		"11988887777": RuleAmbiguous,
		"51987654321": RuleAmbiguous, // also a mobile of Peru
		"4533334444":  RuleAmbiguous, // also a line in Denmark
		"55999998888": RuleAmbiguous, // area code 55
		// '+' put before a number without country code.
		"+11988887777":   RuleNumber,
		"+55999998888":   RuleNumber,
		"+5520988887777": RuleNumber, // no area code 20
		"+5511188887777": RuleNumber,
		// A trunk prefix after the country code.
		"+55011988887777": RuleNumber,
		"+4407400123456":  RuleNumber,
		"+21012345678":    RuleNumber, // no such country
	} {
		r, err := Parse(given)
		if got := RuleOf(err); got != want {
			t.Errorf("Parse(%.40q) broke %q, want %q", given, got, want)
		}
		if !errors.Is(err, &Error{Rule: want}) || errors.Is(err, &Error{Rule: "another"}) {
			t.Errorf("Parse(%.40q): errors.Is does not match by rule", given)
		}
		if !r.IsZero() {
			t.Errorf("Parse(%.40q) gave a recipient with its error", given)
		}
		if digits := strings.Trim(given, "+"); len(digits) > 4 && err != nil && strings.Contains(err.Error(), digits) {
			t.Errorf("Parse(%.40q): the error repeats the value", given)
		}
	}
}

func TestEveryRuleHasItsSentence(t *testing.T) {
	t.Parallel()
	seen := map[string]Rule{}
	for _, rule := range []Rule{RuleRequired, RuleKind, RuleCharacters, RuleLength, RuleCountryCode, RuleAmbiguous, RuleNumber, "unheard-of"} {
		text := (&Error{Rule: rule}).Error()
		if other, dup := seen[text]; dup || text == "" {
			t.Errorf("rules %q and %q say %q", rule, other, text)
		}
		seen[text] = rule
	}
	if got := RuleOf(fmt.Errorf("read destination: %w", &Error{Rule: RuleLength})); got != RuleLength {
		t.Errorf("RuleOf(wrapped) = %q", got)
	}
	if got := RuleOf(errors.New("other")); got != "" {
		t.Errorf("RuleOf(other) = %q", got)
	}
}

func TestNumberNeverReachesALog(t *testing.T) {
	t.Parallel()
	r, err := Parse("+5511988887777")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("sent", "to", r)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&out, verb+" ", r)
		fmt.Fprintf(&out, verb+" ", struct{ To Recipient }{r})
	}
	body, err := json.Marshal(r) //nolint:staticcheck // that it says nothing is what is tested
	if err != nil {
		t.Fatal(err)
	}
	out.Write(body)
	if s := out.String(); strings.Contains(s, "98888") || !strings.Contains(s, r.String()) {
		t.Errorf("logged %s", s)
	}
}

func TestZeroRecipientIsEmptyEverywhere(t *testing.T) {
	t.Parallel()
	var r Recipient
	if s := r.Given() + r.Digits() + r.Canonical() + r.E164() + r.Masked() + r.String(); s != "" || !r.IsZero() {
		t.Errorf("zero recipient holds %q", s)
	}
}

func TestVariants(t *testing.T) {
	t.Parallel()
	for given, want := range map[string][]string{
		"5511988887777":  {"5511988887777", "551188887777"},
		"551188887777":   {"551188887777", "5511988887777"},
		"5551960001111":  {"5551960001111", "555160001111"},
		"5511941234567":  {"5511941234567"}, // without the 9: somebody's landline
		"551141234567":   {"551141234567"},
		"5520988887777":  {"5520988887777"}, // no area code 20
		"5511888887777":  {"5511888887777"},
		"5215512345678":  {"5215512345678"},
		"12125550100":    {"12125550100"},
		"55119888877777": {"55119888877777"},
		"":               {""},
		"55119888877x7":  {"55119888877x7"},
	} {
		if diff := cmp.Diff(want, Variants(given)); diff != "" {
			t.Errorf("Variants(%q) (-want +got):\n%s", given, diff)
		}
	}
}

func TestJIDMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jid, digits string
		want        bool
	}{
		{"5511988887777@s.whatsapp.net", "5511988887777", true},
		{"551188887777@s.whatsapp.net", "5511988887777", true},
		{"5511988887777@s.whatsapp.net", "551188887777", true},
		{"551188887777:12@s.whatsapp.net", "5511988887777", true},
		{"5511988887777:@s.whatsapp.net", "5511988887777", false},
		{"5511988887777:x@s.whatsapp.net", "5511988887777", false},
		// The gateway's cache mixes area codes whose digits overlap.
		{"5519988887777@s.whatsapp.net", "5551988887777", false},
		{"551988887777@s.whatsapp.net", "5551988887777", false},
		{"551141234567@s.whatsapp.net", "5511941234567", false},
		{"5511988887777@lid", "5511988887777", false},
		{"5511988887777@g.us", "5511988887777", false},
		{"5511988887777@broadcast", "5511988887777", false},
		{"5511988887777@s.whatsapp.net@s.whatsapp.net", "5511988887777", false},
		{"5511988887777@S.WHATSAPP.NET", "5511988887777", false},
		{"5511988887777", "5511988887777", false},
		{"@s.whatsapp.net", "", false},
		{"", "", false},
		{"12125550100@s.whatsapp.net", "12125550100", true},
		// Mexico and Argentina: the gateway takes the third digit out, WhatsApp may know the account with it.
		{"525512345678@s.whatsapp.net", "5215512345678", true},
		{"5215512345678@s.whatsapp.net", "525512345678", true},
		{"541112345678@s.whatsapp.net", "5491112345678", true},
		{"5491112345678@s.whatsapp.net", "541112345678", true},
		{"525512345678@s.whatsapp.net", "5225512345678", false},
		{"541112345678@s.whatsapp.net", "5411112345678", false},
		{"525512345679@s.whatsapp.net", "5215512345678", false},
	} {
		if got := JIDMatches(c.jid, c.digits); got != c.want {
			t.Errorf("JIDMatches(%q, %q) = %v", c.jid, c.digits, got)
		}
		_, number := JIDDigits(c.jid)
		if got := JIDForeign(c.jid, c.digits); got != (number && !c.want) {
			t.Errorf("JIDForeign(%q, %q) = %v", c.jid, c.digits, got)
		}
	}
}

func TestHoldsAnother(t *testing.T) {
	t.Parallel()
	for digits, want := range map[string]bool{
		"5551988887777": true, // ends in 551988887777, of area 19
		"555188887777":  true,
		"5554988887777": true, // of area 49
		"5551931234567": true, // a landline of area 19
		"5524992123456": true, // +52 499 212 3456, Mexico
		"5519988887777": false,
		"5511988887777": false,
		"5553988887777": false, // no area 39
		"5215512345678": false,
		"12125550100":   false,
		"":              false,
	} {
		if got := HoldsAnother(digits); got != want {
			t.Errorf("%s: %v", digits, got)
		}
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Kind{
		"+5511988887777":                KindNumber,
		"":                              KindNumber,
		"120363012345678901@g.us":       KindGroup,
		"5511988887777-1600000000@g.us": KindGroup,
		"120363012345678901@newsletter": KindNewsletter,
		"123@lid":                       KindOther,
		"status@broadcast":              KindOther,
		"5511988887777@s.whatsapp.net":  KindOther,
		"@":                             KindOther,
	} {
		if got := KindOf(s); got != want {
			t.Errorf("KindOf(%q) = %q, want %q", s, got, want)
		}
	}
}
