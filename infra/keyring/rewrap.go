package keyring

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Wrapped counts the data keys of a bucket by the id of the master key that wraps them.
func Wrapped(ctx context.Context, kv jetstream.KeyValue) (map[string]int, error) {
	counts := map[string]int{}
	err := eachRecord(ctx, kv, func(_ jetstream.KeyValueEntry, r record) error {
		counts[r.Master]++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count data keys: %w", err)
	}
	return counts, nil
}

// Rewrap wraps the data keys of a bucket anew that another master key than the active one wraps, and says how many. What they sealed stays
// as it is. A key that is erased meanwhile stays erased, and what processes make meanwhile under another master key they load is not seen:
// Wrapped tells. With an error a part is done; it can be called again.
func Rewrap(ctx context.Context, kv jetstream.KeyValue, master *Master) (rewrapped int, err error) {
	v := vault{master: master}
	err = eachRecord(ctx, kv, func(e jetstream.KeyValueEntry, r record) error {
		if r.Master == master.active {
			return nil
		}
		secret, err := master.unwrap(r.Master, r.Wrapped, []byte(e.Key()))
		if err != nil {
			return err
		}
		value, err := v.wrap(e.Key(), secret)
		if err != nil {
			return err
		}
		switch _, err = kv.Update(ctx, e.Key(), value, e.Revision()); {
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch): // erased, or wrapped by somebody else
			return nil
		case err != nil:
			return fmt.Errorf("write data key: %w", err)
		}
		rewrapped++
		return nil
	})
	if err != nil {
		return rewrapped, fmt.Errorf("rewrap data keys: %w", err)
	}
	return rewrapped, nil
}

// eachRecord gives do each data key that the bucket has now, until do fails.
func eachRecord(ctx context.Context, kv jetstream.KeyValue, do func(jetstream.KeyValueEntry, record) error) error {
	all, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer func() { _ = all.Stop() }()
	for {
		select {
		case e, open := <-all.Updates():
			if !open {
				return errors.New("the bucket is no longer read")
			}
			if e == nil { // all that there was
				return nil
			}
			r, err := parseRecord(e.Value())
			if err == nil {
				err = do(e, r)
			}
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
