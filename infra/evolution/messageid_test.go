package evolution

import (
	"regexp"
	"testing"
)

func TestTakesMessageID(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"": false, "2.3.6": false, "2.3.7": false, "1.8.2": false, "2.4.0": true, "2.4.0-rc2": true, "v2.4.1": true, "2.10.0": true, "3.0": true,
		"2": false, "2.x": false, "latest": false, "12.3.4.5": true, "24.": false, "2.40000": false,
	} {
		if got := TakesMessageID(CallSendText, version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
	if TakesMessageID(CallSendButtons, "2.4.0") {
		t.Error("buttons have no field for an id")
	}
}

func TestNewMessageID(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^3EB0[0-9A-F]{18}$`)
	one, two := NewMessageID(), NewMessageID()
	if !form.MatchString(one) || !form.MatchString(two) || one == two {
		t.Error(one, two)
	}
}
