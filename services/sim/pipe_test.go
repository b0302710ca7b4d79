package sim

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// network is every host of a run: connections are pipes, since sockets do not work in a bubble.
type network struct {
	mu    sync.Mutex
	hosts map[string]*host
}

// host listens under a name. Its mode says what a dial to it meets.
type host struct {
	name  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once

	mu   sync.Mutex
	mode linkMode
	open map[net.Conn]struct{} // the server's ends
}

// linkMode is the state of the way to a host.
type linkMode string

const (
	linkUp      linkMode = "up"
	linkRefused linkMode = "refused"
	linkSilent  linkMode = "silent" // a dial gets no answer
)

func newNetwork() *network { return &network{hosts: map[string]*host{}} }

func (n *network) listen(name string) *host {
	h := &host{name: name, conns: make(chan net.Conn), done: make(chan struct{}), mode: linkUp, open: map[net.Conn]struct{}{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = h
	return h
}

// dial is a net.Dialer.DialContext.
func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return n.dialAs(ctx, "somebody", address)
}

// dialAs dials for a process; the host sees its name as the address of its end.
func (n *network) dialAs(ctx context.Context, from, address string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	h := n.hosts[name]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}
	if h == nil {
		return nil, refused
	}
	h.mu.Lock()
	mode := h.mode
	h.mu.Unlock()
	switch mode {
	case linkRefused:
		return nil, refused
	case linkSilent:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
	}
	client, server := net.Pipe()
	kept := &pipeConn{Conn: server, host: h, from: from}
	h.mu.Lock()
	h.open[kept] = struct{}{}
	h.mu.Unlock()
	select {
	case h.conns <- kept:
		return client, nil
	case <-h.done:
	case <-ctx.Done():
	}
	_ = kept.Close()
	_ = client.Close()
	return nil, refused
}

// set changes the way to the host; connections that stand break when it is not up.
func (h *host) set(mode linkMode) {
	h.mu.Lock()
	h.mode = mode
	var broken []net.Conn
	if mode != linkUp {
		for c := range h.open {
			broken = append(broken, c)
		}
	}
	h.mu.Unlock()
	for _, c := range broken {
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *host) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr implements net.Listener.
func (h *host) Addr() net.Addr { return hostAddr(h.name) }

type hostAddr string

func (hostAddr) Network() string  { return "pipe" }
func (a hostAddr) String() string { return string(a) }

// pipeConn is a server's end that its host can break.
type pipeConn struct {
	net.Conn
	host *host
	from string
}

func (c *pipeConn) RemoteAddr() net.Addr { return hostAddr(c.from) }

func (c *pipeConn) Close() error {
	c.host.mu.Lock()
	delete(c.host.open, c)
	c.host.mu.Unlock()
	return c.Conn.Close()
}
