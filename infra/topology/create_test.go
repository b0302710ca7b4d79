package topology_test

import (
	"context"
	"errors"
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
	says error // instead of making it, unless lost
	asks int
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
		if d.says != nil {
			d.asks++
			return nil, d.says
		}
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

// The nodes of a cluster that has just started hear of each other one after the other.
func TestCreateWaitsForAClusterThatGathers(t *testing.T) {
	t.Parallel()
	r := topology.Table(topology.Deployment{Partitions: 1, Replicas: 3})[0]
	few, full := &jetstream.APIError{Code: 400, ErrorCode: 10005}, &jetstream.APIError{Code: 400, ErrorCode: 10026}
	synctest.Test(t, func(t *testing.T) {
		if found, err := topology.Create(t.Context(), &deaf{lost: 3, says: few}, r); err != nil || found.Name != r.Stream.Name {
			t.Errorf("%q, %v", found.Name, err)
		}
		began := time.Now()
		if _, err := topology.Create(t.Context(), &deaf{lost: 1000, says: few}, r); !errors.Is(err, few) || time.Since(began) > time.Minute {
			t.Errorf("a cluster with too few nodes: %v after %s", err, time.Since(began))
		}
		d := &deaf{lost: 1000, says: full}
		if _, err := topology.Create(t.Context(), d, r); !errors.Is(err, full) || d.asks != 1 {
			t.Errorf("asked %d times for what is refused for good: %v", d.asks, err)
		}
	})
}
