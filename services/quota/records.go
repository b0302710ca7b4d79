package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
)

// Bucket tells of the keys of a bucket as *eventlog.Log does.
type Bucket interface {
	WatchKeys(ctx context.Context, bucket, filter string, f func(eventlog.Change)) error
}

// Records is the copy that this process has of what the log says of windows. Run keeps it up; all methods are safe for concurrent use.
type Records struct {
	bucket Bucket
	log    zerolog.Logger

	mu    sync.RWMutex
	byKey map[recordKey]map[events.Partition]quota.Record
}

type recordKey struct{ tenant, window string }

// NewRecords makes an empty copy of the bucket.
func NewRecords(bucket Bucket, log zerolog.Logger) *Records {
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

// Run follows the bucket until ctx ends.
func (r *Records) Run(ctx context.Context) error {
	if err := r.bucket.WatchKeys(ctx, topology.BucketQuota, ">", r.heard); err != nil {
		return fmt.Errorf("follow quota records: %w", err)
	}
	return nil
}

func (r *Records) heard(c eventlog.Change) {
	k, p, ok := parseKey(c.Key)
	if !ok {
		return
	}
	if c.Value == nil {
		r.drop(k)
		return
	}
	var rec quota.Record
	if err := json.Unmarshal(c.Value, &rec); err != nil {
		r.log.Warn().Str("key", c.Key).Msg("a quota record does not decode")
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
