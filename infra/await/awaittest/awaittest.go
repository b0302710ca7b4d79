// Package awaittest lets tests poll to a deadline instead of sleeping.
package awaittest

import (
	"context"
	"testing"
	"time"

	"pilotstatus.dev/infra/await"
)

// Eventually asks every so often until ok holds, at most for limit; then the test fails, with what was awaited and, unless it is
// nil, what say tells. It goes on while the test's own context is over, since clean-up polls too.
func Eventually(t testing.TB, limit, every time.Duration, what string, ok func() bool, say func() string) {
	t.Helper()
	if await.Until(context.WithoutCancel(t.Context()), limit, every, ok) {
		return
	}
	text := ""
	if say != nil {
		text = say()
	}
	t.Fatalf("not seen in time: %s\n%s", what, text)
}
