package recipient

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// digitString draws any digits, often near the Brazilian shapes.
func digitString() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`55[1-9][0-9]9?[2-9][0-9]{7}`),
		rapid.StringMatching(`55[0-9]{8,12}`),
		rapid.StringMatching(`[0-9]{0,17}`),
	)
}

func TestVariantsAreOnePerson(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		digits := digitString().Draw(t, "digits")
		variants := Variants(digits)
		if variants[0] != digits || len(variants) > 2 {
			t.Fatalf("variants %q", variants)
		}
		if !slices.Contains(variants, Canonical(digits)) {
			t.Fatalf("the canonical form %q is no variant of %q", Canonical(digits), variants)
		}
		for _, v := range variants {
			if Canonical(v) != Canonical(digits) || Canonical(Canonical(v)) != Canonical(v) {
				t.Fatalf("canonical forms of %q differ", variants)
			}
			back := Variants(v)
			if len(back) != len(variants) || !slices.Contains(back, digits) {
				t.Fatalf("variants of %q: %q, of %q: %q", digits, variants, v, back)
			}
			if want := v != ""; JIDMatches(v+"@s.whatsapp.net", digits) != want {
				t.Fatalf("the jid of %q does not match %q", v, digits)
			}
		}
	})
}

func TestOnlyVariantsMatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := digitString().Draw(t, "a"), digitString().Draw(t, "b")
		same := a != "" && b != "" && (Canonical(a) == Canonical(b) || withoutPrefix(a) == withoutPrefix(b))
		if JIDMatches(a+":3@s.whatsapp.net", b) != same {
			t.Fatalf("JIDMatches(%q, %q) is not %v", a, b, same)
		}
	})
}

func TestBothSpellingsOfAMobileAreOneRecipient(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		area := rapid.SampledFrom([]string{"11", "21", "31", "44", "51", "55", "63", "79", "81", "99"}).Draw(t, "area")
		line := rapid.StringMatching(`[6-9][0-9]{7}`).Draw(t, "line")
		long, err := Parse("+55" + area + "9" + line)
		if err != nil {
			t.Fatal(err)
		}
		short, err := Parse("55" + area + line)
		if err != nil {
			t.Fatal(err)
		}
		if long.Canonical() != short.Canonical() || long.Canonical() != long.Digits() {
			t.Fatalf("canonical forms %q and %q", long.Canonical(), short.Canonical())
		}
		if short.Digits() == long.Digits() {
			t.Fatal("the given form was rewritten")
		}
		for _, national := range []string{area + "9" + line, area + line} {
			if _, err := Parse(national); RuleOf(err) != RuleAmbiguous {
				t.Fatalf("%q without country code: %v", national, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "+", "+5511988887777", "551188887777", "81999998888", "+81999998888", "+1", "1@g.us",
		"1@newsletter", "@", "+55 11", "\x00", "+５５11988887777", "+999999999999999", "00000000",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			if RuleOf(err) == "" || !r.IsZero() {
				t.Fatalf("Parse(%q) = %v, %v", s, r, err)
			}
			return
		}
		if r.Given() != s || r.Digits() != strings.TrimPrefix(s, "+") || r.E164() != "+"+r.Digits() {
			t.Fatalf("Parse(%q) rewrote the number: %q %q", s, r.Given(), r.E164())
		}
		if len(r.Digits()) < MinDigits || len(r.Digits()) > MaxDigits || !onlyDigits(r.Digits()) {
			t.Fatalf("Parse(%q) accepted a wrong shape", s)
		}
		if Canonical(r.Canonical()) != r.Canonical() || !slices.Contains(Variants(r.Digits()), r.Canonical()) {
			t.Fatalf("Parse(%q): canonical %q", s, r.Canonical())
		}
		again, err := Parse(r.E164())
		if err != nil || again.Canonical() != r.Canonical() {
			t.Fatalf("Parse(%q) does not survive its own E.164 form: %v", s, err)
		}
		if strings.Contains(r.Masked(), r.Digits()) || !strings.HasPrefix(r.Masked(), "+") {
			t.Fatalf("Masked of %q shows it", s)
		}
	})
}

func FuzzJIDMatches(f *testing.F) {
	f.Add("5511988887777@s.whatsapp.net", "551188887777")
	f.Add("5511988887777:1@s.whatsapp.net", "")
	f.Add("1@lid", "1")
	f.Add("@@:", ":")
	f.Fuzz(func(t *testing.T, jid, digits string) {
		if JIDMatches(jid, digits) && (!strings.HasSuffix(jid, "@s.whatsapp.net") || !onlyDigits(digits)) {
			t.Fatalf("%q matches %q", jid, digits)
		}
		_ = KindOf(jid)
	})
}
