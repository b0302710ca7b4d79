package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
)

// Change is one thing that Ensure did, or passed over.
type Change struct {
	Kind Kind
	Name string // of the stream or bucket that was created
	// Unseen says that it is the stream of a partition, exists and gives no answer: it was neither made nor compared.
	Unseen bool
}

// Ensure creates the streams and buckets of a deployment that are missing. Those that exist are compared with the
// table: any difference is a *DriftError, returned with all the others, and nothing of it is changed. The stream of a partition that
// exists and gives no answer is passed over: the other partitions do not wait for it. It is
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
	found, err := lookUp(ctx, js, table)
	if err != nil {
		return nil, err
	}
	var changes []Change
	var drifts []Drift
	for i, r := range table {
		switch {
		case found[i].unseen:
			changes = append(changes, Change{Kind: r.Kind, Name: r.Name, Unseen: true})
			continue
		case found[i].stream != nil:
			drifts = append(drifts, diff(r.Stream, found[i].stream.CachedInfo().Config)...)
			continue
		}
		made, err := Create(ctx, js, r)
		if err != nil {
			return changes, err
		}
		// Another process may have been faster, and its table another one.
		if more := diff(r.Stream, made); len(more) > 0 {
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

// lookedUp is what is there of a resource: nothing, its stream, or one that gives no answer.
type lookedUp struct {
	stream jetstream.Stream
	unseen bool
	err    error
}

// lookUpsAtOnce is how many streams are asked for side by side: each that is silent takes its time, and all together must not take that
// of a start.
const lookUpsAtOnce = 128

// lookUp asks for the streams of a table. The error is that of the first of them, in the order of the table, that cannot be told.
func lookUp(ctx context.Context, js jetstream.JetStream, table []Resource) ([]lookedUp, error) {
	found := make([]lookedUp, len(table))
	all, each := errgroup.WithContext(ctx)
	all.SetLimit(lookUpsAtOnce)
	for i, r := range table {
		all.Go(func() error {
			f := &found[i]
			f.err = answered(each, func(try context.Context) (err error) {
				f.stream, err = js.Stream(try, r.Stream.Name)
				if err != nil && r.partition && (offline(err) || try.Err() != nil) && named(each, js, r.Stream.Name) {
					f.unseen = true
					return nil
				}
				return err
			})
			if errors.Is(f.err, jetstream.ErrStreamNotFound) {
				f.stream, f.err = nil, nil
			}
			return f.err
		})
	}
	failed := all.Wait()
	for i, r := range table {
		if err := found[i].err; err != nil && (ctx.Err() != nil || !errors.Is(err, context.Canceled)) { // else another one's
			return nil, fmt.Errorf("look up stream %s: %w", r.Stream.Name, err)
		}
	}
	return found, failed
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

// What a cluster answers that has too few nodes, or no leader, at the moment, and of a stream whose nodes are all away (the server's
// errors.json).
const (
	codeNoPeers      jetstream.ErrorCode = 10005
	codeNotAvailable jetstream.ErrorCode = 10008
	codeOffline      jetstream.ErrorCode = 10118
)

func offline(err error) bool {
	said := (*jetstream.APIError)(nil)
	return errors.As(err, &said) && said.ErrorCode == codeOffline
}

// named reports that the server knows of a stream, whether that answers or not: the cluster as a whole says so.
func named(ctx context.Context, js jetstream.JetStream, name string) bool {
	try, cancel := context.WithTimeout(ctx, answerTry)
	defer cancel()
	all := js.StreamNames(try)
	found := false
	for other := range all.Name() {
		found = found || other == name
	}
	return found && all.Err() == nil
}

// errUnborn says that a stream is made, by somebody else perhaps, and not there yet: in a cluster its nodes begin after the word that it is.
var errUnborn = errors.New("it is made, and not there yet")

func gathers(err error) bool {
	said := (*jetstream.APIError)(nil)
	return errors.Is(err, errUnborn) || errors.As(err, &said) && (said.ErrorCode == codeNoPeers || said.ErrorCode == codeNotAvailable)
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
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = errors.Join(errUnborn, err)
	}
	if err != nil {
		return jetstream.StreamConfig{}, fmt.Errorf("look up stream %s: %w", r.Stream.Name, err)
	}
	return found.CachedInfo().Config, nil
}
