package api

import (
	"context"
	"errors"
	"time"

	"pilotstatus.dev/events/idempotency"
)

// ErrMoved says that a claim was not at the expected revision: another request wrote or removed it. A Claims wraps it.
var ErrMoved = errors.New("the claim has moved")

// Claims keeps idempotency claims for all processes. An error that is not ErrMoved is an outage, after which a write may
// stand or not.
type Claims interface {
	// Get gives a claim and its revision, as of now. A value of nil says that there is none; the revision is then the one to
	// write at.
	Get(ctx context.Context, name string) (value []byte, revision uint64, err error)
	// Put writes a claim that is at revision, on disk, and gives its new revision. It ends ttl from now.
	Put(ctx context.Context, name string, value []byte, revision uint64, ttl time.Duration) (uint64, error)
	// Delete removes a claim that is at revision.
	Delete(ctx context.Context, name string, revision uint64) error
}

// Recall keeps what was posted without a key and left without a known result, for a while and for all processes, so that
// the next identical post finds it. It never waits long and never fails: what it cannot keep is forgotten.
type Recall interface {
	// Keep keeps a pending claim under its fingerprint, beside others of the same.
	Keep(ctx context.Context, claim idempotency.Claim)
	// Take gives the oldest claim of a fingerprint and forgets it: one caller gets it.
	Take(ctx context.Context, fingerprint string) (idempotency.Claim, bool)
}
