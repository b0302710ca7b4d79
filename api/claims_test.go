package api

import (
	"context"
	"sync"
	"time"

	"pilotstatus.dev/events/idempotency"
)

// fakeClaims is a bucket in memory, shared by as many APIs as a test makes.
type fakeClaims struct {
	mu       sync.Mutex
	revision uint64
	values   map[string]claimed
	err      error // of every call
}

type claimed struct {
	value    []byte
	revision uint64
	ttl      time.Duration
}

func (f *fakeClaims) Get(_ context.Context, name string) ([]byte, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.values[name]
	return c.value, c.revision, f.err
}

func (f *fakeClaims) Put(_ context.Context, name string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	return f.write(name, claimed{value: value, ttl: ttl}, revision)
}

func (f *fakeClaims) Delete(_ context.Context, name string, revision uint64) error {
	_, err := f.write(name, claimed{}, revision)
	return err
}

func (f *fakeClaims) write(name string, c claimed, revision uint64) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.err != nil:
		return 0, f.err
	case f.values[name].revision != revision:
		return 0, ErrMoved
	case f.values == nil:
		f.values = map[string]claimed{}
	}
	f.revision++
	c.revision = f.revision
	f.values[name] = c
	return c.revision, nil
}

// live lists the claims that stand.
func (f *fakeClaims) live() map[string]claimed {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]claimed{}
	for name, c := range f.values {
		if c.value != nil {
			out[name] = c
		}
	}
	return out
}

// fakeRecall is what the processes of a test remember together.
type fakeRecall struct {
	mu   sync.Mutex
	kept []idempotency.Claim
}

func (f *fakeRecall) Keep(_ context.Context, c idempotency.Claim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, c)
}

func (f *fakeRecall) Take(_ context.Context, fingerprint string) (idempotency.Claim, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, c := range f.kept {
		if c.Fingerprint == fingerprint {
			f.kept = append(f.kept[:i], f.kept[i+1:]...)
			return c, true
		}
	}
	return idempotency.Claim{}, false
}
