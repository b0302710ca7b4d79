package topology_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
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

// mute is a server with every stream of which one, or those of all partitions, give no answer.
type mute struct {
	jetstream.JetStream
	table []topology.Resource
	name  string
	all   bool  // those of all partitions
	says  error // instead of nothing
	gone  bool  // it is not in the list either
}

func (m *mute) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name == m.name || m.all && (strings.HasPrefix(name, "EVENTS_") || strings.HasPrefix(name, "RECEIPTS_")) {
		if m.says != nil && name == m.name {
			return nil, m.says
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	i := slices.IndexFunc(m.table, func(r topology.Resource) bool { return r.Stream.Name == name })
	return &madeStream{info: jetstream.StreamInfo{Config: m.table[i].Stream}}, nil
}

type names struct{ c chan string }

func (n names) Name() <-chan string { return n.c }
func (n names) Err() error          { return nil }

func (m *mute) StreamNames(context.Context, ...jetstream.StreamListOpt) jetstream.StreamNameLister {
	c := make(chan string, len(m.table))
	for _, r := range m.table {
		if r.Stream.Name != m.name || !m.gone {
			c <- r.Stream.Name
		}
	}
	close(c)
	return names{c}
}

// The wait for the silent is one for all: else a few partitions without an answer would take all the time that a start has.
func TestEnsureWaitsForAllThatAreSilentAtOnce(t *testing.T) {
	t.Parallel()
	d := topology.Deployment{Partitions: events.MaxPartitions}
	var want []topology.Change
	table := topology.Table(d)
	for _, r := range table {
		if strings.HasPrefix(r.Name, "EVENTS_") || strings.HasPrefix(r.Name, "RECEIPTS_") {
			want = append(want, topology.Change{Kind: r.Kind, Name: r.Name, Unseen: true})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		began := time.Now()
		changes, err := topology.Ensure(ctx, &mute{table: table, all: true}, d)
		if err != nil || !slices.Equal(changes, want) || time.Since(began) > 50*time.Second {
			t.Errorf("%d changes, %v after %s, want %d in the order of the table", len(changes), err, time.Since(began), len(want))
		}
		// One that is refused for good is told at once, whoever else is silent.
		began = time.Now()
		refused := &jetstream.APIError{Code: 400, ErrorCode: 10026}
		_, err = topology.Ensure(ctx, &mute{table: table, name: events.StreamControl, says: refused, all: true}, d)
		if !errors.Is(err, refused) || !strings.Contains(err.Error(), events.StreamControl) || time.Since(began) > time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// A partition that gives no answer keeps no process from starting, as long as the server knows its stream. Without anything else none starts.
func TestEnsurePassesOverAPartitionThatGivesNoAnswer(t *testing.T) {
	t.Parallel()
	d := topology.Deployment{Partitions: 2}
	events1, receipts0 := events.EventsStream(1), events.ReceiptsStream(0)
	offline := &jetstream.APIError{Code: 500, ErrorCode: 10118}
	for what, c := range map[string]struct {
		mute mute
		over bool
	}{
		"no answer":             {mute{name: events1}, true},
		"offline":               {mute{name: events1, says: offline}, true},
		"of receipts":           {mute{name: receipts0}, true},
		"not a partition's":     {mute{name: events.StreamDead}, false},
		"not known to be there": {mute{name: events1, gone: true}, false},
		"refused for good":      {mute{name: events1, says: &jetstream.APIError{Code: 400, ErrorCode: 10026}}, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				c.mute.table = topology.Table(d)
				began := time.Now()
				changes, err := topology.Ensure(ctx, &c.mute, d)
				want := []topology.Change{{Kind: topology.KindStream, Name: c.mute.name, Unseen: true}}
				switch {
				case !c.over && err == nil:
					t.Errorf("passed over: %v", changes)
				case c.over && (err != nil || !slices.Equal(changes, want) || time.Since(began) > 15*time.Second):
					t.Errorf("%v, %v after %s", changes, err, time.Since(began))
				}
			})
		})
	}
}
