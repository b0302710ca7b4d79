package courtesy

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const patience = 3 * time.Millisecond

// yields gives how long a step waits.
func yields(ctx context.Context, c *Courtesy) time.Duration {
	began := time.Now()
	c.Yield(ctx)
	return time.Since(began)
}

func TestNothingWaitsWithoutACode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]*Courtesy{"idle": New(patience), "off": New(0)} {
			if took := yields(t.Context(), c); took != 0 {
				t.Errorf("%s: waited %s", name, took)
			}
		}
		off := New(0)
		off.Comes("m1")
		if took := yields(t.Context(), off); took != 0 {
			t.Errorf("off, with a code: waited %s", took)
		}
		off.Left("m1")
	})
}

// A step waits until the code has left, and for its patience at most.
func TestWorkInTheBackgroundWaitsForACode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does func(c *Courtesy) // 1 ms after the step began to wait
		want time.Duration
	}{
		"it leaves":                 {func(c *Courtesy) { c.Left("m1") }, time.Millisecond},
		"another leaves":            {func(c *Courtesy) { c.Left("m0") }, patience},
		"it is said again":          {func(c *Courtesy) { c.Comes("m1") }, patience},
		"another comes":             {func(c *Courtesy) { c.Comes("m2"); c.Left("m1") }, patience},
		"another comes, and leaves": {func(c *Courtesy) { c.Comes("m2"); c.Left("m2") }, time.Millisecond},
		"nothing is said":           {func(*Courtesy) {}, patience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				co := New(patience)
				co.Comes("m1")
				time.AfterFunc(time.Millisecond, func() { c.does(co) })
				if took := yields(t.Context(), co); took != c.want {
					t.Errorf("waited %s, not %s", took, c.want)
				}
			})
		})
	}
}

// A code of which nobody says that it has left holds up steps for four times the patience in all, and none once more after that.
func TestAForgottenCodeHoldsUpNothingForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(patience)
		c.Comes("m1")
		time.Sleep(patience / 2)
		var all time.Duration
		for range 10 {
			all += yields(t.Context(), c)
		}
		if want := longest*patience - patience/2; all != want {
			t.Errorf("steps waited %s, not %s", all, want)
		}
	})
}

func TestAnEndedContextWaitsForNoCode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(patience)
		c.Comes("m1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if took := yields(ctx, c); took != time.Millisecond {
			t.Errorf("waited %s", took)
		}
	})
}

// Codes come and leave while others wait, in any order: each is let go once, and nobody waits for longer than the patience.
func TestManyCodesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(patience)
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				for k := range 200 {
					id := fmt.Sprintf("m%d", (n+k)%5)
					c.Comes(id)
					if took := yields(t.Context(), c); took > patience {
						t.Errorf("waited %s", took)
					}
					c.Left(id)
				}
			})
		}
		all.Wait()
		for n := range 5 {
			c.Left(fmt.Sprintf("m%d", n))
		}
		if took := yields(t.Context(), c); took != 0 {
			t.Errorf("waited %s for none", took)
		}
	})
}
