package evolutionsim

import (
	"bytes"
	"container/heap"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// post is one webhook.
type post struct {
	url     string
	headers map[string]string
	body    []byte
	tried   int
}

// task is a webhook that waits for its time.
type task struct {
	due  time.Time
	post *post        // nil: made when it is due
	make func() *post // gives nil when there is nothing to post
	then func()       // runs after the first try
	seq  int64        // keeps the order of tasks of one time
}

// tasks is a heap by due time.
type tasks []*task

func (t tasks) Len() int { return len(t) }
func (t tasks) Less(a, b int) bool {
	if t[a].due.Equal(t[b].due) {
		return t[a].seq < t[b].seq
	}
	return t[a].due.Before(t[b].due)
}
func (t tasks) Swap(a, b int) { t[a], t[b] = t[b], t[a] }
func (t *tasks) Push(x any)   { *t = append(*t, x.(*task)) }
func (t *tasks) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	return last
}

// hooks posts webhooks at their time with a fixed number of workers.
type hooks struct {
	ctx     context.Context
	options Webhooks
	client  *http.Client
	limit   int
	wake    chan struct{}
	work    chan *task
	running sync.WaitGroup

	mu      sync.Mutex
	waiting tasks
	seq     int64

	attempts, posted, abandoned, dropped, working atomic.Int64
}

func newHooks(ctx context.Context, options Webhooks, limit int) *hooks {
	h := &hooks{ctx: ctx, options: options, limit: limit, wake: make(chan struct{}, 1), work: make(chan *task)}
	h.client = &http.Client{
		Transport: &http.Transport{
			DialContext: options.Dial, MaxIdleConns: options.Workers, MaxIdleConnsPerHost: options.Workers, DisableCompression: true,
		},
		Timeout: options.Timeout,
		// A redirect without a target counts as a failure at the gateway, too.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	h.running.Go(h.schedule)
	for range options.Workers {
		h.running.Go(h.serve)
	}
	return h
}

func (h *hooks) close() {
	h.running.Wait()
	h.client.CloseIdleConnections()
}

func (h *hooks) add(t *task) {
	h.mu.Lock()
	if len(h.waiting) >= h.limit {
		h.mu.Unlock()
		h.dropped.Add(1)
		return
	}
	h.seq++
	t.seq = h.seq
	heap.Push(&h.waiting, t)
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// due takes the next task whose time has come, else gives the wait for it.
func (h *hooks) due() (*task, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting) == 0 {
		return nil, time.Hour
	}
	if wait := time.Until(h.waiting[0].due); wait > 0 {
		return nil, wait
	}
	h.working.Add(1)
	return heap.Pop(&h.waiting).(*task), 0
}

func (h *hooks) schedule() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		t, wait := h.due()
		if t != nil {
			select {
			case h.work <- t:
				continue
			case <-h.ctx.Done():
				return
			}
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-h.wake:
		case <-h.ctx.Done():
			return
		}
	}
}

func (h *hooks) serve() {
	for {
		select {
		case t := <-h.work:
			h.run(t)
			h.working.Add(-1)
		case <-h.ctx.Done():
			return
		}
	}
}

func (h *hooks) run(t *task) {
	if t.post == nil && t.make != nil {
		t.post = t.make()
	}
	if t.post != nil {
		h.attempt(t.post)
	}
	if t.then != nil {
		t.then()
	}
}

// attempt tries a post once and plans the next try as the gateway does.
func (h *hooks) attempt(p *post) {
	p.tried++
	h.attempts.Add(1)
	status := h.send(p)
	switch {
	case status >= 200 && status < 300:
		h.posted.Add(1)
	case status == 400, status == 401, status == 403, status == 404, status == 422, p.tried >= h.options.MaxAttempts:
		h.abandoned.Add(1)
	default:
		h.add(&task{due: time.Now().Add(h.wait(p.tried)), post: p})
	}
}

// wait is the time before the next try: doubled each time, drawn around that, never below the first.
func (h *hooks) wait(tried int) time.Duration {
	d := h.options.InitialDelay
	for range tried - 1 {
		if d = min(2*d, h.options.MaxDelay); d == h.options.MaxDelay {
			break
		}
	}
	if j := h.options.Jitter; j > 0 {
		d = time.Duration(float64(d) * (1 - j + 2*j*rand.Float64())) //nolint:gosec // jitter, not a secret
	}
	return max(d, h.options.InitialDelay)
}

// send gives the status, or 0 when none came.
func (h *hooks) send(p *post) int {
	req, err := http.NewRequestWithContext(h.ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "axios/1.12.2")
	for name, value := range p.headers {
		req.Header.Set(name, value)
	}
	res, err := h.client.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)) // read to its end the connection can be used again
	_ = res.Body.Close()
	return res.StatusCode
}

func (h *hooks) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = nil
}

func (h *hooks) stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{
		Attempts: h.attempts.Load(), Posted: h.posted.Load(), Abandoned: h.abandoned.Load(), Dropped: h.dropped.Load(),
		Pending: int64(len(h.waiting)) + h.working.Load(),
	}
}
