package api

import (
	recency "container/list"
	"math"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/time/rate"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
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

// grant is what a key may, where it is not what every key may; a zero field is what every key may.
type grant struct {
	perSecond float64
	size      int
}

// take takes n (at least 1) from a key's bucket and tells what is left. It takes nothing, and says no, when not even one is
// left; else it may leave the bucket in debt, so that a request that counts as many is never impossible.
func (b *bursts) take(key string, n int, now time.Time) (Limit, bool) {
	return b.takeOf(grant{}, key, n, now)
}

func (b *bursts) takeOf(g grant, key string, n int, now time.Time) (Limit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.bucket(g, key, now)
	ok := of.TokensAt(now) >= 1
	if ok {
		of.reserve(n, now)
	}
	return of.left(now), ok
}

// charge takes n more from a key whose request was let through and counts as several, and may leave the bucket in debt.
func (b *bursts) charge(g grant, key string, n int, now time.Time) Limit {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.bucket(g, key, now)
	of.reserve(n, now)
	return of.left(now)
}

func (b *bucket) reserve(n int, now time.Time) {
	for n > 0 {
		part := min(n, b.Burst()) // more than its size no bucket gives at a time
		b.ReserveN(now, part)
		n -= part
	}
}

func (b *bucket) left(now time.Time) Limit {
	left, size := b.TokensAt(now), float64(b.Burst())
	return Limit{Name: "burst", Quota: int64(b.Burst()), Window: b.span(size), Left: int64(math.Floor(left)), Reset: b.span(size - left)}
}

// span is how long a number of tokens takes to come.
func (b *bucket) span(tokens float64) time.Duration {
	return time.Duration(max(tokens, 0) / float64(b.Limit()) * float64(time.Second))
}

// bucket gives a key's bucket, with what it may now: a plan that changes leaves what was used used.
func (b *bursts) bucket(g grant, key string, now time.Time) *bucket {
	if g.perSecond <= 0 {
		g.perSecond = b.perSecond
	}
	if g.size <= 0 {
		g.size = b.size
	}
	if e, ok := b.buckets[key]; ok {
		b.order.MoveToFront(e)
		of, _ := e.Value.(*bucket)
		if of.Limit() != rate.Limit(g.perSecond) || of.Burst() != g.size {
			of.SetLimitAt(now, rate.Limit(g.perSecond))
			of.SetBurstAt(now, g.size)
		}
		return of
	}
	of := &bucket{key: key, Limiter: rate.NewLimiter(rate.Limit(g.perSecond), g.size)}
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

// grantOf is what the plan of a key's tenant lets it ask.
func (a *API) grantOf(key events.Key) grant {
	var plan events.Plan
	a.ports.Catalog.Read(func(c *catalog.Catalog) { plan, _ = c.PlanOf(key.TenantID) })
	return grant{perSecond: plan.Rate, size: plan.Burst}
}

// limitBurst holds a customer's key to its burst, behind the judgement of the key and before that of the request.
func (a *API) limitBurst(ctx huma.Context, next func(huma.Context)) {
	caller, ok := ctx.Context().Value(callerKey{}).(Caller)
	if !ok || a.bursts.perSecond <= 0 {
		next(ctx)
		return
	}
	left, ok := a.bursts.takeOf(a.grantOf(caller.Key), caller.Key.ID, 1, a.ports.Now())
	noteLimit(ctx.Context(), left)
	if !ok {
		err := events.Errorf(CodeRateLimited, "This key asks more often than it may; wait as long as Retry-After says.").
			WithDetails("violatedPolicies", []string{left.Name})
		_ = huma.WriteErr(a.huma, ctx, 0, "", err) // the caller went away
		return
	}
	next(ctx)
}
