package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/topology"
)

// ErrMoved says that a claim is not at the revision it was expected at: somebody else wrote, removed or outlived it.
var ErrMoved = errors.New("the claim has moved")

// Claims are the values of the bucket `idem`: idempotency claims, and posts that were left without an answer. Each is
// read from the leader, written at the revision that was read, on disk when a write returns, and ends after its own time.
type Claims struct {
	log    *Log
	bucket topology.Resource
}

// NewClaims works on the bucket of a deployment.
func NewClaims(log *Log, d topology.Deployment) *Claims {
	return &Claims{log: log, bucket: topology.Claims(d)}
}

// Get gives a claim and its revision. A value of nil says that there is none; its revision is then what Put expects to
// find, 0 or that of the mark of a removal. The error is events.CodeUnavailable.
func (c *Claims) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	m, err := c.log.leaderGet(ctx, c.bucket.Stream.Name, getRequest{LastFor: c.subject(key)})
	switch {
	case errors.Is(err, errNoMessage):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("read claim: %w", unavailable(ctx, err))
	case len(m.Header[headerOperation]) > 0 || len(m.Header[jetstream.MarkerReasonHeader]) > 0:
		return nil, m.Position.Sequence, nil
	}
	return m.Data, m.Position.Sequence, nil
}

// Put writes a claim that is at revision and gives its new one; it ends ttl (whole seconds) from now. A missing
// acknowledgement is resolved by trying again until ctx ends (Options.AppendLimit without a deadline); then the error is
// events.CodeUnavailable and the claim may or may not stand. ErrMoved says that the claim is at another revision.
func (c *Claims) Put(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	ctx, cancel := c.log.bounded(ctx)
	defer cancel()
	written, err := c.write(ctx, &nats.Msg{Subject: c.subject(key), Data: value}, revision, ttl, func(found []byte) bool {
		return bytes.Equal(found, value)
	})
	if err == nil {
		err = c.log.durable(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("write claim: %w", err)
	}
	return written, nil
}

// Delete removes a claim that is at revision. Errors are those of Put.
func (c *Claims) Delete(ctx context.Context, key string, revision uint64) error {
	ctx, cancel := c.log.bounded(ctx)
	defer cancel()
	purge := &nats.Msg{Subject: c.subject(key), Header: nats.Header{
		headerOperation: []string{"PURGE"}, jetstream.MsgRollup: []string{jetstream.MsgRollupSubject},
	}}
	// A removal leaves nothing that would tell ours from another's: after a lost acknowledgement it counts as another's.
	if _, err := c.write(ctx, purge, revision, releasedTTL, func([]byte) bool { return false }); err != nil {
		return fmt.Errorf("remove claim: %w", err)
	}
	return nil
}

// headerOperation marks a removal in the protocol of key-value buckets.
const headerOperation = "KV-Operation"

// write publishes at an expected revision until the result is known. mine says whether what stands there now is what an
// earlier try of this write left.
func (c *Claims) write(ctx context.Context, msg *nats.Msg, revision uint64, ttl time.Duration, mine func(found []byte) bool) (uint64, error) {
	for n := 0; ; n++ {
		ack, err := c.publish(ctx, msg, revision, ttl)
		switch {
		case err == nil:
			return ack.Sequence, nil
		case wrongLast(err):
			found, at, readErr := c.Get(ctx, c.key(msg.Subject))
			if readErr == nil && at > revision && found != nil && mine(found) {
				return at, nil
			}
			if readErr == nil {
				return 0, ErrMoved
			}
			err = readErr
		case fatal(err):
			return 0, coded(err)
		}
		if !c.log.pause(ctx, n) {
			return 0, unavailable(ctx, err)
		}
	}
}

func (c *Claims) publish(ctx context.Context, msg *nats.Msg, revision uint64, ttl time.Duration) (*jetstream.PubAck, error) {
	ctx, cancel := c.log.try(ctx)
	defer cancel()
	again := &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: nats.Header{}}
	for k, v := range msg.Header {
		again.Header[k] = v
	}
	return c.log.js.PublishMsg(ctx, again, jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithMsgTTL(ttl),
		jetstream.WithRetryAttempts(0))
}

func (c *Claims) prefix() string {
	return c.bucket.Stream.Subjects[0][:len(c.bucket.Stream.Subjects[0])-1]
}

func (c *Claims) subject(key string) string { return c.prefix() + key }

func (c *Claims) key(subject string) string { return subject[len(c.prefix()):] }

// Watch calls f with every claim whose key begins with the given tokens, as WatchKeys does.
func (c *Claims) Watch(ctx context.Context, tokens string, f func(Change)) error {
	return c.log.WatchKeys(ctx, c.bucket.Name, tokens+".>", f)
}
