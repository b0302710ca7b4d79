package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoNote says that nothing is noted under a key, or not any more.
var ErrNoNote = errors.New("nothing is noted")

// Note keeps a value under a key of the bucket for ttl, whole seconds, in place of what was there: for who wants to know what this
// process sees just now. Nothing may depend on it.
func (s *Leases) Note(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	ctx, cancel := s.log.try(ctx)
	defer cancel()
	put := func() error {
		_, err := s.log.js.PublishMsg(ctx, &nats.Msg{Subject: s.subject(key), Data: value, Header: nats.Header{}},
			jetstream.WithMsgTTL(ttl), jetstream.WithRetryAttempts(0))
		return err
	}
	err := put()
	if bucketMissing(err) {
		if _, err = s.create(ctx); err == nil {
			err = put()
		}
	}
	if err != nil {
		return fmt.Errorf("note %s: %w", key, err)
	}
	return nil
}

// Noted gives what is noted under a key; ErrNoNote when nothing is.
func (s *Leases) Noted(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := s.log.try(ctx)
	defer cancel()
	m, err := s.log.leaderGet(ctx, s.bucket.Stream.Name, getRequest{LastFor: s.subject(key)})
	switch {
	case errors.Is(err, errNoMessage), err == nil && len(m.Data) == 0: // the mark of an end has no value
		return nil, fmt.Errorf("read note %s: %w", key, ErrNoNote)
	case err != nil:
		return nil, fmt.Errorf("read note %s: %w", key, err)
	}
	return m.Data, nil
}
