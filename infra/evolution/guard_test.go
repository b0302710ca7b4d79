package evolution

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPauseIsFromTheCheckToTheEndOfItsWrite(t *testing.T) {
	t.Parallel()
	slow := func() error { time.Sleep(30 * time.Millisecond); return nil }
	for name, c := range map[string]struct {
		check func() error
		send  func(g *guard)
		want  time.Duration
	}{
		"nothing was written":     {slow, func(*guard) {}, 0},
		"the write was refused":   {func() error { return errors.New("no") }, func(g *guard) { _ = g.begin(); time.Sleep(time.Second) }, 0},
		"the answer takes longer": {slow, func(g *guard) { _ = g.begin(); g.end(true); time.Sleep(time.Hour) }, 30 * time.Millisecond},
		"the longest of two": {slow, func(g *guard) {
			_ = g.begin()
			time.Sleep(200 * time.Millisecond)
			g.end(true)
			_ = g.begin()
			g.end(true)
		}, 230 * time.Millisecond},
		"the write has not ended": {slow, func(g *guard) { _ = g.begin(); time.Sleep(3 * time.Second) }, 3030 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := &guard{check: c.check}
				c.send(g)
				if _, pause, _ := g.finish(); pause != c.want {
					t.Errorf("pause %s, want %s", pause, c.want)
				}
			})
		})
	}
}
