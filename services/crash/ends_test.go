package crash

import (
	"strings"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

func TestWhatIsToldAgreesWithWhatLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		told message.View
		left int
		want string // part of the one fault; empty for none
	}{
		"read, left":               {message.View{Stage: events.StageRead}, 1, ""},
		"failed, never left":       {message.View{Stage: events.StageFailed}, 0, ""},
		"presumed, never left":     {message.View{Stage: events.StageFailed, Presumed: true}, 0, ""},
		"presumed, left":           {message.View{Stage: events.StageFailed, Presumed: true}, 1, ""},
		"waits, never left":        {message.View{Stage: events.StageUnconfirmed}, 0, ""}, // counted as unended elsewhere
		"dispatched, never left":   {message.View{Stage: events.StageDispatched}, 0, "never left"},
		"failed for certain, left": {message.View{Stage: events.StageFailed}, 1, "for certain"},
		"canceled, left":           {message.View{Stage: events.StageCanceled}, 1, "for certain"},
		"left, no receipt":         {message.View{Stage: events.StageDispatched}, 1, "is still DISPATCHED"},
		"left, one receipt":        {message.View{Stage: events.StageSent}, 1, "is still SENT"},
		"left, not known":          {message.View{Stage: events.StageUnconfirmed}, 1, "is still UNCONFIRMED"},
	} {
		var v verdict
		v.judgeWord("text", "msg", c.told, c.left)
		if c.want == "" && len(v.said) > 0 || c.want != "" && (len(v.said) != 1 || !strings.Contains(v.said[0], c.want)) {
			t.Errorf("%s: %q, want %q", name, v.said, c.want)
		}
	}
}
