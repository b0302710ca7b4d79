// Package loopback gives addresses of this machine that something can leave and come back to.
//
// A listener that was closed can be open for some milliseconds still: a process that is started meanwhile has a copy of it until it runs
// its program. To listen there again fails then, and whoever connects is let in and heard by nobody.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"pilotstatus.dev/infra/await"
)

// Ports below those that systems give to outgoing connections: none of them takes one that was left for a moment.
const (
	firstPort = 12_000
	ports     = 20_000
)

// How long a copy of a listener is waited for, and how often it is looked for.
const (
	copyFor = 5 * time.Second
	every   = 2 * time.Millisecond
)

// ErrStillOpen says that somebody listens where nobody should any more.
var ErrStillOpen = errors.New("somebody listens there still")

// drawn are the ports that this process was given, each with the packet socket that keeps it from every other process; none is given twice.
var drawn sync.Map

// reserve takes a port for this process until it ends, by the port of the same number that packets have: whoever listens for connections
// does not notice, and who draws it in another process does.
func reserve(ctx context.Context, addr netip.AddrPort) error {
	if _, given := drawn.LoadOrStore(addr.Port(), nil); given {
		return errGiven
	}
	held, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", addr.String())
	if err != nil {
		drawn.Delete(addr.Port())
		return err
	}
	drawn.Store(addr.Port(), held)
	return nil
}

var errGiven = errors.New("it was given before")

// Addresses gives n different addresses where nobody listens. No process on this machine that asks so is given one of them while this
// one lives.
func Addresses(ctx context.Context, n int) ([]netip.AddrPort, error) {
	var (
		addrs []netip.AddrPort
		errs  error
	)
	for range 100 + 10*n {
		if len(addrs) == n {
			return addrs, nil
		}
		port := uint16(firstPort + rand.N(ports)) //nolint:gosec // any will do
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
		err := reserve(ctx, addr)
		if err == nil {
			var l net.Listener
			if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr.String()); err == nil {
				err = Close(ctx, l)
			}
		}
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		addrs = append(addrs, addr)
	}
	return nil, fmt.Errorf("find %d free ports: %w", n, errs)
}

// Listen listens at an address that was left; it waits 5 s for what is left of the listener before.
func Listen(ctx context.Context, addr string) (l net.Listener, err error) {
	await.Until(ctx, copyFor, every, func() bool {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		return !errors.Is(err, syscall.EADDRINUSE)
	})
	return l, err
}

// Close closes a listener and waits until connections to it are refused, 5 s at most (ErrStillOpen).
func Close(ctx context.Context, l net.Listener) error {
	return errors.Join(l.Close(), Left(ctx, l.Addr().String()))
}

// Left waits until nobody listens at an address, 5 s at most (ErrStillOpen).
func Left(ctx context.Context, addr string) error {
	dialer := net.Dialer{Timeout: time.Second}
	left := await.Until(ctx, copyFor, every, func() bool {
		c, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if !left {
		return fmt.Errorf("leave %s: %w", addr, ErrStillOpen)
	}
	return nil
}
