package e2e

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/infra/loopback"
)

// proxy stands between a client and a server of TCP and misbehaves as it is told.
type proxy struct {
	t      *testing.T
	addr   string
	target string

	swallowing atomic.Bool
	delay      atomic.Int64 // of what passes, each way

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	running  sync.WaitGroup
}

// newProxy lets everything pass, until told otherwise.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{t: t, addr: fixedAddr(t), target: target, conns: map[net.Conn]struct{}{}}
	p.pass()
	t.Cleanup(func() {
		p.refuse()
		p.running.Wait()
	})
	return p
}

// refuse closes the port: a client is told at once that nobody is there. What was connected breaks.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		if err := loopback.Close(context.Background(), p.listener); err != nil {
			p.t.Errorf("refuse: %v", err)
		}
		p.listener = nil
	}
	p.cut()
}

// swallow takes connections and bytes and answers nothing; what was connected breaks.
func (p *proxy) swallow() {
	p.listen()
	p.swallowing.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// vanish loses what is sent from now on, and tells nobody: connections stay, as when a cable is pulled.
func (p *proxy) vanish() { p.swallowing.Store(true) }

// pass lets new connections through; swallowed ones break.
func (p *proxy) pass() {
	p.listen()
	if p.swallowing.Swap(false) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cut()
	}
}

// slow delays what passes from now on, each way.
func (p *proxy) slow(d time.Duration) { p.delay.Store(int64(d)) }

func (p *proxy) cut() {
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) listen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	l, err := loopback.Listen(context.Background(), p.addr)
	if err != nil {
		p.t.Errorf("listen again: %v", err)
		return
	}
	p.listener = l
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(c) })
		}
	})
}

// own keeps a connection among those that can be cut, until the function that it gives is called.
func (p *proxy) own(c net.Conn) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil { // refused meanwhile
		_ = c.Close()
	}
	p.conns[c] = struct{}{}
	return func() {
		_ = c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}
}

func (p *proxy) serve(in net.Conn) {
	defer p.own(in)()
	if p.swallowing.Load() {
		_, _ = io.Copy(io.Discard, in)
		return
	}
	out, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.own(out)()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			p.carry(way[0], way[1])
			_ = in.Close()
			_ = out.Close()
		})
	}
	both.Wait()
}

// parcel is what was read at a time, and when it is due on the other side.
type parcel struct {
	data []byte
	due  time.Time
}

// carry moves bytes, each due a delay after it was read: a slow link, not a narrow one.
func (p *proxy) carry(from, to net.Conn) {
	parcels := make(chan parcel, 4096)
	var writing sync.WaitGroup
	writing.Go(func() {
		for x := range parcels {
			if d := time.Until(x.due); d > 0 {
				<-time.After(d)
			}
			if _, err := to.Write(x.data); err != nil {
				_ = from.Close()
			}
		}
	})
	buf := make([]byte, 32<<10)
	lost := false // for good: what comes after a gap would be read as something else
	for {
		n, err := from.Read(buf)
		if lost = lost || p.swallowing.Load(); n > 0 && !lost {
			parcels <- parcel{append([]byte(nil), buf[:n]...), time.Now().Add(time.Duration(p.delay.Load()))}
		}
		if err != nil {
			break
		}
	}
	close(parcels)
	writing.Wait()
}

// fixedAddr gives a loopback address that something can leave and come back to.
func fixedAddr(t *testing.T) string {
	t.Helper()
	addrs, err := loopback.Addresses(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0].String()
}

// gatewayBehind puts a proxy between Pilot and the gateway.
func gatewayBehind(t *testing.T, p **proxy) func(string) string {
	return func(gateway string) string {
		*p = newProxy(t, strings.TrimPrefix(gateway, "http://"))
		return "http://" + (*p).addr
	}
}
