package snapshots

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/topology"
)

// Store is the object store SNAPSHOTS. It is safe for concurrent use.
type Store struct {
	js      jetstream.JetStream
	objects jetstream.ObjectStore
	limit   time.Duration
	stale   time.Duration
}

// Defaults of a Store.
const (
	defaultLimit = time.Minute // of one put or get: a million pending messages are some 30 MB
	defaultStale = time.Hour   // after which a chunk that belongs to no object is of a put that was cut
)

// Open opens the bucket, which package topology made.
func Open(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	objects, err := js.ObjectStore(ctx, topology.BucketSnapshots)
	if err != nil {
		return nil, fmt.Errorf("open store of snapshots: %w", err)
	}
	return &Store{js: js, objects: objects, limit: defaultLimit, stale: defaultStale}, nil
}

// Put keeps data under name in place of what was there. After an error Get gives the old one or, when only the clearing up failed,
// the new one.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if err := s.put(ctx, name, data); err != nil {
		return fmt.Errorf("put snapshot %s: %w", name, err)
	}
	if err := s.sweep(ctx); err != nil {
		return fmt.Errorf("put snapshot %s: sweep: %w", name, err)
	}
	return nil
}

// Get gives what is kept under name. ErrNone: nothing is; ErrDamaged: its chunks are not what was put; any other error is an
// outage.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	data, err := s.get(ctx, name)
	if err == nil {
		return data, nil
	}
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		err = ErrNone
	}
	return nil, fmt.Errorf("get snapshot %s: %w", name, err)
}

// get reads what is under name. Chunks that are missing are damage only of an object that still has the name: a put that took
// its place meanwhile let go of them.
func (s *Store) get(ctx context.Context, name string) ([]byte, error) {
	for {
		info, err := s.objects.GetInfo(ctx, name)
		if err != nil {
			return nil, err
		}
		data, fault := s.read(ctx, info)
		if fault == nil {
			return data, nil
		}
		if now, err := s.objects.GetInfo(ctx, name); err != nil || now.NUID == info.NUID {
			return nil, errors.Join(fault, err)
		}
	}
}

// read reads the chunks of an object one by one: the library would wait for those that are gone until ctx ends.
func (s *Store) read(ctx context.Context, info *jetstream.ObjectInfo) ([]byte, error) {
	stream, err := s.js.Stream(ctx, bucketStream)
	if err != nil {
		return nil, err
	}
	subject := chunks + info.NUID
	state, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return nil, err
	}
	if have := state.State.Subjects[subject]; have != uint64(info.Chunks) {
		return nil, fmt.Errorf("%w: %d of %d chunks", ErrDamaged, have, info.Chunks)
	}
	var data []byte
	next := uint64(1)
	for n := range info.Chunks {
		// Not found is no damage here: the leader has it, a follower may not yet.
		msg, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			return nil, fmt.Errorf("chunk %d: %w", n+1, err)
		}
		data, next = append(data, msg.Data...), msg.Sequence+1
	}
	want, err := jetstream.DecodeObjectDigest(info.Digest)
	if sum := sha256.Sum256(data); err != nil || !bytes.Equal(want, sum[:]) {
		return nil, fmt.Errorf("%w: its digest is another", ErrDamaged)
	}
	return data, nil
}

// Delete lets go of what is kept under name; nothing there is no error.
func (s *Store) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if err := s.objects.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("delete snapshot %s: %w", name, err)
	}
	return nil
}

// sweep lets go of the chunks of puts that were cut: nobody else would ever.
func (s *Store) sweep(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, bucketStream)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(chunks+">"))
	if err != nil {
		return err
	}
	kept, err := s.objects.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return err
	}
	used := map[string]bool{}
	for _, o := range kept {
		used[o.NUID] = true
	}
	for subject := range info.State.Subjects {
		if used[strings.TrimPrefix(subject, chunks)] {
			continue
		}
		last, err := stream.GetLastMsgForSubject(ctx, subject)
		if err != nil || time.Since(last.Time) < s.stale { // gone meanwhile, or a put under way
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return err
		}
	}
	return nil
}
