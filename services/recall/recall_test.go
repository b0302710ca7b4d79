package recall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"pilotstatus.dev/events/idempotency"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/streamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	awaittest.Eventually(t, 20*time.Second, 5*time.Millisecond, what, ok, nil)
}

// cut is a bucket that can be out of reach.
type cut struct {
	*eventlog.Claims
	down atomic.Bool
}

var errCut = errors.New("out of reach")

func (c *cut) Put(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if c.down.Load() {
		return 0, errCut
	}
	return c.Claims.Put(ctx, key, value, revision, ttl)
}

func (c *cut) Delete(ctx context.Context, key string, revision uint64) error {
	if c.down.Load() {
		return errCut
	}
	return c.Claims.Delete(ctx, key, revision)
}

// run starts a memory over a bucket until the test ends.
func run(t *testing.T, bucket Bucket, kept time.Duration) *Memory {
	t.Helper()
	m := New(bucket, kept, time.Now, zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	return m
}

func bucket(t *testing.T) *cut {
	t.Helper()
	l := streamtest.New(t, 1, eventlog.Options{})
	return &cut{Claims: eventlog.NewClaims(l.Events, l.Deployment)}
}

func claim(fingerprint string, n int) idempotency.Claim {
	return idempotency.Claim{
		Fingerprint: fingerprint, MessageID: fmt.Sprintf("msg_%d", n), QueuedAt: time.Now().UTC().Add(time.Duration(n) * time.Second),
		Event: &idempotency.Event{Subject: "evt.0.own.queued.otp.acme.0", Data: []byte(`{}`)},
	}
}

func (m *Memory) knows(fingerprint string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.posts[fingerprint])
}

// A post that one process left is found by another, once, the oldest first.
func TestAnotherProcessFindsAPost(t *testing.T) {
	t.Parallel()
	b := bucket(t)
	one, two := run(t, b, 0), run(t, b, 0)
	one.Keep(t.Context(), claim("f", 2))
	one.Keep(t.Context(), claim("f", 1))
	one.Keep(t.Context(), claim("g", 3))
	eventually(t, "the other process hears of it", func() bool { return two.knows("f") == 2 && two.knows("g") == 1 })
	for _, want := range []string{"msg_1", "msg_2"} {
		if c, ok := two.Take(t.Context(), "f"); !ok || c.MessageID != want || !c.Pending() {
			t.Errorf("took %+v, %v; want %s", c, ok, want)
		}
	}
	if c, ok := one.Take(t.Context(), "f"); ok {
		t.Errorf("took %s again", c.MessageID)
	}
	if _, ok := one.Take(t.Context(), "g"); !ok {
		t.Error("another post is gone")
	}
	one.Keep(t.Context(), claim("f", 1)) // taken, and again without a result
	eventually(t, "the other process hears of it again", func() bool { return two.knows("f") == 1 })
}

// Of many that take at once at two processes, one gets it.
func TestAPostIsHandedOutOnce(t *testing.T) {
	t.Parallel()
	b := bucket(t)
	one, two := run(t, b, 0), run(t, b, 0)
	one.Keep(t.Context(), claim("f", 1))
	eventually(t, "the other process hears of it", func() bool { return two.knows("f") == 1 })
	var got atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, ok := []*Memory{one, two}[i%2].Take(t.Context(), "f"); ok {
				got.Add(1)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 {
		t.Errorf("%d got it", got.Load())
	}
}

// While the bucket is out of reach the process itself remembers, and hands on when it is back.
func TestPostsAreHandedOnWhenTheBucketIsBack(t *testing.T) {
	t.Parallel()
	b := bucket(t)
	one, two := run(t, b, 0), run(t, b, 0)
	b.down.Store(true)
	one.Keep(t.Context(), claim("f", 1))
	one.Keep(t.Context(), claim("g", 2))
	if c, ok := one.Take(t.Context(), "f"); !ok || c.MessageID != "msg_1" {
		t.Errorf("took %+v, %v", c, ok)
	}
	b.down.Store(false)
	eventually(t, "the other process hears of it", func() bool { return two.knows("g") == 1 })
	if two.knows("f") != 0 {
		t.Error("what was taken is handed on")
	}
}

// A new process learns what the others left.
func TestANewProcessLearnsWhatIsThere(t *testing.T) {
	t.Parallel()
	b := bucket(t)
	run(t, b, 0).Keep(t.Context(), claim("f", 1))
	late := run(t, b, 0)
	eventually(t, "it hears of it", func() bool { return late.knows("f") == 1 })
}

// After their time posts are gone, here and in the bucket.
func TestPostsEnd(t *testing.T) {
	t.Parallel()
	b := bucket(t)
	one, two := run(t, b, 5*time.Second), run(t, b, 0)
	one.Keep(t.Context(), claim("f", 1))
	eventually(t, "the other process hears of it", func() bool { return two.knows("f") == 1 })
	eventually(t, "it ends", func() bool { return two.knows("f") == 0 && one.knows("f") == 0 })
	if _, ok := one.Take(t.Context(), "f"); ok {
		t.Error("took what had ended")
	}
	old := claim("f", 1)
	old.QueuedAt = time.Now().Add(-time.Hour)
	one.Keep(t.Context(), old)
	if one.knows("f") != 0 {
		t.Error("kept what had ended")
	}
}

// What a process remembers has a bound: the oldest goes first.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	b := &cut{}
	b.down.Store(true)
	m := New(b, time.Hour, time.Now, zerolog.Nop())
	big := strings.Repeat("x", 1<<20)
	for i := range 40 {
		c := claim(fmt.Sprint("f", i), i)
		c.Response = []byte(`"` + big + `"`)
		m.Keep(t.Context(), c)
	}
	if m.bytes > maxBytes || m.knows("f0") != 0 || m.knows("f39") != 1 {
		t.Errorf("%d bytes, the oldest %d, the newest %d", m.bytes, m.knows("f0"), m.knows("f39"))
	}
}
