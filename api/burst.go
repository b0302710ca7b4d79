package api

import (
	recency "container/list"
	"math"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/time/rate"

	"pilotstatus.dev/events"
)

// maxBuckets bounds the keys whose bursts one process keeps count of; the one that asked longest ago goes first, and then
// has a whole bucket again.
const maxBuckets = 10_000

// bursts holds API keys to a number of requests a second, each process by itself: it keeps one client from crowding out
// the others, and counts nothing that anybody pays for.
type bursts struct {
	perSecond float64 // 0 holds nobody to anything
	size      int
	most      int // buckets; the one that asked longest ago goes first

	mu      sync.Mutex
	buckets map[string]*recency.Element // by key id, of *bucket
	order   recency.List                // the one that asked last first
}

type bucket struct {
	key string
	*rate.Limiter
}

func newBursts(perSecond float64, size int) *bursts {
	return &bursts{perSecond: perSecond, size: size, most: maxBuckets, buckets: map[string]*recency.Element{}}
}

// take takes n (at least 1) from a key's bucket and tells what is left. It takes nothing, and says no, when not even one is
// left; else it may leave the bucket in debt, so that a request that counts as many is never impossible.
func (b *bursts) take(key string, n int, now time.Time) (Limit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.bucket(key, now)
	ok := of.TokensAt(now) >= 1
	if ok {
		b.reserve(of, n, now)
	}
	return b.left(of, now), ok
}

// charge takes n more from a key whose request was let through and counts as several, and may leave the bucket in debt.
func (b *bursts) charge(key string, n int, now time.Time) Limit {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.bucket(key, now)
	b.reserve(of, n, now)
	return b.left(of, now)
}

func (b *bursts) reserve(of *bucket, n int, now time.Time) {
	for n > 0 {
		part := min(n, b.size) // more than its size no bucket gives at a time
		of.ReserveN(now, part)
		n -= part
	}
}

func (b *bursts) left(of *bucket, now time.Time) Limit {
	left := of.TokensAt(now)
	return Limit{
		Name: "burst", Quota: int64(b.size), Window: b.span(float64(b.size)), Left: int64(math.Floor(left)), Reset: b.span(float64(b.size) - left),
	}
}

// span is how long a number of tokens takes to come.
func (b *bursts) span(tokens float64) time.Duration {
	return time.Duration(max(tokens, 0) / b.perSecond * float64(time.Second))
}

func (b *bursts) bucket(key string, now time.Time) *bucket {
	if e, ok := b.buckets[key]; ok {
		b.order.MoveToFront(e)
		of, _ := e.Value.(*bucket)
		return of
	}
	of := &bucket{key: key, Limiter: rate.NewLimiter(rate.Limit(b.perSecond), b.size)}
	of.ReserveN(now, 0) // it is whole as of now
	b.buckets[key] = b.order.PushFront(of)
	for len(b.buckets) > b.most {
		last := b.order.Back()
		b.order.Remove(last)
		gone, _ := last.Value.(*bucket)
		delete(b.buckets, gone.key)
	}
	return of
}

// limitBurst holds a customer's key to its burst, behind the judgement of the key and before that of the request.
func (a *API) limitBurst(ctx huma.Context, next func(huma.Context)) {
	caller, ok := ctx.Context().Value(callerKey{}).(Caller)
	if !ok || a.bursts.perSecond <= 0 {
		next(ctx)
		return
	}
	left, ok := a.bursts.take(caller.Key.ID, 1, a.ports.Now())
	noteLimit(ctx.Context(), left)
	if !ok {
		err := events.Errorf(CodeRateLimited, "This key asks more often than it may; wait as long as Retry-After says.").
			WithDetails("violatedPolicies", []string{left.Name})
		_ = huma.WriteErr(a.huma, ctx, 0, "", err) // the caller went away
		return
	}
	next(ctx)
}
