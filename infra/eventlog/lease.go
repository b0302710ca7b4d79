package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/topology"
)

// releasedTTL is how long the mark of a released lease stays.
const releasedTTL = time.Minute

// Leases are short ownerships in the bucket `leases`, each a key with a time to live. A lease saves work; it is no
// fence: its holder may be paused past its end, and its revisions begin anew when a standalone server restarts.
// Safety comes from AppendFenced.
type Leases struct {
	log    *Log
	bucket topology.Resource

	mu sync.Mutex
	kv jetstream.KeyValue
}

// NewLeases works on the bucket of a deployment, and makes it when the server came back without it.
func NewLeases(log *Log, d topology.Deployment) *Leases {
	return &Leases{log: log, bucket: topology.Leases(d)}
}

// Lease is one ownership. Its methods are for one goroutine at a time.
type Lease struct {
	Key   string
	Owner string
	// TTL is how long it lasts after it was acquired or renewed, whole seconds, by the server's clock.
	TTL time.Duration
	// Revision changes with each renewal.
	Revision uint64

	leases *Leases
}

// Acquire takes a lease that is free or already the owner's; owner must be unique to one start of one process.
// ErrLeaseHeld says that somebody else holds it. The ttl is a whole number of seconds, at least one.
func (s *Leases) Acquire(ctx context.Context, key, owner string, ttl time.Duration) (*Lease, error) {
	if ttl < time.Second || ttl%time.Second != 0 {
		return nil, fmt.Errorf("acquire lease %s: a life of %s is no whole number of seconds", key, ttl)
	}
	ctx, cancel := s.log.try(ctx)
	defer cancel()
	lease := &Lease{Key: key, Owner: owner, TTL: ttl, leases: s}
	kv, err := s.open(ctx)
	if err == nil {
		lease.Revision, err = kv.Create(ctx, key, []byte(owner), jetstream.KeyTTL(ttl))
		if bucketMissing(err) {
			if kv, err = s.create(ctx); err == nil {
				lease.Revision, err = kv.Create(ctx, key, []byte(owner), jetstream.KeyTTL(ttl))
			}
		}
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		// An earlier try of ours may have landed without its acknowledgement.
		if lease.Revision, err = s.mine(ctx, key, owner); err == nil {
			return lease, lease.Renew(ctx)
		}
		if errors.Is(err, ErrLeaseLost) {
			err = ErrLeaseHeld
		}
	}
	if err != nil {
		return nil, fmt.Errorf("acquire lease %s: %w", key, err)
	}
	return lease, nil
}

// Renew makes the lease last for its TTL from now. ErrLeaseLost says that it expired or somebody else has it; with any
// other error it may have been renewed or not, and it is the caller who counts from the last success.
func (e *Lease) Renew(ctx context.Context) error {
	ctx, cancel := e.leases.log.try(ctx)
	defer cancel()
	// The library's update knows no TTL and would make the key permanent.
	ack, err := e.leases.log.js.PublishMsg(ctx, &nats.Msg{Subject: e.leases.subject(e.Key), Data: []byte(e.Owner), Header: nats.Header{}},
		jetstream.WithExpectLastSequencePerSubject(e.Revision), jetstream.WithMsgTTL(e.TTL), jetstream.WithRetryAttempts(0))
	switch {
	case err == nil:
		e.Revision = ack.Sequence
		return nil
	case wrongLast(err):
		revision, mineErr := e.leases.mine(ctx, e.Key, e.Owner)
		if mineErr == nil && revision > e.Revision { // an earlier renewal landed without its acknowledgement
			e.Revision = revision
			return nil
		}
		err = errors.Join(ErrLeaseLost, mineErr)
	case bucketMissing(err):
		err = errors.Join(ErrLeaseLost, err)
	}
	return fmt.Errorf("renew lease %s: %w", e.Key, err)
}

// Release gives the lease up at once. Released twice, or after it was lost, it changes nothing.
func (e *Lease) Release(ctx context.Context) error {
	ctx, cancel := e.leases.log.try(ctx)
	defer cancel()
	kv, err := e.leases.open(ctx)
	if err == nil {
		err = kv.Purge(ctx, e.Key, jetstream.LastRevision(e.Revision), jetstream.PurgeTTL(releasedTTL))
	}
	if err != nil && !wrongLast(err) && !bucketMissing(err) {
		return fmt.Errorf("release lease %s: %w", e.Key, err)
	}
	return nil
}

// Owners lists who holds the leases whose key begins with the given tokens, e.g. "disp", by key.
func (s *Leases) Owners(ctx context.Context, tokens string) (map[string]string, error) {
	ctx, cancel := s.log.try(ctx)
	defer cancel()
	owners := map[string]string{}
	kv, err := s.open(ctx)
	if bucketMissing(err) {
		return owners, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	w, err := kv.Watch(ctx, tokens+".>", jetstream.IgnoreDeletes())
	if bucketMissing(err) {
		return owners, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	defer func() { _ = w.Stop() }() // fails on a closed connection only
	for {
		select {
		case entry, ok := <-w.Updates():
			if !ok {
				return nil, fmt.Errorf("list leases: %w", nats.ErrConnectionClosed)
			}
			if entry == nil { // all that was there
				return owners, nil
			}
			owners[entry.Key()] = string(entry.Value())
		case <-ctx.Done():
			return nil, fmt.Errorf("list leases: %w", ctx.Err())
		}
	}
}

// mine gives the revision of a key that holds the owner, read from the leader; else ErrLeaseLost.
func (s *Leases) mine(ctx context.Context, key, owner string) (uint64, error) {
	m, err := s.log.leaderGet(ctx, s.bucket.Stream.Name, getRequest{LastFor: s.subject(key)})
	if err != nil && !errors.Is(err, errNoMessage) {
		return 0, err
	}
	if err != nil || string(m.Data) != owner {
		return 0, ErrLeaseLost
	}
	return m.Position.Sequence, nil
}

func (s *Leases) subject(key string) string {
	return strings.TrimSuffix(s.bucket.Stream.Subjects[0], ">") + key
}

func (s *Leases) open(ctx context.Context) (jetstream.KeyValue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kv != nil {
		return s.kv, nil
	}
	kv, err := s.log.js.KeyValue(ctx, s.bucket.Name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if _, err = topology.Create(ctx, s.log.js, s.bucket); err == nil {
			kv, err = s.log.js.KeyValue(ctx, s.bucket.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	s.kv = kv
	return kv, nil
}

func (s *Leases) create(ctx context.Context) (jetstream.KeyValue, error) {
	if _, err := topology.Create(ctx, s.log.js, s.bucket); err != nil {
		return nil, err
	}
	return s.open(ctx)
}

// bucketMissing reports that no server knows the bucket.
func bucketMissing(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrStreamNotFound)
}

var _ topology.Control = (*Log)(nil)
