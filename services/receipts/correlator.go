package receipts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
)

// Durable is the name of the correlator's consumer on RECEIPTS.
const Durable = "correlator"

// Log is what the correlator needs of the log.
type Log interface {
	Reader
	Appender
	AppendFenced(ctx context.Context, p events.Partition, instance string, ev events.Event, expected uint64) (uint64, error)
}

// Reader follows and consumes streams.
type Reader interface {
	Tail(ctx context.Context, cfg eventlog.TailConfig, handle func(context.Context, eventlog.Batch) error) error
	Consume(ctx context.Context, cfg eventlog.DurableConfig, handle func(context.Context, *eventlog.Delivery)) error
}

// Known is what the read side knows of the message that has a gateway id.
type Known struct {
	MessageID string
	TenantID  string
	QueuedSeq uint64
	Attempt   int
	Left      bool // it was accepted or proved
	Ended     bool
	Recorded  []events.Status // states for which a receipt is in the log
}

// Finder looks a message up by gateway id where it is too old for the correlator's memory. An error means that it cannot be
// asked now; it will be again.
type Finder interface {
	ByGatewayID(ctx context.Context, instance, gatewayID string) (k Known, found bool, err error)
}

// Settings tune a Correlator. Zero values take the defaults.
type Settings struct {
	Kept        time.Duration // messages are remembered for; 72 h
	Unmatched   time.Duration // receipts without a message are kept for; 7 d
	MaxKept     int           // messages in memory, about 450 bytes each; 250,000
	MaxHeld     int           // key ids in memory without a message; 200,000
	Grace       time.Duration // the Finder is asked about a key id, and what another process was to record is recorded here, after; 30 s
	ProveAfter  time.Duration // a receipt proves an attempt whose answer is outstanding after; 2 s
	Debounce    time.Duration // a recorded change of a connection is not changed again within; 5 s, doubling while it flaps
	DebounceMax time.Duration // and at most; 5 min
	Sweep       time.Duration // what could not be recorded is tried again each; 500 ms
	Ask         time.Duration // the Finder is asked about the same key id again after; 10 min, doubling
	AskMax      time.Duration // and at most; 6 h
	AskLimit    int           // questions to the Finder in one sweep; 20
	Prune       time.Duration // what is old is forgotten, and gaps are looked for, each; 1 min
	GapAfter    time.Duration // a message should have a receipt after; 15 min
	GapWindow   time.Duration // what left in so long a time before that is looked at for gaps; 1 h
	GapSample   int           // an instance with fewer messages in it is not judged; 10
	GapBelow    float64       // share of messages with a receipt below which an instance is silent; 0.5
	CallLimit   time.Duration // for one append, look-up or acknowledgement; 20 s
	Concurrency int           // observations handled at once; 8
	Finder      Finder        // may be nil
	Logger      zerolog.Logger
	Metrics     *Metrics
}

func (s Settings) withDefaults() Settings {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&s.Kept, 72 * time.Hour},
		{&s.Unmatched, 7 * 24 * time.Hour},
		{&s.Grace, 30 * time.Second},
		{&s.ProveAfter, 2 * time.Second},
		{&s.Debounce, 5 * time.Second},
		{&s.DebounceMax, 5 * time.Minute},
		{&s.Sweep, 500 * time.Millisecond},
		{&s.Ask, 10 * time.Minute},
		{&s.AskMax, 6 * time.Hour},
		{&s.CallLimit, 20 * time.Second},
		{&s.Prune, time.Minute},
		{&s.GapAfter, 15 * time.Minute},
		{&s.GapWindow, time.Hour},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	for _, n := range []struct {
		field *int
		value int
	}{{&s.MaxKept, 250_000}, {&s.MaxHeld, 200_000}, {&s.AskLimit, 20}, {&s.Concurrency, 8}, {&s.GapSample, 10}} {
		if *n.field <= 0 {
			*n.field = n.value
		}
	}
	if s.GapBelow <= 0 {
		s.GapBelow = 0.5
	}
	if s.Metrics == nil {
		s.Metrics = NewMetrics(nil)
	}
	return s
}

// Correlator binds what gateways of one partition said to messages. Several may run for one partition: each event they append
// has a deterministic id.
type Correlator struct {
	log       Log
	partition events.Partition
	settings  Settings

	mu        sync.Mutex
	book      *book
	instances map[string]*instanceState
	due       map[key]struct{} // held, and perhaps recordable now

	silent map[string]bool // instances with a gap; belongs to the sweep

	proving sync.Mutex    // one fenced append in flight
	wake    chan struct{} // due has grown
	moved   chan struct{} // closed and replaced when the tail of the log moves; guarded by mu
	live    bool          // the past was read; guarded by mu
	warm    chan struct{}
}

