package evolution

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errNoRequest = errors.New("write on a gateway connection outside a request")
	errFinished  = errors.New("write after the end of the gateway request")
	// errNoConnection is why a request was given up before there was anything to write it to.
	errNoConnection = errors.New("no connection to the gateway in the time there was for it")
)

// guard decides each write of one request and remembers whether any byte left.
type guard struct {
	check func() error // nil allows

	mu      sync.Mutex
	armed   bool  // there is, or was, a connection to write to
	writing bool  // a write has begun and not returned
	wrote   bool  // a byte left
	over    bool  // the request is over: nothing may be written for it any more
	stopped error // what check said when it refused

	asked time.Time     // before the check of the write that is under way
	pause time.Duration // the longest from there to the end of its write
}

// begin allows one write. The check comes last before it, so that as little as possible can change between them.
func (g *guard) begin() error {
	asked := time.Now()
	if g.check != nil {
		if err := g.check(); err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.stopped == nil {
				g.stopped = err
			}
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return errFinished
	}
	g.writing, g.asked = true, asked
	return nil
}

func (g *guard) end(wrote bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waited()
	g.writing = false
	g.wrote = g.wrote || wrote
}

// waited notes how long ago the check of the write under way was. The wall clock counts as well: it goes on while a machine sleeps. The
// caller holds mu.
func (g *guard) waited() {
	now := time.Now()
	g.pause = max(g.pause, now.Sub(g.asked), now.Round(0).Sub(g.asked.Round(0)))
}

// arrived notes that there is a connection to write to.
func (g *guard) arrived() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = true
}

// abandon ends the request if there was no connection yet, and tells whether that is so: a connection that comes at the same moment
// gets nothing written.
func (g *guard) abandon() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.armed {
		return false
	}
	g.over = true
	return true
}

// finish ends the request. The transport may return before its writing goroutine has run; after finish that goroutine can write nothing
// more, and a write that is under way counts as written, now at the earliest.
func (g *guard) finish() (wrote bool, pause time.Duration, stopped error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.writing {
		g.waited()
	}
	return g.wrote || g.writing, g.pause, g.stopped
}

// guardedConn is what the transport writes requests to: above TLS, so that one request is one write here whatever records it becomes.
type guardedConn struct {
	net.Conn
	raw   *countedConn
	guard atomic.Pointer[guard]
}

// arm makes g decide all further writes. It stays after the request's end and refuses, until the next request arms its own.
func (c *guardedConn) arm(g *guard) { c.guard.Store(g) }

func (c *guardedConn) Write(p []byte) (int, error) {
	g := c.guard.Load()
	if g == nil {
		return 0, errNoRequest
	}
	if err := g.begin(); err != nil {
		return 0, err
	}
	before := c.raw.written.Load()
	n, err := c.Conn.Write(p)
	g.end(n > 0 || c.raw.written.Load() != before)
	return n, err
}

// countedConn counts the bytes that the system took, below TLS.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.written.Add(int64(n))
	}
	return n, err
}
