package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/services/dispatcher"
	"pilotstatus.dev/services/receipts"
)

const (
	leaseTTL = 15 * time.Second
	// maxClockSkew is how far a dispatcher's clock may be off the log's; further, and it does nothing.
	maxClockSkew = 500 * time.Millisecond
	// takeover is how long it may last until a dispatcher works after another one stopped or it was started.
	takeover = 2*leaseTTL + 2*time.Second
)

// keys unseals for dispatchers.
type keys struct{ w *world }

func (k keys) OpenPayload(ctx context.Context, tenant, messageID string, s events.Sealed) ([]byte, error) {
	return k.w.keys.Open(ctx, tenant, s, keyring.AAD(tenant, messageID, events.FieldPayload))
}

func (k keys) OpenSecret(ctx context.Context, entity string, s events.Sealed) ([]byte, error) {
	return k.w.secrets.Open(ctx, entity, s)
}

func (k keys) HashJID(ctx context.Context, tenant, jid string) (string, error) {
	return k.w.keys.Hash(ctx, tenant, receipts.PurposeJID, []byte(jid))
}

// life is one dispatcher from its start to its end.
type life struct {
	nc     *nats.Conn
	off    bool // its clock is too far off for it to do anything
	cancel context.CancelFunc
	done   chan struct{}
}

// fleet is the dispatchers, each in a seat. Only one goroutine uses it.
type fleet struct {
	w     *world
	seats map[string]*life
	alone time.Time // since when nobody sits; zero while somebody does
	gone  time.Time // since when the first seat is empty
	rand  *rand.Rand
}

func newFleet(w *world) *fleet {
	return &fleet{w: w, seats: map[string]*life{}, alone: time.Now(), rand: rand.New(rand.NewPCG(w.plan.Seed, 0xc10c))}
}

// clock draws how far the clock of a new dispatcher is off: not at all, a little, or so far that it must do nothing. That of the
// first seat is never that far off, so that somebody works.
func (f *fleet) clock(seat string) time.Duration {
	least, most := time.Duration(0), maxClockSkew-50*time.Millisecond
	switch n := f.rand.IntN(4); {
	case n > 1:
		return 0
	case n == 1 && seat != seats[0]:
		least, most = maxClockSkew+50*time.Millisecond, 5*time.Minute
	}
	off := within(f.rand, least, most)
	if f.rand.IntN(2) == 0 {
		return -off
	}
	return off
}

// start puts a new dispatcher into an empty seat. One that goes astray asks another server for the lease, gets it, and leads
// beside the one that holds the true lease.
func (f *fleet) start(seat string, astray bool) {
	if f.seats[seat] != nil {
		return
	}
	w := f.w
	js, err := w.connect(w.wires[seat], seat)
	if err != nil {
		w.rec.fail("connect dispatcher", err)
		return
	}
	log := w.logOver(js)
	leases := eventlog.NewLeases(log, deployment)
	if astray {
		other, err := w.connect(w.astray, seat)
		if err != nil {
			w.rec.fail("connect dispatcher", err)
			return
		}
		leases = eventlog.NewLeases(w.logOver(other), deployment)
	}
	var id string
	clock := f.clock(seat)
	off := clock.Abs() > maxClockSkew
	w.rec.note(func(r *recording) {
		r.Lives++
		id = fmt.Sprintf("%s-%d", seat, r.Lives)
		r.Clocks[id] = clock
	})
	if off {
		w.rec.hit("clocks off")
	}
	d := dispatcher.New(dispatcher.Config{
		Settings: dispatcher.Settings{ID: id, LeaseTTL: leaseTTL, LoadsEvery: time.Minute, Now: func() time.Time { return time.Now().Add(clock) }},
		Logs:     []*eventlog.Log{log, log}, Leases: leases, Catalog: w.feed, Keys: keys{w},
		Gateway: func(url, key string) (*evolution.Client, error) {
			return evolution.New(evolution.Config{BaseURL: url, APIKey: key, Version: "2.3.6", Dial: w.dialFrom(seat, id)})
		},
		Logger: w.logger.With().Str("dispatcher", id).Logger(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{nc: js.Conn(), off: off, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		if err := d.Run(ctx); err != nil {
			w.rec.fail("dispatcher", err)
		}
	}()
	if len(f.seats) == 0 {
		f.away(f.alone, time.Now().Add(takeover))
	}
	if seat == seats[0] && !f.gone.IsZero() {
		for _, other := range f.seats {
			if other.off { // perhaps nobody worked while it was gone
				f.away(f.gone, time.Now().Add(takeover))
			}
		}
	}
	f.seats[seat] = l
}

// stop lets a dispatcher end its turns.
func (f *fleet) stop(seat string) { f.end(seat, false) }

// crash takes a dispatcher's log away first: whatever it was doing stays open, and no outcome of it is recorded.
func (f *fleet) crash(seat string) { f.end(seat, true) }

func (f *fleet) end(seat string, crash bool) {
	l := f.seats[seat]
	if l == nil {
		return
	}
	delete(f.seats, seat)
	if crash {
		l.nc.Close()
	}
	began := time.Now()
	if seat == seats[0] {
		f.gone = began
	}
	l.cancel()
	<-l.done
	if len(f.seats) == 0 {
		f.alone = began
		return
	}
	f.away(began, time.Now().Add(takeover))
}

func (f *fleet) away(from, to time.Time) {
	f.w.rec.note(func(r *recording) { r.Away = append(r.Away, span{from, to}) })
}

// dialFrom dials for a dispatcher; neither a dial nor an answer gets through while its process stands still.
func (w *world) dialFrom(seat, id string) func(ctx context.Context, network, address string) (net.Conn, error) {
	wire := w.wires[seat]
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		pass(wire.stands())
		conn, err := w.net.dialAs(ctx, id, address)
		if err != nil {
			return nil, err
		}
		return &stalledConn{Conn: conn, wire: wire}, nil
	}
}

// stalledConn brings nothing to a process that stands still. What the process wrote before had left.
type stalledConn struct {
	net.Conn
	wire *wire
}

func (c *stalledConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	pass(c.wire.stands())
	return n, err
}

func (f *fleet) close() {
	for seat := range f.seats {
		f.stop(seat)
	}
}
