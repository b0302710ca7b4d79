package evolution

import (
	"net/http"
	"testing"
)

// The trace context of a message goes with its send, and with nothing else.
func TestSendTellsTheTrace(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	seen := make(chan []string, 1)
	s := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Values("Traceparent")
		answer(http.StatusCreated, okBody)(w, r)
	})
	c := newClient(t, Config{BaseURL: s.URL})
	for _, given := range []string{trace, ""} {
		if r := c.SendText(t.Context(), Text{Instance: "i", Number: "5511999990000", Text: "x", TraceParent: given, Check: allow}); r.Outcome != Accepted {
			t.Fatalf("%+v", r)
		}
		if got := <-seen; len(got) > 1 || len(got) == 1 && got[0] != given || len(got) == 0 && given != "" {
			t.Errorf("text: %q, want %q", got, given)
		}
	}
	c.SendButtons(t.Context(), Buttons{
		Instance: "i", Number: "5511999990000", Title: "x", Buttons: []Button{{Type: "reply", DisplayText: "y", ID: "1"}}, TraceParent: trace, Check: allow,
	})
	if got := <-seen; len(got) != 1 || got[0] != trace {
		t.Errorf("buttons: %q", got)
	}
}
