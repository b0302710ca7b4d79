package await_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"pilotstatus.dev/infra/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// took gives how long f took in virtual time, and what it said.
func took(f func() bool) (time.Duration, bool) {
	began := time.Now()
	ok := f()
	return time.Since(began), ok
}

func TestEachWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, wait := range map[string]func(context.Context) bool{
			"Elapsed": func(ctx context.Context) bool { return await.Elapsed(ctx, time.Hour) },
			"Closed":  func(ctx context.Context) bool { return await.Closed(ctx, make(chan struct{})) },
			"Backoff": func(ctx context.Context) bool { return await.Backoff(ctx, time.Hour, time.Hour, 0) },
			"Until": func(ctx context.Context) bool {
				return await.Until(ctx, time.Hour, time.Minute, func() bool { return false })
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if d, ok := took(func() bool { return wait(ctx) }); ok || d != time.Second {
				t.Errorf("%s = %v after %v", name, ok, d)
			}
			cancel()
		}
	})
}

func TestWaitsThatAreGranted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		if d, ok := took(func() bool { return await.Elapsed(ctx, 3*time.Second) }); !ok || d != 3*time.Second {
			t.Errorf("Elapsed = %v after %v", ok, d)
		}
		c := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(c) })
		if d, ok := took(func() bool { return await.Closed(ctx, c) }); !ok || d != time.Second {
			t.Errorf("Closed = %v after %v", ok, d)
		}
		asked := 0
		if d, ok := took(func() bool {
			return await.Until(ctx, time.Minute, time.Second, func() bool { asked++; return asked == 3 })
		}); !ok || d != 2*time.Second {
			t.Errorf("Until = %v after %v", ok, d)
		}
		asked = 0
		if d, ok := took(func() bool {
			return await.Until(ctx, 1500*time.Millisecond, time.Second, func() bool { asked++; return asked == 3 })
		}); !ok || d != 1500*time.Millisecond {
			t.Errorf("Until = %v after %v: want one more look at the end", ok, d)
		}
	})
}

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for n, bound := range map[int]time.Duration{0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 3: 800 * time.Millisecond, 4: time.Second, 1 << 30: time.Second} {
			d, ok := took(func() bool { return await.Backoff(t.Context(), 100*time.Millisecond, time.Second, n) })
			if !ok || d < bound/2 || d > bound {
				t.Errorf("Backoff(%d) = %v after %v, want %v to %v", n, ok, d, bound/2, bound)
			}
		}
	})
}
