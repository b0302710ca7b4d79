package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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

// maxNotes bounds what NotedUnder reads: marks of notes that ended are among them.
const maxNotes = 32

// NotedUnder gives what is noted under the keys that begin with the given tokens, oldest first; none is no error. It reads one after
// the other, and is meant for a few.
func (s *Leases) NotedUnder(ctx context.Context, tokens string) ([][]byte, error) {
	ctx, cancel := s.log.try(ctx)
	defer cancel()
	var out [][]byte
	next := getRequest{Seq: 1, NextFor: s.subject(tokens + ".>")}
	for range maxNotes {
		m, err := s.log.leaderGet(ctx, s.bucket.Stream.Name, next)
		switch {
		case errors.Is(err, errNoMessage):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("read notes under %s: %w", tokens, err)
		}
		if len(m.Data) > 0 { // the mark of an end has no value
			out = append(out, m.Data)
		}
		next.Seq = m.Position.Sequence + 1
	}
	return out, nil
}
