package eventlog

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
)

// Options tune a Log. Zero values take the defaults.
type Options struct {
	// Registry decodes and encodes; events.Standard by default.
	Registry *events.Registry
	// Logger hears of restarts and repeated tries; never of a payload.
	Logger zerolog.Logger
	// TryTimeout bounds one publish or read, 2 s by default. An append tries again until its own deadline.
	TryTimeout time.Duration
	// AppendLimit bounds an append whose context has no deadline, 20 s by default.
	AppendLimit time.Duration
	// BackoffMin and BackoffMax bound the pause between tries, 25 ms and 1 s by default; half of it is random.
	BackoffMin, BackoffMax time.Duration
	// Heartbeat is what a waiting reader asks of the server, 5 s by default; a reader that misses two looks for the
	// cause. From 500 ms to 30 s.
	Heartbeat time.Duration
	// Stuck is how long a reader to whom the server beats may bring nothing while events wait for it, before it is cut and made anew,
	// 10 s by default: it is noticed within twice that.
	Stuck time.Duration
	// OnStuck hears of each reader that was cut so, by its stream. May be nil.
	OnStuck func(stream string)
	// Inactive is how long the server keeps a tail's consumer that nobody reads, 30 s by default.
	Inactive time.Duration
	// Courtesy has what reads here let others go first: it waits before each delivery of Consume, and before what Tail hands over, unless
	// many events wait behind it, so that it costs time and no throughput. nil: nothing waits.
	Courtesy Courtesy
	// Durability makes durable what the server stores without a sync of its own. nil where the server syncs before it
	// acknowledges, or where its copies are the safety.
	Durability Durability
}

func (o Options) withDefaults() Options {
	if o.Registry == nil {
		o.Registry = events.Standard
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.TryTimeout, 2 * time.Second},
		{&o.AppendLimit, 20 * time.Second},
		{&o.BackoffMin, 25 * time.Millisecond},
		{&o.BackoffMax, time.Second},
		{&o.Heartbeat, 5 * time.Second},
		{&o.Stuck, 10 * time.Second},
		{&o.Inactive, 30 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	o.Heartbeat = min(max(o.Heartbeat, 500*time.Millisecond), 30*time.Second) // what server and client library take
	return o
}

// Log appends and reads events over one connection, which belongs to the caller. It starts nothing by itself, so there
// is nothing to close; all methods are safe for concurrent use.
type Log struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	prefix string // of the JetStream API
	opts   Options
	looks  looks
}

// New makes a Log over a JetStream context.
func New(js jetstream.JetStream, opts Options) *Log {
	prefix := jetstream.DefaultAPIPrefix
	switch o := js.Options(); {
	case o.Domain != "":
		prefix = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return &Log{nc: js.Conn(), js: js, prefix: prefix, opts: opts.withDefaults(), looks: looks{of: map[[2]string]*look{}}}
}

// try bounds one outside call.
func (l *Log) try(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.opts.TryTimeout)
}

// pause waits before try n (0-based) is repeated; false when ctx ended.
func (l *Log) pause(ctx context.Context, n int) bool {
	return await.Backoff(ctx, l.opts.BackoffMin, l.opts.BackoffMax, n)
}

// partitions maps the names of partitioned streams to their partition.
var partitions = sync.OnceValue(func() map[string]events.Partition {
	m := make(map[string]events.Partition, 2*events.MaxPartitions)
	for i := range events.MaxPartitions {
		p := events.Partition(i)
		m[events.EventsStream(p)], m[events.ReceiptsStream(p)] = p, p
	}
	return m
})

// position places a sequence of a stream; streams without partitions count as partition 0.
func position(stream string, seq uint64) events.Position {
	return events.Position{Partition: partitions()[stream], Sequence: seq}
}

// reader says whose tails these are: the name of the connection.
func (l *Log) reader() string { return cmp.Or(l.nc.Opts.Name, "a reader without a name") }