// NewCorrelator makes a correlator for a partition.
func NewCorrelator(log Log, p events.Partition, s Settings) *Correlator {
	s = s.withDefaults()
	return &Correlator{
		log: log, partition: p, settings: s, book: newBook(s.MaxKept, s.MaxHeld), instances: map[string]*instanceState{},
		due: map[key]struct{}{}, wake: make(chan struct{}, 1), moved: make(chan struct{}), warm: make(chan struct{}),
	}
}

// Warm is closed when the past was read and new observations are taken.
func (c *Correlator) Warm() <-chan struct{} { return c.warm }

// Run reads the past (the log, then what the gateways said), then correlates until ctx ends or the log cannot be read any more.
func (c *Correlator) Run(ctx context.Context) error {
	from := time.Now().Add(-max(c.settings.Kept, c.settings.Unmatched))
	group, ctx := errgroup.WithContext(ctx)
	logRead, receiptsRead := make(chan struct{}), make(chan struct{})
	group.Go(func() error {
		return c.follow(ctx, eventlog.TailConfig{
			Stream: events.EventsStream(c.partition), FromTime: from, HeadersOnly: true,
			Filters: []string{
				events.GroupFilter(c.partition, events.GroupDispatch), events.GroupFilter(c.partition, events.GroupReceipt),
				events.GroupFilter(c.partition, events.GroupInstance),
			},
		}, logRead, c.takeEvent)
	})
	group.Go(func() error {
		if !await.Closed(ctx, logRead) {
			return ctx.Err()
		}
		return c.follow(ctx, eventlog.TailConfig{Stream: events.ReceiptsStream(c.partition), FromTime: from}, receiptsRead, c.takeObservation)
	})
	group.Go(func() error {
		if !await.Closed(ctx, receiptsRead) {
			return ctx.Err()
		}
		c.begin()
		return c.sweep(ctx)
	})
	group.Go(func() error {
		if !await.Closed(ctx, c.warm) {
			return ctx.Err()
		}
		return c.log.Consume(ctx, eventlog.DurableConfig{
			Stream: events.ReceiptsStream(c.partition), Durable: Durable, Filters: []string{events.ReceiptsFilter(c.partition)},
			MaxAckPending: 1024, Concurrency: c.settings.Concurrency, Ahead: 64, About: aboutMessage,
		}, c.handle)
	})
	return fmt.Errorf("correlate receipts of partition %s: %w", c.partition, group.Wait())
}

// aboutMessage names the message of an observation. What the gateway says of one is recorded as it was said: a status that stands in the
// log behind a later one is no transition any more, and no customer hears of it.
func aboutMessage(d *eventlog.Delivery) string {
	if o, ok := d.Body.(*events.GatewayObserved); ok && o.KeyID != "" {
		return d.Address + " " + o.KeyID
	}
	return ""
}

// follow tails a stream into take; read is closed when the end was first reached.
func (c *Correlator) follow(ctx context.Context, cfg eventlog.TailConfig, read chan struct{}, take func(context.Context, events.Recorded)) error {
	first := true
	return c.log.Tail(ctx, cfg, func(ctx context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			take(ctx, rec)
		}
		if b.CaughtUp && first {
			first = false
			close(read)
		}
		return nil
	})
}

// begin ends the reading of the past: what it shows to be recordable is recorded now.
func (c *Correlator) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = true
	for k := range c.book.held {
		if _, known := c.book.claims[k]; known {
			c.due[k] = struct{}{}
		}
	}
	close(c.warm)
	c.signal()
}

// takeEvent takes an event of the log in.
func (c *Correlator) takeEvent(_ context.Context, rec events.Recorded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.book.apply(rec, time.Now()) {
		c.due[k] = struct{}{}
	}
	c.learnInstance(rec)
	close(c.moved)
	c.moved = make(chan struct{})
	if len(c.due) > 0 {
		c.signal()
	}
}

// signal tells the sweep that something is due.
func (c *Correlator) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// takeObservation remembers what the gateway said in this process: another process that consumed it may die with what it holds.
func (c *Correlator) takeObservation(ctx context.Context, rec events.Recorded) {
	_, instance, err := events.ParseReceiptSubject(rec.Address)
	o, ok := rec.Body.(*events.GatewayObserved)
	if err != nil || !ok {
		return
	}
	if o.Event != EventMessagesUpdate {
		c.connection(ctx, instance, rec, *o)
		return
	}
	state, means := StateOf(o.Status)
	if !means || !o.FromMe {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := key{instance, o.KeyID}
	cl, known := c.book.claims[k]
	if known && cl.message.recorded.has(state) {
		return
	}
	// What a known message needs is done by whoever consumes the observation, unless that was before this process began.
	s := sightingOf(*o, state)
	s.others = known && c.live
	c.book.hold(k, s, c.settings.Grace)
}

func sightingOf(o events.GatewayObserved, state events.Status) sighting {
	return sighting{state: state, word: o.Status, at: HappenedAt(o.At, o.ReceivedAt), received: o.ReceivedAt}
}
