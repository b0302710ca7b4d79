//go:build linux

package powercut

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/topology"
)

// The reader of the log sees what was accepted, what ended and what is missing, over all partitions.
func TestFollowTellsWhatBecameOfMessages(t *testing.T) {
	t.Parallel()
	srv, err := natsserver.Start(t.Context(), natsserver.Config{StoreDir: t.TempDir(), Port: natsserver.RandomPort, Sync: natsserver.SyncDefault})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	err = withLog(t.Context(), srv.ClientURL(), func(l *eventlog.Log) error {
		partitions := prepare(t, srv, l)
		s := &story{accepted: map[string]bool{}, ended: map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		caughtUp, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- follow(ctx, l, partitions, s, func() { close(caughtUp) }) }()
		<-caughtUp
		ids, err := acceptedIn(ctx, srv.ClientURL(), partitions+1) // a stream more than there is, as after a cut
		if err != nil || len(ids) != 2 || !ids["m0"] || !ids["m1"] {
			t.Errorf("accepted = %v, %v", ids, err)
		}
		lost, open := s.missing([]string{"m0", "m1", "absent"})
		if len(lost) != 1 || lost[0] != "absent" || open != 1 {
			t.Errorf("lost %v, open %d: want the absent one and m1", lost, open)
		}
		end := events.Event{
			Envelope: events.Envelope{ID: "c1", Type: events.TypeDispatchClosed, Source: "pilot/test", Time: time.Now()},
			Address:  events.EventSubject(1, "i", events.GroupDispatch, "closed"),
			Body:     &events.DispatchClosed{Reason: events.ClosedExpired, Messages: []events.ClosedMessage{{ID: "m1", QueuedSeq: 1}}},
		}
		if _, err := l.AppendFenced(ctx, 1, "i", end, 0); err != nil {
			return err
		}
		if !await.Until(ctx, 10*time.Second, pollEvery, func() bool { _, open := s.missing([]string{"m1"}); return open == 0 }) {
			t.Error("the end of m1 was not seen")
		}
		cancel()
		return <-done
	})
	if err != nil {
		t.Fatal(err)
	}
}

// prepare brings a deployment of two partitions with a paced instance and two messages, of which the first has ended, and
// takes the pace.
func prepare(t *testing.T, srv *natsserver.Server, l *eventlog.Log) int {
	t.Helper()
	nc, err := srv.Connect(natsserver.Client{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Ensure(t.Context(), js, topology.Deployment{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := topology.EnsureDeployment(t.Context(), l, 2, time.Now()); err != nil {
		t.Fatal(err)
	}
	inst := events.Instance{ID: "i", TenantID: "t", Concurrency: 1, MaxConcurrency: 1, Pace: events.Pace{RatePerMinute: 10}}
	_, err = l.AppendExpecting(t.Context(), events.Event{
		Envelope: events.Envelope{ID: "e1", Type: events.DefinedType(events.KindInstance), Source: "pilot/test", Time: time.Now()},
		Address:  events.ControlSubject(events.KindInstance, "i"), Body: &events.Defined[events.Instance]{By: "operator:test", Value: inst},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for p, id := range []string{"m0", "m1"} {
		lane := events.Lane{Instance: "i", Class: events.ClassOTP, Tenant: "t"}
		if _, err := l.Append(t.Context(), events.Event{
			Envelope: events.Envelope{ID: id, Type: events.TypeMessageQueued, Source: "pilot/test", Time: time.Now(), Subject: id, TenantID: "t"},
			Address:  events.QueuedSubject(events.Partition(p), lane), Body: &events.MessageQueued{Project: "p", Category: events.OTP},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Append(t.Context(), events.Event{
		Envelope: events.Envelope{ID: "m0.delivered", Type: events.TypeReceiptDelivered, Source: "pilot/test", Time: time.Now(), Subject: "m0"},
		Address:  events.EventSubject(0, "i", events.GroupReceipt, "delivered"), Body: &events.Receipt{GatewayStatus: "DELIVERY_ACK"},
	}); err != nil {
		t.Fatal(err)
	}
	partitions, err := unpace(t.Context(), l)
	if err != nil || partitions != 2 {
		t.Fatalf("unpace = %d, %v", partitions, err)
	}
	rec, err := l.LastBySubject(t.Context(), events.StreamControl, events.ControlSubject(events.KindInstance, "i"))
	if err != nil {
		t.Fatal(err)
	}
	if body, ok := rec.Body.(*events.Defined[events.Instance]); !ok || body.Value.Pace.RatePerMinute != 0 {
		t.Errorf("the instance still has its pace: %+v", rec.Body)
	}
	return partitions
}
