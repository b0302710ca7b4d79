package sim

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// logFault is what happens on the way between one process and the log.
type logFault string

const (
	lostAck     logFault = "acks lost"       // of appends, after the server stored them
	lostAppend  logFault = "appends lost"    // on their way to the server
	lateAck     logFault = "acks late"       // others pass them
	lateAppend  logFault = "appends late"    // others pass them: one may land after its sender gave it up, or tried again
	lostSettle  logFault = "settles lost"    // acknowledgements of deliveries
	slowAnswers logFault = "answers slow"    // all that the server says, deliveries too, in order
	standstill  logFault = "standstills"     // nothing moves either way; then all of it does
	cutOff      logFault = "connections cut" // and made again
)

var logFaults = []logFault{lostAck, lostAppend, lateAck, lateAppend, lostSettle, slowAnswers, standstill, cutOff}

// wire is the way of one process to the log, over all its connections.
type wire struct {
	host  *logHost
	rec   *recorder
	watch func(op) // sees what goes to the server; may be nil

	mu    sync.Mutex
	rand  *rand.Rand
	open  map[net.Conn]net.Conn // the client's end of ours → the server's
	fault logFault
	rate  float64       // part of what may be hit that is
	delay time.Duration // at most
	until time.Time
	acks  map[string]struct{} // replies of appends while a fault of acknowledgements lasts
}

func newWire(w *world, name string) *wire {
	var n uint64
	for _, c := range name {
		n = n*131 + uint64(c)
	}
	return &wire{
		host: w.host, rec: w.rec, rand: rand.New(rand.NewPCG(w.plan.Seed, n)), open: map[net.Conn]net.Conn{}, acks: map[string]struct{}{},
	}
}

// set begins a fault.
func (w *wire) set(f logFault, rate float64, delay, length time.Duration) {
	w.mu.Lock()
	w.fault, w.rate, w.delay, w.until = f, rate, delay, time.Now().Add(length)
	clear(w.acks)
	w.mu.Unlock()
	if f == cutOff {
		w.cut()
	}
	if f == cutOff || f == standstill || f == slowAnswers {
		w.rec.hit(string(f))
	}
}

// stands gives how long the process still stands still.
func (w *wire) stands() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != standstill {
		return 0
	}
	return max(0, time.Until(w.until))
}

// troubledUntil gives until when who begins now may be held up by the fault that lasts; zero when none does.
func (w *wire) troubledUntil() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lasts() {
		return time.Time{}
	}
	return w.until.Add(afterFault)
}

// holdsUp reports that what comes from the server now comes later, each time.
func (w *wire) holdsUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lasts() && (w.fault == standstill || w.fault == slowAnswers)
}

// up judges what goes to the server.
func (w *wire) up(f *flow, o op) (wait time.Duration, passes bool) {
	if w.watch != nil {
		w.watch(o)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lasts() {
		return 0, true
	}
	switch w.fault {
	case standstill:
		return time.Until(w.until), true
	case lostAck, lateAck:
		if o.appends() && w.rand.Float64() < w.rate {
			w.acks[o.reply] = struct{}{}
		}
	case lostAppend:
		if o.appends() && w.rand.Float64() < w.rate {
			w.rec.hit(string(lostAppend))
			return 0, false
		}
	case lostSettle:
		if o.settles() && w.rand.Float64() < w.rate {
			w.rec.hit(string(lostSettle))
			return 0, false
		}
	case lateAppend:
		if o.appends() && w.rand.Float64() < w.rate {
			w.late(f, o)
			return 0, false
		}
	default:
	}
	return 0, true
}

// down judges what the server says.
func (w *wire) down(f *flow, o op) (wait time.Duration, passes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lasts() {
		return 0, true
	}
	switch w.fault {
	case standstill:
		return time.Until(w.until), true
	case slowAnswers:
		return w.delay, true
	case lostAck, lateAck:
		if _, marked := w.acks[o.subject]; !marked {
			return 0, true
		}
		delete(w.acks, o.subject)
		if w.fault == lateAck {
			w.late(f, o)
			return 0, false
		}
		w.rec.hit(string(lostAck))
		return 0, false
	default:
	}
	return 0, true
}

func (w *wire) lasts() bool { return w.fault != "" && time.Now().Before(w.until) }

// late puts an operation behind those that follow it.
func (w *wire) late(f *flow, o op) {
	w.rec.hit(string(w.fault))
	data := append([]byte(nil), o.raw...)
	time.AfterFunc(time.Duration(w.rand.Int64N(int64(w.delay))), func() { f.put(parcel{at: time.Now(), data: data}) })
}
