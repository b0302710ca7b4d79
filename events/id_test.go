package events_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
)

// The hash is frozen: with another one every instance of every deployment would look for its log in the wrong place.
// Computed apart with FNV-1a, 64 bits (draft-eastlake-fnv).
func TestPartitionOfIsFrozen(t *testing.T) {
	t.Parallel()
	counts := []int{1, 4, 8, 16, 100, 256}
	for id, want := range map[string][]events.Partition{
		"":                           {0, 1, 5, 5, 37, 37},
		"a":                          {0, 0, 4, 12, 96, 140},
		"shared":                     {0, 0, 4, 4, 76, 244},
		"inst-a1":                    {0, 2, 2, 2, 22, 66},
		"inst-0001":                  {0, 3, 7, 15, 19, 111},
		"01jdv6k3m4n5p6q7r8s9t0v1w2": {0, 2, 2, 2, 38, 2},
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": {0, 1, 5, 5, 85, 197},
	} {
		for i, n := range counts {
			if got := events.PartitionOf(id, n); got != want[i] {
				t.Errorf("%q of %d: %d, want %d", id, n, got, want[i])
			}
		}
	}
	if events.HookShard("endpoint-a7") != int(events.PartitionOf("endpoint-a7", events.HookShards)) {
		t.Error("an endpoint's shard is its partition of 8")
	}
	for _, n := range []int{0, -1, 257} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d partitions were taken", n)
				}
			}()
			events.PartitionOf("a", n)
		}()
	}
}

func TestMessageIDs(t *testing.T) {
	t.Parallel()
	u := uuid.MustParse("019adfb4-c200-7a4c-8f3e-5b6d7e8f90aa")
	id := events.MessageID(u, 2)
	if id != "msg_019adfb4c2007a4c8f3e5b6d7e8f9002" {
		t.Errorf("id %q", id)
	}
	sec, nsec := u.Time().UnixTime()
	if p, ms, ok := events.ParseMessageID(id); p != 2 || ms != sec*1000+nsec/1_000_000 || !ok {
		t.Errorf("%v %v %v, the id was made at %d.%09d", p, ms, ok, sec, nsec)
	}
	if c := events.CorrelationID(u); c != "cor_019adfb4c2007a4c8f3e5b6d7e8f90aa" {
		t.Errorf("correlation id %q", c)
	}
	for _, s := range []string{
		"", "msg_", "019adfb4c2007a4c8f3e5b6d7e8f9002", "cor_019adfb4c2007a4c8f3e5b6d7e8f9002", "msg_019ADFB4c2007a4c8f3e5b6d7e8f9002",
		"msg_019adfb4c2004a4c8f3e5b6d7e8f9002", "msg_019adfb4c2007a4c8f3e5b6d7e8f900", "msg_019adfb4c2007a4c8f3e5b6d7e8f900g",
		"msg_019adfb4-c200-7a4c-8f3e-5b6d7e8f9002",
	} {
		if _, _, ok := events.ParseMessageID(s); ok {
			t.Errorf("%q was taken for a message id", s)
		}
	}
}

func FuzzMessageID(f *testing.F) {
	f.Add("msg_019adfb4c2007a4c8f3e5b6d7e8f9002")
	f.Add("msg_ffffffffffff7fffffffffffffffffff")
	f.Fuzz(func(t *testing.T, s string) {
		p, ms, ok := events.ParseMessageID(s)
		if !ok {
			return
		}
		u, err := uuid.Parse(strings.TrimPrefix(s, "msg_"))
		if err != nil || events.MessageID(u, p) != s || ms < 0 {
			t.Errorf("%q: partition %v, %d ms, %v", s, p, ms, err)
		}
	})
}

func TestPositions(t *testing.T) {
	t.Parallel()
	p, err := events.ParsePosition("255:18446744073709551615")
	if err != nil || p != (events.Position{Partition: 255, Sequence: 1<<64 - 1}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, s := range []string{"", ":", "1", "1:", ":1", "256:1", "01:1", "1:01", "1:+1", "-1:1", "1:1:1", "1:18446744073709551616", " 1:1"} {
		if _, err := events.ParsePosition(s); events.CodeOf(err) != events.CodeValidation {
			t.Errorf("%q: %v", s, err)
		}
	}
	var in struct{ At events.Position }
	if err := json.Unmarshal([]byte(`{"At":"2:41"}`), &in); err != nil || in.At != (events.Position{Partition: 2, Sequence: 41}) {
		t.Errorf("%+v, %v", in, err)
	}
	if err := json.Unmarshal([]byte(`{"At":"2"}`), &in); err == nil || in.At.Sequence != 41 {
		t.Errorf("a bad position was read: %+v, %v", in, err)
	}
	if out, err := json.Marshal(in); err != nil || string(out) != `{"At":"2:41"}` {
		t.Errorf("%s, %v", out, err)
	}
}

func FuzzPosition(f *testing.F) {
	for _, s := range []string{"0:0", "255:18446744073709551615", "1:", "a:b", "1:1:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := events.ParsePosition(s); err == nil && p.String() != s {
			t.Errorf("%q is read as %v", s, p)
		}
	})
}

func TestValidToken(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"a": true, "0-z": true, strings.Repeat("a", 40): true, "-": true,
		"": false, strings.Repeat("a", 41): false, "A": false, "a.b": false, "a_b": false, "*": false, ">": false, "a b": false, "é": false,
	} {
		if events.ValidToken(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}
