package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
)

func newClaims(t *testing.T) (*world, *eventlog.Claims) {
	t.Helper()
	w := newWorld(t)
	w.create(t, topology.Deployment{Partitions: 1}, topology.BucketIdem)
	return w, eventlog.NewClaims(w.log, topology.Deployment{Partitions: 1})
}

func TestClaimIsWrittenAtTheRevisionThatWasRead(t *testing.T) {
	t.Parallel()
	_, claims := newClaims(t)
	ctx := t.Context()
	if value, at, err := claims.Get(ctx, "acme.LIVE.a"); value != nil || at != 0 || err != nil {
		t.Fatalf("an absent claim: %q at %d, %v", value, at, err)
	}
	first, err := claims.Put(ctx, "acme.LIVE.a", []byte("one"), 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if value, at, err := claims.Get(ctx, "acme.LIVE.a"); string(value) != "one" || at != first || err != nil {
		t.Fatalf("%q at %d, %v", value, at, err)
	}
	if _, err := claims.Put(ctx, "acme.LIVE.a", []byte("two"), 0, time.Hour); !errors.Is(err, eventlog.ErrMoved) {
		t.Errorf("a second creation: %v", err)
	}
	second, err := claims.Put(ctx, "acme.LIVE.a", []byte("two"), first, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := claims.Delete(ctx, "acme.LIVE.a", first); !errors.Is(err, eventlog.ErrMoved) {
		t.Errorf("removed at an old revision: %v", err)
	}
	if err := claims.Delete(ctx, "acme.LIVE.a", second); err != nil {
		t.Fatal(err)
	}
	value, at, err := claims.Get(ctx, "acme.LIVE.a")
	if value != nil || at <= second || err != nil {
		t.Fatalf("after removal: %q at %d, %v", value, at, err)
	}
	if _, err := claims.Put(ctx, "acme.LIVE.a", []byte("three"), at, time.Hour); err != nil {
		t.Errorf("after removal: %v", err)
	}
}

// A write whose acknowledgement was lost is found to be one's own.
func TestClaimWrittenTwiceIsOnesOwn(t *testing.T) {
	t.Parallel()
	_, claims := newClaims(t)
	at, err := claims.Put(t.Context(), "acme.LIVE.a", []byte("mine"), 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := claims.Put(t.Context(), "acme.LIVE.a", []byte("mine"), 0, time.Hour); err != nil || again != at {
		t.Errorf("again at %d, %v; first at %d", again, err, at)
	}
}

func TestClaimEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	_, claims := newClaims(t)
	at, err := claims.Put(t.Context(), "acme.LIVE.a", []byte("x"), 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	// Also one that was written over: an update of a key must not make it permanent.
	if _, err := claims.Put(t.Context(), "acme.LIVE.a", []byte("y"), at, time.Second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the claim ends", func() bool {
		value, _, err := claims.Get(t.Context(), "acme.LIVE.a")
		return err == nil && value == nil
	})
}

// Of many that claim one key, one has it.
func TestClaimHasOneWinner(t *testing.T) {
	t.Parallel()
	_, claims := newClaims(t)
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			_, err := claims.Put(t.Context(), "acme.LIVE.a", fmt.Appendf(nil, "%d", i), 0, time.Hour)
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, eventlog.ErrMoved):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 49 {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
}

func TestClaimsWithoutAServer(t *testing.T) {
	t.Parallel()
	w, claims := newClaims(t)
	w.node.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := claims.Get(ctx, "acme.LIVE.a"); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("read: %v", err)
	}
	if _, err := claims.Put(ctx, "acme.LIVE.a", []byte("x"), 0, time.Hour); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("write: %v", err)
	}
	if err := claims.Delete(ctx, "acme.LIVE.a", 1); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("remove: %v", err)
	}
}

// A watch tells of what is there, what comes and what goes, also across a restart of the server.
func TestClaimsAreWatched(t *testing.T) {
	t.Parallel()
	w, claims := newClaims(t)
	before, err := claims.Put(t.Context(), "_x.before", []byte("b"), 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claims.Put(t.Context(), "acme.LIVE.a", []byte("not asked for"), 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]string{}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		err := claims.Watch(ctx, "_x", func(c eventlog.Change) {
			mu.Lock()
			defer mu.Unlock()
			if c.Value == nil {
				delete(seen, c.Key)
				return
			}
			seen[c.Key] = string(c.Value)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("watch: %v", err)
		}
	})
	t.Cleanup(watching.Wait)
	t.Cleanup(cancel)
	has := func(want map[string]string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(want) == fmt.Sprint(seen)
		}
	}
	eventually(t, "what was there", has(map[string]string{"_x.before": "b"}))
	if _, err := claims.Put(t.Context(), "_x.after", []byte("a"), 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what comes", has(map[string]string{"_x.before": "b", "_x.after": "a"}))
	if err := claims.Delete(t.Context(), "_x.before", before); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what goes", has(map[string]string{"_x.after": "a"}))
	w.node.stop()
	w.node.start()
	if _, err := claims.Put(t.Context(), "_x.later", []byte("l"), 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what comes after a restart", has(map[string]string{"_x.after": "a", "_x.later": "l"}))
}
