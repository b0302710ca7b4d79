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
	// afterFault is how long after a fault of its way to the log a dispatcher may still be held up.
	afterFault = latestAnswer + takeover
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

func (k keys) HashText(ctx context.Context, tenant, text string) (string, error) {
	return k.w.keys.Hash(ctx, tenant, "last-message", []byte(text))
}

// life is one dispatcher from its start to its end.
type life struct {
	nc     *nats.Conn
	off    bool // its clock is too far off for it to do anything
	began  time.Time
	broken time.Time // until then its way to the log is not to be relied on
	cancel context.CancelFunc
	done   chan struct{}
}

// fleet is the dispatchers, each in a seat. Only one goroutine uses it.
type fleet struct {
	w     *world
	seats map[string]*life
	alone time.Time // since when nobody works; zero while somebody does
	ended time.Time // when the last one that worked ended
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

// start puts a new dispatcher into an empty seat. The stray one asks another server who lives: it hears of nobody else, and works for
// every instance beside its true owner.
func (f *fleet) start(seat string) {
	if f.seats[seat] == nil {
		f.startBy(seat, f.clock(seat))
	}
}

// startRight puts one into an empty seat whose clock is right.
func (f *fleet) startRight(seat string) {
	if f.seats[seat] == nil {
		f.startBy(seat, 0)
	}
}

func (f *fleet) startBy(seat string, clock time.Duration) {
	w := f.w
	js, err := w.connect(w.wires[seat], seat)
	if err != nil {
		w.rec.fail("connect dispatcher", err)
		return
	}
	log := w.logOver(js)
	leases := eventlog.NewLeases(log, deployment)
	if seat == stray {
		other, err := w.connect(w.astray, seat)
		if err != nil {
			w.rec.fail("connect dispatcher", err)
			return
		}
		leases = eventlog.NewLeases(w.logOver(other), deployment)
	}
	var id string
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
	l := &life{nc: js.Conn(), off: off, began: time.Now(), broken: w.wires[seat].troubledUntil(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		if err := d.Run(ctx); err != nil {
			w.rec.fail("dispatcher", err)
		}
	}()
	settled := newer(time.Now().Add(takeover), l.broken)
	if !off && !f.alone.IsZero() {
		f.away(f.alone, settled)
		f.alone = time.Time{}
	}
	f.seats[seat] = l
	f.stir(time.Now(), settled)
}

// end lets a dispatcher end its turns, or takes its log away first: whatever it was doing stays open then, and no outcome of it is
// recorded.
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
	l.cancel()
	<-l.done
	f.stir(began, time.Now().Add(takeover))
	if l.off {
		return
	}
	if !f.covered(began) {
		f.away(began, f.troubledUntil(time.Now().Add(takeover)))
	}
	f.ended = time.Now()
	if !f.works() {
		f.alone = began
	}
}

// covered reports that others go on with what one that ends leaves.
func (f *fleet) covered(now time.Time) bool { return f.coveredBut("", now) }

// coveredBut reports that others go on with what one seat leaves, or cannot do while its way is broken: one has been there for so long
// that it knows everything, and none ended of late whose share would be without anybody now. Each partition is folded by two of all that
// live, and a third one begins only when one of them is known to be gone: where the way of yet another seat is broken, those two may be
// the ones that do nothing.
func (f *fleet) coveredBut(but string, now time.Time) bool {
	sound := false
	for seat, l := range f.seats {
		switch {
		case seat == but || seat == stray || l.off:
		case !now.After(l.broken):
			return false
		case now.Sub(l.began) > takeover:
			sound = true
		}
	}
	return sound && now.Sub(f.ended) > takeover
}

// troubledUntil gives until when somebody may not work, or at where that is later.
func (f *fleet) troubledUntil(at time.Time) time.Time {
	for _, l := range f.seats {
		if !l.off {
			at = newer(at, l.broken)
		}
	}
	return at
}

// works reports that some dispatcher is there that does anything.
func (f *fleet) works() bool {
	for _, l := range f.seats {
		if !l.off {
			return true
		}
	}
	return false
}

// breakWay notes that the way of a seat to the log is broken for a while.
func (f *fleet) breakWay(seat string, length time.Duration) {
	now := time.Now()
	until := now.Add(length + afterFault)
	f.stir(now, until)
	l := f.seats[seat]
	if l == nil {
		return // whoever is put there meanwhile asks its wire
	}
	l.broken = newer(l.broken, until)
	if !l.off && !f.coveredBut(seat, now) {
		f.away(now, until)
	}
}

// stir notes that who works for an instance may change, or may not get on.
func (f *fleet) stir(from, to time.Time) {
	f.w.rec.note(func(r *recording) { r.Stirred = append(r.Stirred, span{from, to}) })
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
		f.end(seat, false)
	}
}
