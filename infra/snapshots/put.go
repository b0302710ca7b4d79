package snapshots

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/failpoint"
	"pilotstatus.dev/infra/topology"
)

// The layout of an object in its stream: https://github.com/nats-io/nats-architecture-and-design, ADR-20.
const (
	bucketStream = "OBJ_" + topology.BucketSnapshots
	subjects     = "$O." + topology.BucketSnapshots + "."
	chunks       = subjects + "C." // before the id of an object
	metas        = subjects + "M." // before the encoded name of an object
	chunkSize    = 128 << 10
)

// put writes an object as the client library does, with which all else reads it, but waits for each acknowledgement. The library's
// put publishes asynchronously, and a goroutine of it never ends when the put returns before that has begun (nats.go 1.55,
// resetPendingAcksOnReconnect): about one put in a thousand on a busy machine, and each that finds the server gone. What a put
// that failed leaves behind, sweep takes away.
func (s *Store) put(ctx context.Context, name string, data []byte) error {
	old, err := s.objects.GetInfo(ctx, name)
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return err
	}
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize}},
		Bucket:     topology.BucketSnapshots, NUID: uuid.NewString(), Size: uint64(len(data)),
	}
	digest := sha256.New()
	for chunk := range slices.Chunk(data, chunkSize) {
		if _, err := s.js.Publish(ctx, chunks+info.NUID, chunk); err != nil {
			return err
		}
		digest.Write(chunk)
		if info.Chunks++; info.Chunks == 1 {
			failpoint.Hit("dispatcher.snapshot_half_written")
		}
	}
	info.Digest = jetstream.GetObjectDigestValue(digest)
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	subject := metas + base64.URLEncoding.EncodeToString([]byte(name))
	header := nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}
	if _, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: header, Data: text}); err != nil || old == nil {
		return err
	}
	stream, err := s.js.Stream(ctx, bucketStream)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(chunks+old.NUID))
}
