package topology_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/topology"
)

// deaf is a server that makes a stream and whose first answers are lost.
type deaf struct {
	jetstream.JetStream
	lost int
	made *jetstream.StreamConfig
}

type madeStream struct {
	jetstream.Stream
	info jetstream.StreamInfo
}

func (s *madeStream) CachedInfo() *jetstream.StreamInfo { return &s.info }

func (d *deaf) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	d.made = &cfg
	if d.lost > 0 {
		d.lost--
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &madeStream{info: jetstream.StreamInfo{Config: cfg}}, nil
}

func (d *deaf) Stream(context.Context, string) (jetstream.Stream, error) {
	return &madeStream{info: jetstream.StreamInfo{Config: *d.made}}, nil
}

// A cluster that elects a leader meanwhile may make a stream and never say so.
func TestCreateAsksAgainWhatIsNotAnswered(t *testing.T) {
	t.Parallel()
	r := topology.Table(topology.Deployment{Partitions: 1})[0]
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		began := time.Now()
		found, err := topology.Create(ctx, &deaf{lost: 2}, r)
		if err != nil || found.Name != r.Stream.Name || time.Since(began) > time.Minute {
			t.Errorf("after %s: %q, %v", time.Since(began), found.Name, err)
		}
		if _, err := topology.Create(ctx, &deaf{lost: 100}, r); err == nil || ctx.Err() == nil {
			t.Errorf("never answered: %v", err)
		}
	})
}
