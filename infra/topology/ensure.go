package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
)

// Change is one thing that Ensure did.
type Change struct {
	Kind Kind
	Name string // of the stream or bucket that was created
}

// Ensure creates the streams and buckets of a deployment that are missing. Those that exist are compared with the
// table: any difference is a *DriftError, returned with all the others, and nothing of it is changed. It is
// idempotent and may run in several processes at once. ctx must have a deadline.
func Ensure(ctx context.Context, js jetstream.JetStream, d Deployment) ([]Change, error) {
	return ensure(ctx, js, d, Table(d))
}

// EnsureControl does what Ensure does for CONTROL alone, so that EnsureDeployment can be asked for the number of
// partitions before any of their streams is made.
func EnsureControl(ctx context.Context, js jetstream.JetStream, d Deployment) ([]Change, error) {
	return ensure(ctx, js, d, []Resource{control(d.withDefaults())})
}

func ensure(ctx context.Context, js jetstream.JetStream, d Deployment, table []Resource) ([]Change, error) {
	d = d.withDefaults()
	if d.Partitions < 1 || d.Partitions > events.MaxPartitions || d.Replicas < 1 || d.LaneCap < 1 {
		return nil, fmt.Errorf("ensure streams: %d partitions, %d replicas, %d lanes: out of range", d.Partitions, d.Replicas, d.LaneCap)
	}
	var changes []Change
	var drifts []Drift
	for _, r := range table {
		var have jetstream.Stream
		err := answered(ctx, func(ctx context.Context) (err error) {
			have, err = js.Stream(ctx, r.Stream.Name)
			return err
		})
		switch {
		case err == nil:
			drifts = append(drifts, diff(r.Stream, have.CachedInfo().Config)...)
			continue
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return changes, fmt.Errorf("look up stream %s: %w", r.Stream.Name, err)
		}
		found, err := Create(ctx, js, r)
		if err != nil {
			return changes, err
		}
		// Another process may have been faster, and its table another one.
		if more := diff(r.Stream, found); len(more) > 0 {
			drifts = append(drifts, more...)
			continue
		}
		changes = append(changes, Change{Kind: r.Kind, Name: r.Name})
	}
	if len(drifts) > 0 {
		return changes, &DriftError{Drifts: drifts}
	}
	return changes, nil
}

// answerTry bounds one question: of a cluster that elects a leader meanwhile the answer may never come.
const answerTry = 10 * time.Second

// gathering is how long a cluster may say that it has not all of its nodes before it is believed: each hears of the others only some time
// after they came. gatherEvery is how often it is asked meanwhile.
const (
	gathering   = 20 * time.Second
	gatherEvery = 250 * time.Millisecond
)

// answered asks again what gets no answer, until ctx ends, and a cluster that still gathers.
func answered(ctx context.Context, ask func(context.Context) error) error {
	for began := time.Now(); ; {
		try, cancel := context.WithTimeout(ctx, answerTry)
		err := ask(try)
		unanswered := try.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return nil
		case unanswered:
		case !gathers(err) || time.Since(began) > gathering || !await.Elapsed(ctx, gatherEvery):
			return err
		}
	}
}

// What a cluster answers that has too few nodes, or no leader, at the moment (the server's errors.json).
const (
	codeNoPeers      jetstream.ErrorCode = 10005
	codeNotAvailable jetstream.ErrorCode = 10008
)

func gathers(err error) bool {
	said := (*jetstream.APIError)(nil)
	return errors.As(err, &said) && (said.ErrorCode == codeNoPeers || said.ErrorCode == codeNotAvailable)
}

// Create makes one resource and gives the configuration that the server now has for it. One that exists already,
// whatever its configuration, is no error. What gets no answer is asked for again until ctx ends, and for a while what a cluster
// refuses that has not all of its nodes yet.
func Create(ctx context.Context, js jetstream.JetStream, r Resource) (jetstream.StreamConfig, error) {
	var found jetstream.StreamConfig
	err := answered(ctx, func(ctx context.Context) (err error) {
		found, err = create(ctx, js, r)
		return err
	})
	return found, err
}

func create(ctx context.Context, js jetstream.JetStream, r Resource) (jetstream.StreamConfig, error) {
	var err error
	switch r.Kind {
	case KindKeyValue:
		_, err = js.CreateKeyValue(ctx, *r.KeyValue)
	case KindObjects:
		_, err = js.CreateObjectStore(ctx, *r.Objects)
	default:
		_, err = js.CreateStream(ctx, r.Stream)
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return jetstream.StreamConfig{}, fmt.Errorf("create %s %s: %w", r.Kind, r.Name, err)
	}
	found, err := js.Stream(ctx, r.Stream.Name)
	if err != nil {
		return jetstream.StreamConfig{}, fmt.Errorf("look up stream %s: %w", r.Stream.Name, err)
	}
	return found.CachedInfo().Config, nil
}
