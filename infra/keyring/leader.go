package keyring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const leaderTimeout = 5 * time.Second

// Leader reads a bucket as jetstream does, from any replica, but believes an absence only when the stream's leader
// confirms it: a replica that lags does not know a new key yet. Its Delete purges the key's whole history; where the
// bucket has a LimitMarkerTTL, markerTTL (whole seconds, 0 for ever) ends the marker that a deletion leaves.
func Leader(nc *nats.Conn, kv jetstream.KeyValue, markerTTL time.Duration) KV {
	return &leader{nc: nc, kv: kv, markerTTL: markerTTL}
}

type leader struct {
	nc        *nats.Conn
	kv        jetstream.KeyValue
	markerTTL time.Duration
}

func (l *leader) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	entry, err := l.kv.Get(ctx, key)
	if !errors.Is(err, jetstream.ErrKeyNotFound) {
		return entry, err
	}
	return l.ask(ctx, key)
}

// ask reads the last value of a key from the leader: unlike a direct get, this request is answered by nobody else.
func (l *leader) ask(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	bucket := l.kv.Bucket()
	question, err := json.Marshal(map[string]string{"last_by_subj": "$KV." + bucket + "." + key})
	if err != nil {
		return nil, fmt.Errorf("ask the leader: %w", err)
	}
	reply, err := l.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET.KV_"+bucket, question)
	if err != nil {
		return nil, fmt.Errorf("ask the leader: %w", err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, fmt.Errorf("ask the leader: %w", err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrKeyNotFound
	case answer.Error != nil:
		return nil, fmt.Errorf("ask the leader: %w", answer.Error)
	case answer.Message == nil:
		return nil, errors.New("ask the leader: empty answer")
	}
	m := answer.Message
	if len(m.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(m.Header)
		if err != nil {
			return nil, fmt.Errorf("ask the leader: %w", err)
		}
		if header.Get("KV-Operation") != "" || header.Get(jetstream.MarkerReasonHeader) != "" {
			return nil, jetstream.ErrKeyNotFound // a deletion
		}
	}
	return &entry{bucket: bucket, key: key, value: m.Data, revision: m.Sequence, created: m.Time}, nil
}

func (l *leader) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	return l.kv.Create(ctx, key, value, opts...)
}

func (l *leader) Delete(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	if l.markerTTL > 0 {
		opts = append(opts, jetstream.PurgeTTL(l.markerTTL))
	}
	return l.kv.Purge(ctx, key, opts...)
}

// entry is a live key as the leader knows it.
type entry struct {
	bucket, key string
	value       []byte
	revision    uint64
	created     time.Time
}

func (e *entry) Bucket() string                  { return e.bucket }
func (e *entry) Key() string                     { return e.key }
func (e *entry) Value() []byte                   { return e.value }
func (e *entry) Revision() uint64                { return e.revision }
func (e *entry) Created() time.Time              { return e.created }
func (e *entry) Delta() uint64                   { return 0 }
func (e *entry) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }
