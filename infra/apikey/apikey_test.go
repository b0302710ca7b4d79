package apikey_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/apikey"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var shape = regexp.MustCompile(`^ps_(live|test|oper)_[a-z0-9]{8}_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$`)

func TestGeneratedKeysParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		environment := rapid.SampledFrom([]events.Environment{events.Live, events.Test}).Draw(t, "environment")
		random := rapid.SliceOfN(rapid.Byte(), 40, 40).Draw(t, "random")
		key, err := apikey.Generate(environment, bytes.NewReader(random))
		if err != nil {
			t.Fatal(err)
		}
		if !shape.MatchString(key.Reveal()) {
			t.Fatalf("shape of %q", key.Reveal())
		}
		if !events.ValidToken(key.PublicID()) {
			t.Fatalf("public id %q is no token", key.PublicID())
		}
		parsed, err := apikey.Parse(key.Reveal())
		if err != nil || parsed != key || parsed.Environment() != environment {
			t.Fatalf("Parse = %v, %v", parsed, err)
		}
		// Any single changed character is noticed.
		at := rapid.IntRange(0, len(key.Reveal())-1).Draw(t, "at")
		with := rapid.SampledFrom([]byte("0aZ_")).Draw(t, "with")
		changed := []byte(key.Reveal())
		if changed[at] == with {
			return
		}
		changed[at] = with
		if _, err := apikey.Parse(string(changed)); !errors.Is(err, apikey.ErrMalformed) {
			t.Fatalf("%s accepted: %v", changed, err)
		}
	})
}

func TestKnownKey(t *testing.T) {
	t.Parallel()
	key, err := apikey.Generate(events.Live, bytes.NewReader(bytes.Repeat([]byte{0xff}, 40)))
	if err != nil {
		t.Fatal(err)
	}
	// 2^64-1 in base 36, lowest digits first; 2^256-1 in base 62; CRC-32 of both with the prefix.
	const want = "ps_live_fsgs4621_" + "yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1" + "11BXJb"
	if got := key.Reveal(); got != want {
		t.Errorf("key = %s", got)
	}
}

func TestKeysDiffer(t *testing.T) {
	t.Parallel()
	a, errA := apikey.Generate(events.Test, rand.Reader)
	b, errB := apikey.Generate(events.Test, rand.Reader)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if a == b || a.PublicID() == b.PublicID() || apikey.Equal(a.SHA256(), b.SHA256()) {
		t.Error("two keys are alike")
	}
	if !apikey.Equal(a.SHA256(), apikey.Digest(a.Reveal())) {
		t.Error("digest of a key and of its text differ")
	}
}

func TestKeyDoesNotPrintItself(t *testing.T) {
	t.Parallel()
	key, err := apikey.Generate(events.Live, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := key.Reveal()[len("ps_live_")+9:]
	body, err := json.Marshal(map[string]any{"key": key})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s %q", key, key, key, key, key), string(body)} {
		if strings.Contains(text, secret) || !strings.Contains(text, key.PublicID()) {
			t.Errorf("printed %s", text)
		}
	}
	if zero := (apikey.Key{}); zero.String() != "" || zero.PublicID() != "" {
		t.Error("the zero key prints something")
	}
}

func TestOperatorKey(t *testing.T) {
	t.Parallel()
	key, err := apikey.GenerateOperator(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := apikey.Parse(key.Reveal())
	if err != nil || parsed != key || !parsed.Operator() || parsed.Environment() != "" || !shape.MatchString(key.Reveal()) {
		t.Errorf("%v, %v", parsed, err)
	}
	if customers, err := apikey.Generate(events.Live, rand.Reader); err != nil || customers.Operator() {
		t.Errorf("a customer's key is an operator's: %v", err)
	}
	if _, err := apikey.GenerateOperator(bytes.NewReader(nil)); err == nil {
		t.Error("no random bytes were enough")
	}
}

func TestGenerateRefuses(t *testing.T) {
	t.Parallel()
	if _, err := apikey.Generate("STAGING", rand.Reader); err == nil {
		t.Error("unknown environment accepted")
	}
	for _, n := range []int{0, 7, 8, 39} {
		if _, err := apikey.Generate(events.Live, bytes.NewReader(make([]byte, n))); err == nil {
			t.Errorf("%d random bytes were enough", n)
		}
	}
}

func FuzzParse(f *testing.F) {
	key, err := apikey.Generate(events.Live, bytes.NewReader(make([]byte, 40)))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "ps_", key.Reveal(), strings.ToUpper(key.Reveal()), key.Reveal() + "0", "ps_live_abcdefgh_", strings.Repeat("é", 33)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		key, err := apikey.Parse(raw)
		if err != nil {
			if key != (apikey.Key{}) || (len(raw) > 20 && strings.Contains(err.Error(), raw)) {
				t.Fatalf("Parse = %v, %v", key, err)
			}
			return
		}
		if key.Reveal() != raw || !shape.MatchString(raw) {
			t.Fatalf("accepted %q", raw)
		}
	})
}

func TestWebhookSecret(t *testing.T) {
	t.Parallel()
	for size := apikey.MinWebhookSecret; size <= apikey.MaxWebhookSecret; size++ {
		secret, err := apikey.WebhookSecret(rand.Reader, size)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := apikey.ParseWebhookSecret(secret)
		if err != nil || len(raw) != size || !strings.HasPrefix(secret, "whsec_") {
			t.Errorf("%d bytes: %d, %v", size, len(raw), err)
		}
	}
	for _, size := range []int{-1, 0, 23, 65} {
		if _, err := apikey.WebhookSecret(rand.Reader, size); err == nil {
			t.Errorf("%d bytes accepted", size)
		}
	}
	if _, err := apikey.WebhookSecret(bytes.NewReader(nil), 24); err == nil {
		t.Error("no random bytes were enough")
	}
	for _, bad := range []string{"", "whsec_", "whsec_AAAA", "whsec_!", "sec_" + strings.Repeat("A", 32), "whsec_" + strings.Repeat("A", 88)} {
		if _, err := apikey.ParseWebhookSecret(bad); !errors.Is(err, apikey.ErrMalformedSecret) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
