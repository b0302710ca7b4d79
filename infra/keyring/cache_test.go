package keyring

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestCacheForgetsAfterItsTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, loads := newCache(2, time.Minute), 0
		from := func(context.Context, string) (*dataKey, error) {
			loads++
			return &dataKey{}, nil
		}
		for _, step := range []struct {
			wait  time.Duration
			hit   bool
			loads int
		}{{0, false, 1}, {59 * time.Second, true, 1}, {time.Second, false, 2}, {time.Second, true, 2}} {
			time.Sleep(step.wait) // the bubble's clock
			_, hit, err := c.get(t.Context(), "k", from)
			if err != nil || hit != step.hit || loads != step.loads {
				t.Errorf("after %v: hit %v, %d loads, %v", step.wait, hit, loads, err)
			}
		}
	})
}

func TestWaitersOfALoad(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		loader error // what the first load ends with
		want   error // what the waiter gets
		loads  int
	}{
		"shares the key":         {nil, nil, 1},
		"shares an error":        {broken, broken, 1},
		"outlives a cancelation": {context.Canceled, nil, 2},
		"makes a missing key":    {ErrKeyMissing, nil, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			cache, loads, release := newCache(2, time.Minute), 0, make(chan struct{})
			from := func(context.Context, string) (*dataKey, error) {
				if loads++; loads > 1 {
					return &dataKey{}, nil
				}
				<-release
				return &dataKey{}, c.loader
			}
			first, second, gone := make(chan error, 1), make(chan error, 1), make(chan error, 1)
			ask := func(ctx context.Context, result chan<- error) {
				_, _, err := cache.get(ctx, "k", from)
				result <- err
			}
			go ask(t.Context(), first)
			synctest.Wait()
			go ask(t.Context(), second)
			impatient, cancel := context.WithCancel(t.Context())
			go ask(impatient, gone)
			synctest.Wait()
			cancel()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: impatient waiter: %v", name, err)
			}
			close(release)
			if err := <-first; !errors.Is(err, c.loader) {
				t.Errorf("%s: loader: %v", name, err)
			}
			if err := <-second; !errors.Is(err, c.want) || loads != c.loads {
				t.Errorf("%s: waiter: %v after %d loads", name, err, loads)
			}
		})
	}
}

func TestPanicOfALoadFreesItsWaiters(t *testing.T) {
	t.Parallel()
	c := newCache(2, time.Minute)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _, _ = c.get(t.Context(), "k", func(context.Context, string) (*dataKey, error) { panic("load") })
	}()
	key, _, err := c.get(t.Context(), "k", func(context.Context, string) (*dataKey, error) { return &dataKey{}, nil })
	if key == nil || err != nil {
		t.Errorf("get = %v, %v", key, err)
	}
}
