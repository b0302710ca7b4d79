package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Sight is what a watch sees of one key. The one with an empty key says that all that was there before has been seen.
type Sight struct {
	Key   string
	Value []byte // nil: the key is gone, taken back or at the end of its life
}

// Watch tells see of each key that begins with the given tokens, e.g. "disp": of those that are there, then of every change as it
// happens. It ends with an error when the server says no more, and with nil when ctx ends. A server that came back without the
// bucket, or a reader that it has forgotten, is not always noticed: who must know reads a note of its own back.
func (s *Leases) Watch(ctx context.Context, tokens string, see func(Sight)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.watch(ctx, tokens)
	if err != nil {
		return fmt.Errorf("watch %s: %w", tokens, err)
	}
	defer func() {
		_ = w.Stop() // fails on a closed connection only
		for range w.Updates() {
			continue // who fills it would hold a lock for ever
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case entry, ok := <-w.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return nil
			case !ok:
				return fmt.Errorf("watch %s: %w", tokens, nats.ErrConnectionClosed)
			case entry == nil:
				see(Sight{})
			case entry.Operation() == jetstream.KeyValuePut:
				see(Sight{Key: entry.Key(), Value: append([]byte{}, entry.Value()...)})
			default:
				see(Sight{Key: entry.Key()})
			}
		}
	}
}

// watch makes the reader within one try; it then lives as long as ctx.
func (s *Leases) watch(ctx context.Context, tokens string) (jetstream.KeyWatcher, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(s.log.opts.TryTimeout, func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()
	kv, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	w, err := kv.Watch(ctx, tokens+".>")
	if bucketMissing(err) {
		if kv, err = s.create(ctx); err == nil {
			w, err = kv.Watch(ctx, tokens+".>")
		}
	}
	if err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return w, nil
}

// Forget takes a note back at once. One that is not there is no error.
func (s *Leases) Forget(ctx context.Context, key string) error {
	ctx, cancel := s.log.try(ctx)
	defer cancel()
	kv, err := s.open(ctx)
	if err == nil {
		err = kv.Purge(ctx, key, jetstream.PurgeTTL(releasedTTL))
	}
	if err != nil && !bucketMissing(err) {
		return fmt.Errorf("forget %s: %w", key, err)
	}
	return nil
}
