package message

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/silence"
)

// What is said of a silence is taken in: after it nothing more is due by the same rule. Otherwise a message would be said to be silent
// again and again, for ever.
func TestWhatIsSaidOfASilenceIsTakenIn(t *testing.T) {
	t.Parallel()
	forLogs(t, func(t *rapid.T, log []events.Recorded) {
		rules := silence.DefaultRules()
		now := epoch.Add(time.Duration(rapid.IntRange(1, 240).Draw(t, "hours")) * time.Hour)
		due := func(v View) silence.Step {
			return rules.Due(silence.Message{Stage: v.Stage, LeftAt: v.DispatchedAt, Raised: v.AckOverdue, Corrected: v.Corrected}, now)
		}
		state := fold(log...)
		seq := log[len(log)-1].Position.Sequence
		for step := due(state.View()); step != silence.Wait; step = due(state.View()) {
			if seq++; seq > log[len(log)-1].Position.Sequence+2 {
				t.Fatalf("step %d is due for ever: %+v", step, state.View())
			}
			said := notConfirmed(seq)
			if step == silence.Overdue {
				said = ackOverdue(seq)
			}
			state = state.Apply(said)
		}
	})
}
