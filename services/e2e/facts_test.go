package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolutionsim"
)

// readiness is what /readyz?verbose says.
type readiness struct {
	status   int
	word     string   // ready, degraded, not_ready
	degraded []string // what does not work
	failing  []string // checks that do not hold
}

func (r *rig) ready() readiness {
	r.t.Helper()
	status, out := r.do(http.MethodGet, "/readyz?verbose", "", nil)
	got := readiness{status: status, word: fmt.Sprint(out["status"])}
	for _, d := range out["degraded"].([]any) {
		got.degraded = append(got.degraded, d.(string))
	}
	for _, c := range out["checks"].([]any) {
		if check := c.(map[string]any); check["status"] != "ok" {
			got.failing = append(got.failing, check["name"].(string))
		}
	}
	return got
}

func (r *rig) awaitReady(what string, want func(readiness) bool) {
	r.t.Helper()
	var got readiness
	eventually(r.t, what, func() bool { got = r.ready(); return want(got) }, func() string { return fmt.Sprintf("%+v", got) })
}

func wholly(r readiness) bool { return r.status == http.StatusOK && r.word == "ready" }

// history reads the events of all partitions as they are in the log.
func (r *rig) history() []events.Recorded {
	r.t.Helper()
	var all []events.Recorded
	done := errors.New("all read")
	for _, p := range r.app.Partitions() {
		ctx, cancel := context.WithTimeout(r.t.Context(), patience)
		err := r.app.Events().Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(p), Gapless: true}, func(_ context.Context, b eventlog.Batch) error {
			all = append(all, b.Events...)
			if b.CaughtUp {
				return done
			}
			return nil
		})
		cancel()
		if !errors.Is(err, done) {
			r.t.Fatalf("read the log: %v", err)
		}
	}
	return all
}

// story is what the log says of one message.
type story struct {
	started  int
	ends     int      // refused, closed
	receipts []string // as customers are told of them, in the order of the log
}

// stories reads the log: of each message how often it was tried and ended.
func (r *rig) stories() map[string]*story {
	r.t.Helper()
	out := map[string]*story{}
	of := func(id string) *story {
		if out[id] == nil {
			out[id] = &story{}
		}
		return out[id]
	}
	for _, rec := range r.history() {
		switch rec.Type {
		case events.TypeMessageQueued:
			of(rec.Subject)
		case events.TypeDispatchStarted:
			of(rec.Subject).started++
		case events.TypeDispatchRefused:
			of(rec.Subject).ends++
		case events.TypeDispatchClosed:
			for _, m := range rec.Body.(*events.DispatchClosed).Messages {
				of(m.ID).ends++
			}
		case events.TypeReceiptSent, events.TypeReceiptDelivered, events.TypeReceiptRead:
			name := strings.TrimSuffix(strings.Replace(rec.Type, "receipt.", "message.", 1), ".v1")
			of(rec.Subject).receipts = append(of(rec.Subject).receipts, name)
		}
	}
	return out
}

// states are what a customer is told of, in the order in which a message takes them.
var states = []string{"message.sent", "message.delivered", "message.read"}

// told checks that a customer heard of each state that the messages took, by the order of the log, once and under one id. A
// state that comes after a higher one is taken by nobody.
func (r *rig) told(ids []string) {
	r.t.Helper()
	all := r.stories()
	for _, id := range ids {
		var want []string
		height := -1
		for _, name := range all[id].receipts {
			if h := slices.Index(states, name); h > height {
				height, want = h, append(want, name)
			}
		}
		slices.Sort(want)
		var got []string
		eventually(r.t, "customer events of "+id, func() bool {
			got = slices.Sorted(slices.Values(r.hooks(id)))
			return len(got) >= len(want)
		}, func() string { return fmt.Sprintf("%v, want %v", got, want) })
		if !slices.Equal(got, want) {
			r.t.Errorf("customer events of %s: %v, want %v", id, got, want)
		}
	}
}

// once checks that each text left once.
func (r *rig) once(texts []string) {
	r.t.Helper()
	for _, text := range texts {
		if n := r.ledger(text); n != 1 {
			r.t.Errorf("%q left %d times", text, n)
		}
	}
}

// alone checks that no instance ever had two sends of ours under way (promise P5).
func (r *rig) alone() {
	r.t.Helper()
	for instance, n := range r.sim.Ledger(evolutionsim.Filter{}).MaxInFlight {
		if n > 1 {
			r.t.Errorf("%s: %d sends at once", instance, n)
		}
	}
}

// load sends from several clients until it is stopped, and keeps what was answered.
type load struct {
	r    *rig
	name string
	stop context.CancelFunc
	all  sync.WaitGroup
	n    atomic.Int64

	mu       sync.Mutex
	accepted map[string]string // text → message id
	refused  map[string]int    // text → status, 0 without an answer
}

// startLoad begins: each client waits between two sends.
func (r *rig) startLoad(name string, clients int, every time.Duration) *load {
	return r.startLoadAt(r.app.URLs().API, name, clients, every)
}

// startLoadAt is startLoad at another API of the same deployment.
func (r *rig) startLoadAt(api, name string, clients int, every time.Duration) *load {
	ctx, cancel := context.WithCancel(r.t.Context())
	l := &load{r: r, name: name, stop: cancel, accepted: map[string]string{}, refused: map[string]int{}}
	url := api + "/v1/messages/send"
	for range clients {
		l.all.Go(func() {
			for ctx.Err() == nil {
				l.send(url)
				select {
				case <-ctx.Done():
				case <-time.After(every):
				}
			}
		})
	}
	r.t.Cleanup(l.end)
	return l
}

func (l *load) send(url string) {
	text := fmt.Sprintf("%s %d.", l.name, l.n.Add(1))
	// The test's context: a request under way when the load ends is waited for.
	status, raw, err := call(l.r.t.Context(), http.MethodPost, url, l.r.keys.Own, map[string]any{"text": text, "destinationNumber": "+5511988887777"})
	var out struct {
		ID string `json:"id"`
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && status == http.StatusAccepted && json.Unmarshal(raw, &out) == nil:
		l.accepted[text] = out.ID
	case err != nil:
		l.refused[text] = 0
	default:
		l.refused[text] = status
	}
}

// end stops the clients and waits for them; it can be called twice.
func (l *load) end() {
	l.stop()
	l.all.Wait()
}

func (l *load) counts() (accepted, refused int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted), len(l.refused)
}

func (l *load) awaitAccepted(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d accepted", n), func() bool { a, _ := l.counts(); return a >= n },
		func() string { a, b := l.counts(); return fmt.Sprintf("%d accepted, %d not", a, b) })
}

// check: every accepted message was read and left once; one that was not accepted left at most once.
func (l *load) check() {
	l.r.t.Helper()
	l.end()
	for text, id := range l.accepted {
		l.r.awaitStatus(id, "READ")
		if n := l.r.ledger(text); n != 1 {
			l.r.t.Errorf("%q was accepted and left %d times", text, n)
		}
	}
	for text, status := range l.refused {
		if status != 0 && status != http.StatusServiceUnavailable {
			l.r.t.Errorf("%q was answered %d", text, status)
		}
		if n := l.r.ledger(text); n > 1 {
			l.r.t.Errorf("%q was not accepted and left %d times", text, n)
		}
	}
	l.r.alone()
}
