package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/services/control"
)

var author = control.Author{By: "operator:test", Reason: "test"}

func run(t *testing.T, f *control.Feed) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("run ended with %v", err)
		}
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	awaittest.Eventually(t, 15*time.Second, 5*time.Millisecond, what, ok, nil)
}

func name(f *control.Feed, id string) (n string) {
	f.Read(func(c *catalog.Catalog) {
		got, _ := c.Tenant(id)
		n = got.Name
	})
	return n
}

func TestFeedFollowsControl(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	first, err := control.Define(ctx, r.log, events.KindTenant, "t1", tenant("t1", "one"), author, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := control.NewFeed(r.log, control.Settings{Probe: 10 * time.Millisecond})
	if events.CodeOf(f.Current()) != events.CodeUnavailable {
		t.Error("a feed that never ran is current")
	}
	changed, stop := f.Watch()
	run(t, f)
	<-f.Ready()
	if got := name(f, "t1"); got != "one" {
		t.Errorf("ready with tenant %q", got)
	}
	eventually(t, "feed is current", func() bool { return f.Current() == nil })

	<-changed
	second, err := control.Define(ctx, r.log, events.KindTenant, "t1", tenant("t1", "two"), author, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Await(ctx, second); err != nil || name(f, "t1") != "two" {
		t.Errorf("after await: %q, %v", name(f, "t1"), err)
	}
	<-changed
	stop()
	third, err := control.Remove(ctx, r.log, events.KindTenant, "t1", author, second)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Await(ctx, third); err != nil || name(f, "t1") != "" {
		t.Errorf("after remove: %q, %v", name(f, "t1"), err)
	}
	select {
	case <-changed:
		t.Error("a stopped watch hears of changes")
	default:
	}
}

func TestFeedSaysThatItIsBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	f := control.NewFeed(r.log, control.Settings{Probe: 10 * time.Millisecond, MaxAge: 300 * time.Millisecond})
	run(t, f)
	<-f.Ready()
	eventually(t, "feed is current", func() bool { return f.Current() == nil })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "feed is behind", func() bool { return f.Current() != nil })
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := control.NewFeed(nil, control.Settings{}).Await(ctx, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("await: %v", err)
	}
}

func TestDefineIsOptimistic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	seq, err := control.Define(ctx, r.log, events.KindTenant, "t1", tenant("t1", "one"), author, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Define(ctx, r.log, events.KindTenant, "t1", tenant("t1", "late"), author, 0); events.CodeOf(err) != events.CodeConflict {
		t.Errorf("second creation: %v", err)
	}
	if _, err := control.Define(ctx, r.log, events.KindTenant, "t1", tenant("t1", "two"), author, seq); err != nil {
		t.Errorf("change of what was read: %v", err)
	}
	if _, err := control.Remove(ctx, r.log, events.KindTenant, "t1", author, seq); events.CodeOf(err) != events.CodeConflict {
		t.Errorf("removal of an older version: %v", err)
	}
	if _, err := control.Define(ctx, r.log, events.KindTenant, "T 1", tenant("", ""), author, 0); events.CodeOf(err) != events.CodeValidation {
		t.Errorf("id that is no token: %v", err)
	}
	if _, err := control.Define(ctx, r.log, events.KindTenant, "t2", events.Project{}, author, 0); events.CodeOf(err) != events.CodeMalformed {
		t.Errorf("value of another kind: %v", err)
	}
}

func TestFeedListsEndpoints(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	f := control.NewFeed(r.log, control.Settings{})
	run(t, f)
	var last uint64
	var err error
	for _, id := range []string{"ep2", "ep1", "ep3"} {
		if last, err = control.Define(t.Context(), r.log, events.KindEndpoint, id, events.Endpoint{ID: id, TenantID: "t1"}, author, 0); err != nil {
			t.Fatal(err)
		}
	}
	if last, err = control.Remove(t.Context(), r.log, events.KindEndpoint, "ep3", author, last); err != nil {
		t.Fatal(err)
	}
	if err := f.Await(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if got := f.Endpoints(); len(got) != 2 || got[0].ID != "ep1" || got[1].ID != "ep2" {
		t.Errorf("endpoints: %+v", got)
	}
}
