package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Change is a key of a bucket as it is now; a Value of nil says that it is gone.
type Change struct {
	Key      string
	Value    []byte
	Revision uint64
	Created  time.Time // when it was written, by the server's clock
}

// WatchKeys calls f with every key of a bucket that a filter covers (">" is all), as they are and as they change, until ctx ends. After
// a lost connection, or when it was brought nothing (Options.Stuck), it tells of all that are there again, of those that went
// meanwhile perhaps not.
func (l *Log) WatchKeys(ctx context.Context, bucket, filter string, f func(Change)) error {
	// The library's own watch would notice a server that restarted only after its heartbeats were missed.
	connected := l.nc.StatusChanged(nats.CONNECTED)
	defer l.nc.RemoveStatusListener(connected)
	for n, cuts := 0, 0; ; n++ {
		err := l.watchKeys(ctx, bucket, filter, cuts, connected, func(change Change) {
			n, cuts = 0, 0
			f(change)
		})
		if err != nil && ctx.Err() == nil {
			l.opts.Logger.Warn().Err(err).Str("bucket", bucket).Msg("watch keys again")
		}
		if errors.Is(err, errStuck) {
			cuts++
			l.stuck(keyStream(bucket))
		}
		if !l.pause(ctx, n) {
			return ctx.Err()
		}
	}
}

// keyStream is the stream that holds a bucket.
func keyStream(bucket string) string { return "KV_" + bucket }

// watchKeys tells of changes until the connection is another one.
func (l *Log) watchKeys(ctx context.Context, bucket, filter string, cuts int, connected <-chan nats.Status, f func(Change)) error {
	opening, cancel := l.try(ctx)
	defer cancel()
	kv, err := l.js.KeyValue(opening, bucket)
	if err != nil {
		return fmt.Errorf("watch keys: %w", err)
	}
	w, err := kv.Watch(ctx, filter)
	if err != nil {
		return fmt.Errorf("watch keys: %w", err)
	}
	defer func() {
		_ = w.Stop() // fails on a closed connection only
		for range w.Updates() {
			continue // who fills it would hold a lock for ever
		}
	}()
	var p pace
	stuck := make(chan error, 1)
	attended, rest := context.WithCancel(ctx)
	var attending sync.WaitGroup
	defer attending.Wait()
	defer rest()
	attending.Go(func() {
		l.attend(attended, keyStream(bucket), []string{"$KV." + bucket + "." + filter}, &p, 1, cuts, func(err error) { stuck <- err })
	})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-connected:
			return nil
		case err := <-stuck:
			return err
		case entry, ok := <-w.Updates():
			switch {
			case !ok:
				return nats.ErrConnectionClosed
			case entry == nil: // all that was there
				continue
			}
			p.moves.Add(1)
			change := Change{Key: entry.Key(), Revision: entry.Revision(), Created: entry.Created()}
			if entry.Operation() == jetstream.KeyValuePut {
				change.Value = entry.Value()
			}
			f(change)
			p.next.Store(entry.Revision() + 1)
			p.moves.Add(1)
		}
	}
}
