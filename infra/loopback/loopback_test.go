package loopback_test

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"pilotstatus.dev/infra/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// While processes are started, one listener in sixty is still open when it was closed.
func TestAnAddressCanBeLeftAndComeBackTo(t *testing.T) {
	t.Parallel()
	var (
		starting sync.WaitGroup
		over     atomic.Bool
	)
	defer starting.Wait()
	defer over.Store(true)
	for range 3 {
		starting.Go(func() {
			for !over.Load() {
				if err := exec.CommandContext(t.Context(), "true").Run(); err != nil {
					t.Errorf("start a process: %v", err)
					return
				}
			}
		})
	}
	addrs, err := loopback.Addresses(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	addr := addrs[0].String()
	for range 300 {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatalf("nobody listens there: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = loopback.Listen(t.Context(), addr); err != nil {
			t.Fatalf("come back: %v", err)
		}
		if err := loopback.Close(t.Context(), l); err != nil {
			t.Fatalf("leave: %v", err)
		}
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("connecting to an address that was left: %v", err)
		}
	}
}

func TestAddressesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[netip.AddrPort]bool{}
	for range 20 {
		addrs, err := loopback.Addresses(t.Context(), 20)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			seen[a] = true
		}
	}
	if len(seen) != 400 {
		t.Errorf("%d addresses of 400", len(seen))
	}
}

// Two test processes could be given one address, each a moment before it listened there.
func TestNoOtherProcessIsGivenAnAddress(t *testing.T) {
	t.Parallel()
	addrs, err := loopback.Addresses(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.ListenPacket("udp4", addrs[0].String()) // as another process asks
	if err == nil {
		_ = other.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another process may draw it: %v", err)
	}
	l, err := net.Listen("tcp", addrs[0].String())
	if err != nil {
		t.Fatalf("who was given it cannot listen there: %v", err)
	}
	_ = l.Close()
}

func TestWhoeverListensStillIsNamed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		if err := loopback.Left(t.Context(), l.Addr().String()); !errors.Is(err, loopback.ErrStillOpen) {
			t.Errorf("left: %v", err)
		}
	})
	if _, err := loopback.Listen(t.Context(), l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen where somebody does: %v", err)
	}
}
