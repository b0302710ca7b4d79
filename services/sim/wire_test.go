package sim

import (
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"pilotstatus.dev/infra/natsserver"
)

// logHost is where the log's server is; nobody is there while it is down.
type logHost struct {
	mu     sync.Mutex
	server *natsserver.Server
	open   map[*hostConn]struct{} // the clients' ends
}

// hostConn is a client's end that the host can break.
type hostConn struct {
	net.Conn
	host *logHost
}

func (c *hostConn) Close() error {
	c.host.mu.Lock()
	delete(c.host.open, c)
	c.host.mu.Unlock()
	return c.Conn.Close()
}

// InProcessConn implements nats.InProcessConnProvider.
func (h *logHost) InProcessConn() (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		return nil, errors.New("the log's server is down")
	}
	conn, err := h.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	c := &hostConn{Conn: conn, host: h}
	h.open[c] = struct{}{}
	return c, nil
}

// set puts a server there, or takes it away with every connection; it gives the one that was there.
func (h *logHost) set(s *natsserver.Server) *natsserver.Server {
	h.mu.Lock()
	old, broken := h.server, slices.Collect(maps.Keys(h.open))
	h.server = s
	h.mu.Unlock()
	for _, c := range broken {
		_ = c.Close()
	}
	return old
}

// InProcessConn implements nats.InProcessConnProvider: a connection of the process that breaks as the wire's fault says.
func (w *wire) InProcessConn() (net.Conn, error) {
	// A client greets under a lock of its own, and virtual time does not pass while anybody waits for a lock: a greeting that is held up
	// would hold up the world.
	if w.holdsUp() {
		return nil, errors.New("the way to the log is held up")
	}
	server, err := w.host.InProcessConn()
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	up, down := newFlow(), newFlow()
	w.mu.Lock()
	w.open[far] = server
	w.mu.Unlock()
	// Four goroutines, which end when either side closes: who reads never waits for who writes, as with the buffers of a socket.
	go func() {
		up.read(far, w.up)
		w.mu.Lock()
		delete(w.open, far)
		w.mu.Unlock()
	}()
	go up.write(server)
	go down.read(server, w.down)
	go down.write(far)
	return near, nil
}

// cut breaks every connection of the process.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for far, server := range w.open {
		_ = far.Close()
		_ = server.Close()
	}
}

// flow is one direction of a connection.
type flow struct {
	mu    sync.Mutex
	queue []parcel
	ended bool          // nothing more is put
	moved chan struct{} // holds one value after a change
}

// parcel is some bytes, and the moment from which on they arrive.
type parcel struct {
	at   time.Time
	data []byte
}

func newFlow() *flow { return &flow{moved: make(chan struct{}, 1)} }

func (f *flow) put(p parcel) {
	f.mu.Lock()
	if n := len(f.queue); n > 0 && p.at.Before(f.queue[n-1].at) {
		p.at = f.queue[n-1].at // a connection keeps the order
	}
	f.queue = append(f.queue, p)
	f.mu.Unlock()
	f.wake()
}

func (f *flow) wake() {
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

// read takes operations from one end until it closes, each as judge says.
func (f *flow) read(from net.Conn, judge func(*flow, op) (wait time.Duration, passes bool)) {
	defer func() {
		f.mu.Lock()
		f.ended = true
		f.mu.Unlock()
		f.wake()
	}()
	chunk := make([]byte, 64<<10)
	var held []byte
	for {
		n, err := from.Read(chunk)
		if err != nil {
			return
		}
		held = append(held, chunk[:n]...)
		now := time.Now()
		var ready parcel
		for rest := held; ; {
			o, after, ok := cutOp(rest)
			if !ok {
				held = append([]byte(nil), rest...)
				break
			}
			rest = after
			wait, passes := judge(f, o)
			if !passes {
				continue
			}
			at := now.Add(wait)
			if len(ready.data) > 0 && !ready.at.Equal(at) {
				f.put(ready)
				ready = parcel{}
			}
			ready.at, ready.data = at, append(ready.data, o.raw...)
		}
		if len(ready.data) > 0 {
			f.put(ready)
		}
	}
}

// write brings what is put to the other end, each parcel at its time, and closes that end after the last one.
func (f *flow) write(to net.Conn) {
	defer func() { _ = to.Close() }()
	broken := false
	for {
		f.mu.Lock()
		var next parcel
		waits, ended := len(f.queue) > 0, f.ended
		if waits {
			next, f.queue = f.queue[0], f.queue[1:]
		}
		f.mu.Unlock()
		switch {
		case waits:
			if broken {
				continue
			}
			pass(time.Until(next.at))
			if _, err := to.Write(next.data); err != nil {
				broken = true // what follows is lost; who puts it is not held up
			}
		case ended:
			return
		default:
			<-f.moved
		}
	}
}
