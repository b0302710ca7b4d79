package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/topology"
)

// One partition of two is away, and sends to it are refused: the process is named as degraded and stays in service. A refusal of a log
// that answers is another matter.
func TestReadyWhileOnePartitionRefuses(t *testing.T) {
	t.Parallel()
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	c.Local(t.TempDir())
	c.MetricsAddr, c.Partitions = "127.0.0.1:0", 2
	a, err := Start(t.Context(), c, []Role{RoleDispatcher}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopNow(t, a) })
	red := func(want string) bool {
		var names []string
		for _, check := range a.health() {
			if check.Run(t.Context()) != nil {
				names = append(names, check.Name)
			}
		}
		return strings.Join(names, " ") == want
	}
	well := func() bool { status, _ := probe(t, a); return status == http.StatusOK && red("") }
	eventually(t, well)
	js, err := jetstream.New(a.p.conns[0])
	if err != nil {
		t.Fatal(err)
	}
	refuse := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := apiLog{log: a.Events(), health: &a.appends}.Append(ctx, events.Event{
			Address:  of(0),
			Envelope: events.Envelope{ID: uuid.NewString(), Type: events.TypeInstancePaused, Source: "pilot/test", Time: time.Now().UTC()},
			Body:     &events.InstanceChanged{By: "test"},
		})
		if events.CodeOf(err) != events.CodeUnavailable {
			t.Errorf("an append to a partition that is away: %v", err)
		}
	}
	remove := func(p events.Partition) {
		t.Helper()
		if err := js.DeleteStream(t.Context(), events.EventsStream(p)); err != nil {
			t.Fatal(err)
		}
	}
	remove(0)
	refuse() // before the look knows of it, too
	if a.nothingAccepted() != nil {
		t.Errorf("a partition that has just gone: %v", a.nothingAccepted())
	}
	eventually(t, func() bool { return red("partitions") })
	refuse()
	for range 3 { // looks
		seen := time.Now()
		eventually(t, func() bool { return a.look.answered(1, seen) })
		if status, text := probe(t, a); status != http.StatusOK || !strings.Contains(text, "log ok\npartitions err\n") {
			t.Fatalf("a send to the partition that is away was refused: %d %q", status, text)
		}
	}
	a.appends.heard(of(1), events.Errorf(events.CodeUnavailable, "its disk is full"))
	eventually(t, func() bool { return red("log partitions") })
	a.appends.heard(of(1), nil)
	eventually(t, func() bool { return red("partitions") }) // it takes events again
	remove(1)
	eventually(t, func() bool {
		status, text := probe(t, a)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "log err")
	})
	for _, r := range topology.Table(a.p.deployment) {
		if r.Name == events.EventsStream(0) || r.Name == events.EventsStream(1) {
			if _, err := topology.Create(t.Context(), js, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, func() bool { return a.nothingAccepted() == nil })
}

// A partition that is away or held fails no process whose work is per partition; all together do.
func TestWhatIsNotReadyOfARole(t *testing.T) {
	t.Parallel()
	gone, broken := errors.New("gone"), errors.New("broken")
	start := func(t *testing.T) *App {
		a := &App{
			p: &platform{}, sup: newSupervisor(zerolog.Nop()), guard: &guard{},
			look: newLookout([]events.Partition{0, 1}, nil), ready: map[string]roleHealth{},
		}
		a.p.deployment.Partitions = 2
		for p := range events.Partition(2) {
			a.look.seen[p] = sight{begun: time.Now()}
		}
		for _, part := range []string{"dispatcher", "fanout-0", "fanout-1"} {
			a.sup.set(part, nil)
		}
		return a
	}
	for name, c := range map[string]struct {
		fault    func(*App)
		dispatch map[events.Partition]error // where the dispatcher does nothing
		log      bool                       // nothing is accepted
		partial  bool                       // what the check "dispatcher" says concerns single partitions
		fanout   bool                       // the same of the other role
	}{
		"well": {fault: func(*App) {}, partial: true, fanout: true},
		"one is away": {
			fault:    func(a *App) { a.look.seen[1] = sight{begun: time.Now(), err: gone}; a.sup.set("fanout-1", gone) },
			dispatch: map[events.Partition]error{1: gone}, partial: true, fanout: true,
		},
		"one is held": {
			fault:    func(a *App) { a.guard.faults = map[events.Partition]error{0: broken} },
			dispatch: map[events.Partition]error{0: broken}, partial: true, fanout: true,
		},
		"one is away, one held": {
			fault: func(a *App) {
				a.look.seen[1] = sight{begun: time.Now(), err: gone}
				a.guard.faults = map[events.Partition]error{0: broken}
			},
			dispatch: map[events.Partition]error{0: broken, 1: gone}, log: true, partial: true, fanout: true,
		},
		"all are held": {
			fault: func(a *App) { a.guard.faults = map[events.Partition]error{0: broken, 1: broken} }, log: true, partial: true, fanout: true,
		},
		"one is not folded yet": {fault: func(*App) {}, dispatch: map[events.Partition]error{1: broken}, fanout: true},
		"a part ended":          {fault: func(a *App) { a.sup.set("fanout-1", broken) }, partial: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t)
			c.fault(a)
			a.ready["dispatcher"] = roleHealth{work: func() (map[events.Partition]error, error) {
				by := map[events.Partition]error{}
				for p, err := range c.dispatch {
					by[p] = err
				}
				return by, nil
			}}
			if err := a.nothingAccepted(); (err != nil) != c.log {
				t.Errorf("log: %v", err)
			}
			if (a.idle("dispatcher", nil) != nil) != (len(c.dispatch) > 0) {
				t.Errorf("dispatcher: %v", a.idle("dispatcher", nil))
			}
			if got := a.partial("dispatcher"); got != c.partial {
				t.Errorf("dispatcher: partial %v", got)
			}
			if got := a.partial("fanout"); got != c.fanout {
				t.Errorf("fanout: partial %v", got)
			}
		})
	}
}
