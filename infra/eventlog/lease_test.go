package eventlog_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
)

func newLeases(w *world) *eventlog.Leases {
	return eventlog.NewLeases(w.log, topology.Deployment{Partitions: 1})
}

func acquire(t *testing.T, s *eventlog.Leases, key, owner string, ttl time.Duration) *eventlog.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), key, owner, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestLeaseHasOneHolderUntilItIsReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLeases(w)
	a := acquire(t, s, "inst.i1", "a", time.Minute)
	if _, err := s.Acquire(t.Context(), "inst.i1", "b", time.Minute); !errors.Is(err, eventlog.ErrLeaseHeld) {
		t.Fatalf("error = %v, want ErrLeaseHeld", err)
	}
	before := a.Revision
	if err := a.Renew(t.Context()); err != nil || a.Revision <= before {
		t.Fatalf("renew: revision %d after %d, %v", a.Revision, before, err)
	}
	same := acquire(t, s, "inst.i1", "a", time.Minute) // its first acknowledgement may have been lost
	acquire(t, s, "disp.d1", "a", time.Minute)
	owners, err := s.Owners(t.Context(), "inst")
	if err != nil || !cmp.Equal(owners, map[string]string{"inst.i1": "a"}) {
		t.Errorf("owners = %v, %v", owners, err)
	}
	if err := same.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := same.Release(t.Context()); err != nil {
		t.Errorf("second release: %v", err)
	}
	b := acquire(t, s, "inst.i1", "b", time.Minute)
	if err := a.Renew(t.Context()); !errors.Is(err, eventlog.ErrLeaseLost) {
		t.Errorf("error = %v, want ErrLeaseLost", err)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Errorf("release of a lost one: %v", err)
	}
	if err := b.Renew(t.Context()); err != nil {
		t.Errorf("a release of the old holder ended the new one's: %v", err)
	}
	if _, err := s.Acquire(t.Context(), "inst.i1", "b", 1500*time.Millisecond); err == nil {
		t.Error("a life that is no whole number of seconds was taken")
	}
}

func TestLeaseExpiresUnlessRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLeases(w)
	kept := acquire(t, s, "inst.kept", "a", 6*time.Second)
	begun := time.Now() // before: whoever is slow to look at the clock finds a lease free that is old
	lost := acquire(t, s, "inst.lost", "a", time.Second)
	var b *eventlog.Lease
	eventually(t, "the lease is free", func() bool {
		if err := kept.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		b, err = s.Acquire(t.Context(), "inst.lost", "b", time.Minute)
		return err == nil
	})
	if took := time.Since(begun); took < 900*time.Millisecond {
		t.Errorf("free after %s", took)
	}
	if err := lost.Renew(t.Context()); !errors.Is(err, eventlog.ErrLeaseLost) {
		t.Errorf("error = %v, want ErrLeaseLost", err)
	}
	if err := b.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	// A renewal keeps the life of a lease: it still ends by itself.
	eventually(t, "the renewed lease ends too", func() bool {
		owners, err := s.Owners(t.Context(), "inst")
		return err == nil && cmp.Equal(owners, map[string]string{"inst.lost": "b"})
	})
}

func TestLeaseRenewalWithoutAcknowledgementIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLeases(w)
	lease := acquire(t, s, "inst.i1", "a", time.Minute)
	landed, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.leases.inst.i1", Data: []byte("a"), Header: nats.Header{}},
		jetstream.WithExpectLastSequencePerSubject(lease.Revision), jetstream.WithMsgTTL(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Renew(t.Context()); err != nil || lease.Revision != landed.Sequence {
		t.Errorf("revision = %d, %v, want %d", lease.Revision, err, landed.Sequence)
	}
}

func TestLeasesComeBackWithTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLeases(w)
	lease := acquire(t, s, "inst.i1", "a", time.Minute)
	w.node.stop()
	w.node.start()
	eventually(t, "the connection is back", w.nc.IsConnected)
	if err := lease.Renew(t.Context()); !errors.Is(err, eventlog.ErrLeaseLost) {
		t.Errorf("error = %v, want ErrLeaseLost", err)
	}
	if owners, err := s.Owners(t.Context(), "inst"); err != nil || len(owners) != 0 {
		t.Errorf("owners = %v, %v", owners, err)
	}
	if err := acquire(t, s, "inst.i1", "b", time.Minute).Renew(t.Context()); err != nil {
		t.Error(err)
	}
	if err := acquire(t, newLeases(w), "inst.i2", "b", time.Minute).Release(t.Context()); err != nil {
		t.Error(err)
	}
}
