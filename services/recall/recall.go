// Package recall remembers posts that were answered "not known", so that the same post again, at any process of the
// deployment, finds them instead of making a second message. It promises that a post is handed out once, as long as the
// bucket can be asked, and that it costs nothing while there is none.
package recall

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events/idempotency"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
)

// Bucket is where processes see each other's posts; *eventlog.Claims is one.
type Bucket interface {
	Put(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error)
	Delete(ctx context.Context, key string, revision uint64) error
	Watch(ctx context.Context, tokens string, f func(eventlog.Change)) error
}

// Defaults and bounds.
const (
	DefaultKept = 10 * time.Minute
	maxBytes    = 32 << 20 // of what one process remembers; the oldest goes first
	putLimit    = 2 * time.Second
	putAgain    = 500 * time.Millisecond
)

// token is the first one of the posts' keys in the bucket of claims. No tenant can have it.
const token = "_unknown"

// Memory is what one process knows. It is safe for concurrent use.
type Memory struct {
	bucket Bucket
	kept   time.Duration
	now    func() time.Time
	log    zerolog.Logger
	more   chan struct{} // there is something to put

	mu    sync.Mutex
	posts map[string][]*post // by fingerprint, the oldest first
	bytes int
}

// post is one that was left without a known result.
type post struct {
	key      string
	claim    idempotency.Claim
	value    []byte
	revision uint64 // 0 while only this process knows it
}

// New makes an empty memory that keeps posts for a time (0: DefaultKept), counted from when they were made. now is the
// clock of their times.
func New(bucket Bucket, kept time.Duration, now func() time.Time, log zerolog.Logger) *Memory {
	if kept <= 0 {
		kept = DefaultKept
	}
	return &Memory{bucket: bucket, kept: kept, now: now, log: log, more: make(chan struct{}, 1), posts: map[string][]*post{}}
}

// Run learns what other processes remember and hands on what this one could not, until ctx ends.
func (m *Memory) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	watching.Go(func() { _ = m.bucket.Watch(ctx, token, m.heard) }) // it ends with ctx only
	defer watching.Wait()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-m.more:
			if !m.flush(ctx) && await.Elapsed(ctx, putAgain) {
				m.wake()
			}
		}
	}
	return nil
}

// Keep remembers a pending claim, here at once and in the bucket before it returns where that can be reached; else Run
// goes on trying.
func (m *Memory) Keep(ctx context.Context, c idempotency.Claim) {
	value, err := json.Marshal(c)
	if err != nil || m.left(c) <= 0 {
		return
	}
	// A key of its own each time: where one was taken, a mark of its removal stands for a while.
	p := &post{key: token + "." + c.Fingerprint + "." + uuid.NewString(), claim: c, value: value}
	m.mu.Lock()
	m.add(p)
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, putLimit)
	defer cancel()
	if !m.put(ctx, p) {
		m.wake()
	}
}

// Take gives the oldest post of a fingerprint and forgets it. Of several processes one gets it; when the bucket cannot be
// asked, each that remembers it: they append the same event, so it stays one message.
func (m *Memory) Take(ctx context.Context, fingerprint string) (idempotency.Claim, bool) {
	for {
		p := m.first(fingerprint)
		if p == nil {
			return idempotency.Claim{}, false
		}
		if p.revision > 0 && errors.Is(m.remove(ctx, p), eventlog.ErrMoved) {
			continue // another process has it
		}
		return p.claim, true
	}
}

func (m *Memory) first(fingerprint string) *post {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.posts[fingerprint]) > 0 {
		p := *m.posts[fingerprint][0]
		m.drop(fingerprint, p.key)
		if m.left(p.claim) > 0 {
			return &p
		}
	}
	return nil
}

func (m *Memory) remove(ctx context.Context, p *post) error {
	ctx, cancel := context.WithTimeout(ctx, putLimit)
	defer cancel()
	return m.bucket.Delete(ctx, p.key, p.revision)
}

// left is how long a claim is still of use.
func (m *Memory) left(c idempotency.Claim) time.Duration { return c.QueuedAt.Add(m.kept).Sub(m.now()) }

// put writes a post to the bucket; false says that it has to be tried again.
func (m *Memory) put(ctx context.Context, p *post) bool {
	left := m.left(p.claim).Round(time.Second)
	if left <= 0 {
		return true
	}
	revision, err := m.bucket.Put(ctx, p.key, p.value, 0, max(left, time.Second))
	switch {
	case err != nil:
		m.log.Debug().Err(err).Str("message_id", p.claim.MessageID).Msg("keep an unknown post")
		return false
	}
	m.mu.Lock()
	at := slices.IndexFunc(m.posts[p.claim.Fingerprint], func(o *post) bool { return o.key == p.key })
	if at >= 0 {
		m.posts[p.claim.Fingerprint][at].revision = revision
	}
	m.mu.Unlock()
	if at < 0 { // it was taken meanwhile
		taken := *p
		taken.revision = revision
		_ = m.remove(ctx, &taken) // else it ends with its time
	}
	return true
}

// flush puts everything that only this process knows; false says that some is left.
func (m *Memory) flush(ctx context.Context) bool {
	m.mu.Lock()
	var waiting []*post
	for _, posts := range m.posts {
		for _, p := range posts {
			if p.revision == 0 {
				copied := *p
				waiting = append(waiting, &copied)
			}
		}
	}
	for _, p := range waiting {
		if m.left(p.claim) <= 0 {
			m.drop(p.claim.Fingerprint, p.key)
		}
	}
	m.mu.Unlock()
	for _, p := range waiting {
		bounded, cancel := context.WithTimeout(ctx, putLimit)
		ok := m.put(bounded, p)
		cancel()
		if !ok {
			return false // the others would fare no better
		}
	}
	return true
}

func (m *Memory) wake() {
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// heard takes in what the bucket says.
func (m *Memory) heard(c eventlog.Change) {
	parts := strings.Split(c.Key, ".")
	if len(parts) != 3 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Value == nil {
		m.drop(parts[1], c.Key)
		return
	}
	var claim idempotency.Claim
	if err := json.Unmarshal(c.Value, &claim); err != nil || claim.Fingerprint != parts[1] || m.left(claim) <= 0 {
		return
	}
	m.add(&post{key: c.Key, claim: claim, value: c.Value, revision: c.Revision})
}

// add remembers a post, over what was known of it; m is locked.
func (m *Memory) add(p *post) {
	m.drop(p.claim.Fingerprint, p.key)
	m.posts[p.claim.Fingerprint] = append(m.posts[p.claim.Fingerprint], p)
	slices.SortFunc(m.posts[p.claim.Fingerprint], older)
	m.bytes += len(p.value)
	for m.bytes > maxBytes {
		var oldest *post
		for _, posts := range m.posts {
			if oldest == nil || older(posts[0], oldest) < 0 {
				oldest = posts[0]
			}
		}
		m.drop(oldest.claim.Fingerprint, oldest.key)
	}
}

func older(a, b *post) int { return a.claim.QueuedAt.Compare(b.claim.QueuedAt) }

// drop forgets a post; m is locked.
func (m *Memory) drop(fingerprint, key string) {
	posts := m.posts[fingerprint]
	at := slices.IndexFunc(posts, func(p *post) bool { return p.key == key })
	if at < 0 {
		return
	}
	m.bytes -= len(posts[at].value)
	if posts = slices.Delete(posts, at, at+1); len(posts) == 0 {
		delete(m.posts, fingerprint)
		return
	}
	m.posts[fingerprint] = posts
}
