package instances_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/streamtest"
	"pilotstatus.dev/services/instances"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFeedFollowsInstancesOfItsPartitions(t *testing.T) {
	t.Parallel()
	l := streamtest.New(t, 2, eventlog.Options{})
	say := func(p events.Partition, instance, wire, name string) {
		t.Helper()
		if _, err := l.Events.Append(t.Context(), events.Event{
			Envelope: events.Envelope{ID: instance + "." + name, Type: wire, Source: "test", Time: time.Now()},
			Address:  events.EventSubject(p, instance, events.GroupInstance, name),
			Body:     &events.InstanceChanged{By: "test"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	say(0, "one", events.TypeInstanceClosed, "closed")
	f := instances.NewFeed()
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, p := range []events.Partition{0, 1} {
			running.Go(func() { _ = f.Run(ctx, p, l.Events) }) // it ends with its context
		}
		return func() { cancel(); running.Wait() }
	}
	is := func(instance string, want presence.Connection, paused bool) {
		t.Helper()
		awaittest.Eventually(t, 30*time.Second, 5*time.Millisecond, instance+" is as the log says", func() bool {
			s := f.State(instance)
			return s.Connection == want && s.Paused == paused
		}, nil)
	}
	stop := run()
	is("one", presence.Closed, false)
	say(1, "two", events.TypeInstanceOpened, "opened")
	is("two", presence.Open, false)
	stop()
	say(0, "one", events.TypeInstancePaused, "paused")
	defer run()()
	is("one", presence.Closed, true)
	park := func(id, scope string) {
		t.Helper()
		if _, err := l.Events.Append(t.Context(), events.Event{
			Envelope: events.Envelope{ID: id, Type: events.TypeInstanceParked, Source: "test", Time: time.Now()},
			Address:  events.EventSubject(1, "two", events.GroupInstance, "parked"), Body: &events.InstanceChanged{By: "test", Scope: scope},
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i, scope := range []string{events.ParkGateway, events.ParkInstance} {
		park(scope, scope)
		awaittest.Eventually(t, 30*time.Second, 5*time.Millisecond, "park of scope "+scope, func() bool {
			return f.State("two").Park.Scope == scope && len(f.ParkedWide()) == 1-i
		}, nil)
	}
	if f.State("none") != (presence.State{}) {
		t.Error("an instance that nobody told of has a state")
	}
}
