package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/await"
)

// Records is the copy that this process has of what the log says of windows. Run keeps it up; all methods are safe for concurrent use.
type Records struct {
	bucket func(context.Context) (jetstream.KeyValue, error)
	log    zerolog.Logger

	mu    sync.RWMutex
	byKey map[recordKey]map[events.Partition]quota.Record
}

type recordKey struct{ tenant, window string }

// NewRecords makes an empty copy of the bucket.
func NewRecords(bucket func(context.Context) (jetstream.KeyValue, error), log zerolog.Logger) *Records {
	return &Records{bucket: bucket, log: log, byKey: map[recordKey]map[events.Partition]quota.Record{}}
}

// Refunded gives how many messages of a window were refunded, 0 while nothing is known.
func (r *Records) Refunded(tenant, window string) (n int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, rec := range r.byKey[recordKey{tenant, window}] {
		n += rec.Refunded
	}
	return n
}

// take puts a record in the place of an older one of its partition.
func (r *Records) take(k recordKey, p events.Partition, rec quota.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byPartition := r.byKey[k]
	if byPartition == nil {
		byPartition = map[events.Partition]quota.Record{}
		r.byKey[k] = byPartition
	}
	if rec.Sequence >= byPartition[p].Sequence {
		byPartition[p] = rec
	}
}

func (r *Records) drop(k recordKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKey, k)
}

// watchAgain bounds the pause before the bucket is watched again.
const (
	watchAgainLeast = 100 * time.Millisecond
	watchAgainMost  = 5 * time.Second
)

// Run follows the bucket until ctx ends.
func (r *Records) Run(ctx context.Context) error {
	for n := 0; ; n++ {
		if err := r.follow(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Msg("refunds are not followed; limits are kept, refunded places wait")
		}
		if !await.Backoff(ctx, watchAgainLeast, watchAgainMost, min(n, 6)) {
			return fmt.Errorf("follow quota records: %w", ctx.Err())
		}
	}
}

func (r *Records) follow(ctx context.Context) error {
	kv, err := r.bucket(ctx)
	if err != nil {
		return err
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("watch quota records: %w", err)
	}
	defer func() { _ = w.Stop() }() // the connection's end stops it too
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-w.Updates():
			if !open {
				return errors.New("the watch ended")
			}
			if e != nil { // nil marks the end of what was there
				r.entry(e)
			}
		}
	}
}

func (r *Records) entry(e jetstream.KeyValueEntry) {
	k, p, ok := parseKey(e.Key())
	if !ok {
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		r.drop(k)
		return
	}
	var rec quota.Record
	if err := json.Unmarshal(e.Value(), &rec); err != nil {
		r.log.Warn().Str("key", e.Key()).Msg("a quota record does not decode")
		return
	}
	r.take(k, p, rec)
}

// keyOf names a record: "<tenant>.<window>.<partition>".
func keyOf(tenant, window string, p events.Partition) string {
	return tenant + "." + window + "." + p.String()
}

func parseKey(key string) (k recordKey, p events.Partition, ok bool) {
	parts := strings.Split(key, ".")
	if len(parts) != 3 {
		return recordKey{}, 0, false
	}
	n, err := strconv.ParseUint(parts[2], 10, 8)
	return recordKey{parts[0], parts[1]}, events.Partition(n), err == nil
}
