package crash

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
)

// most is how late a pass is drawn for, by point, where it is not the default: the passes that the load is sure to bring.
var most = map[string]int{
	"projector.mid_batch": 5, "dispatcher.snapshot_half_written": 5,
	"dispatcher.before_absent": 1, "dispatcher.joined": 1, "dispatcher.before_parked": 3, "dispatcher.before_unparked": 3, "reconciler.before_append": 3,
	"correlator.before_ack": 20, "ingest.before_answer": 20, "notifier.before_ack": 20, "notifier.after_post": 20,
}

const mostDefault = 10

// trial is one fault among messages: a point, an action, a seed.
type trial struct {
	d      *deployment
	seed   uint64
	point  string
	action string
	role   string
	target int
	pass   int
	draw   *rand.Rand
	// An instance is paused in each trial.
	pauseOf int
	pauseAt time.Duration
	trouble bool // the gateway is to refuse

	hit        chan struct{} // closed when the fault has happened
	back       chan struct{} // closed when it is put right
	mu         sync.Mutex
	ids        []string // of 202s
	unanswered int
	down       time.Duration
}

func newTrial(d *deployment, seed uint64, point, action string, messages int) *trial {
	h := fnv.New64a()
	_, _ = h.Write([]byte(point + action)) // never fails
	t := &trial{
		d: d, seed: seed, point: point, action: action, target: messages, hit: make(chan struct{}), back: make(chan struct{}),
		draw: rand.New(rand.NewPCG(seed, h.Sum64())), //nolint:gosec // a seeded draw is wanted
	}
	t.role, _, _ = strings.Cut(point, ".")
	n := most[point]
	if n == 0 {
		n = mostDefault
	}
	t.pass = 1 + t.draw.IntN(n)
	t.pauseOf, t.pauseAt = t.draw.IntN(instances), time.Duration(t.draw.Int64N(int64(pauseWithin)))
	t.trouble = t.draw.IntN(2) == 0
	return t
}

// run starts the role armed, sends, lets the fault happen, repairs it, and waits until the messages are at rest.
func (t *trial) run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	armed, err := t.arm(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	var given atomic.Int64
	for i := range instances {
		g.Go(func() error { return t.send(gctx, i, &given) })
	}
	g.Go(func() error { return t.fault(gctx, armed) })
	g.Go(func() error { return t.pause(gctx) })
	g.Go(func() error { return t.visit(gctx) })
	g.Go(func() error { return t.refuse(gctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	if err := t.restore(ctx); err != nil {
		return err
	}
	if err := t.d.resumed(ctx); err != nil {
		return err
	}
	if err := t.hurry(ctx); err != nil {
		return err
	}
	if err := t.d.chain.wait(ctx, window+10*time.Second, func() bool { return t.d.chain.at(t.ids, atRest) }); err != nil {
		return fmt.Errorf("messages did not come to rest: %w", err)
	}
	return nil
}

// arm starts the role of the point again, armed. A dispatcher that is armed works beside another one.
func (t *trial) arm(ctx context.Context) (*process, error) {
	if t.joins() {
		if err := t.d.leave(ctx, of(t.role)[1]); err != nil {
			return nil, err
		}
		return t.d.launch(visitor, t.armed())
	}
	names := of(t.role)
	for _, name := range names {
		if err := t.d.procs[name].stop(ctx); err != nil {
			return nil, err
		}
	}
	if err := t.d.start(ctx, names[0], t.armed()); err != nil {
		return nil, err
	}
	armed := t.d.procs[names[0]]
	if t.role == "dispatcher" {
		return armed, t.besides(ctx, armed, names[1])
	}
	for _, name := range names[1:] {
		if err := t.d.start(ctx, name, ""); err != nil {
			return nil, err
		}
	}
	return armed, nil
}

// most messages of one trial, where the point is not reached.
const limit = 400

// send sends from one instance until enough were given and the fault is over. A request without an answer is not made again.
func (t *trial) send(ctx context.Context, instance int, given *atomic.Int64) error {
	for ctx.Err() == nil {
		n := given.Add(1)
		select {
		case <-t.hit:
			if int(n) > t.target {
				return nil
			}
		default:
		}
		if n > limit {
			return fmt.Errorf("%s was not reached by %d messages", t.point, limit)
		}
		text, class := t.next(n)
		err := t.one(ctx, instance, text, class)
		if errors.Is(err, errRetry) { // what a customer asks for may be without an answer
			return err
		}
		pause := 10*time.Millisecond + rand.N(40*time.Millisecond) //nolint:gosec // instances out of step
		if err != nil {
			pause = 200 * time.Millisecond
		}
		if !await.Elapsed(ctx, pause) {
			break
		}
		if int(n) >= t.target { // enough: what follows only serves to reach the point
			await.Elapsed(ctx, 200*time.Millisecond)
		}
	}
	return ctx.Err()
}

// next gives text and class of the n-th message: drawn by its number, since several send. The text names the category.
func (t *trial) next(n int64) (string, events.Class) {
	text := fmt.Sprintf("%d %s %s %d", t.seed, t.point, t.action, n)
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))                     // never fails
	draw := rand.New(rand.NewPCG(t.seed, h.Sum64())) //nolint:gosec // a seeded draw is wanted
	class := events.Classes()[draw.IntN(len(events.Classes()))]
	return text + word(class.Category()), class
}

// word is how a text ends that has a category.
func word(c events.Category) string { return " as " + string(c) }

// note keeps what a request was answered.
func (t *trial) note(id string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.ids = append(t.ids, id)
	} else {
		t.unanswered++
	}
}

// fault waits for the pass, and puts right what it did: a killed process is started again, a stopped one goes on.
func (t *trial) fault(ctx context.Context, armed *process) error {
	defer close(t.back)
	if _, err := armed.await(ctx, fmt.Sprintf("failpoint %s: %s at pass %d", t.point, t.action, t.pass), 40*time.Second); err != nil {
		return err
	}
	began := time.Now()
	close(t.hit)
	defer func() { t.down = time.Since(began) }()
	if t.action == "kill" {
		if err := armed.ended(ctx, 10*time.Second); err != nil {
			return err
		}
		if !armed.killed() {
			return fmt.Errorf("%s ended by itself: %s", armed.name, armed.cmd.ProcessState)
		}
		t.d.kills = append(t.d.kills, span{began, time.Now()})
		await.Elapsed(ctx, time.Duration(t.draw.Int64N(int64(time.Second)))) // seeded: when it comes back
		return t.comeBack(ctx)
	}
	pause := time.Second
	if t.role == "dispatcher" { // the lease goes, the successor takes over and calls the open starts unknown
		pause += successorWait + leaseTTL
	}
	await.Elapsed(ctx, pause+time.Duration(t.draw.Int64N(int64(time.Second))))
	t.d.stops = append(t.d.stops, span{began, time.Now()})
	select {
	case <-armed.done:
		return errors.New("the stopped process ended")
	default:
		return armed.signal(syscall.SIGCONT)
	}
}

// comeBack starts a killed process again. A dispatcher begins at a snapshot from before, also where a new one was half written.
func (t *trial) comeBack(ctx context.Context) error {
	name := of(t.role)[0]
	if t.joins() {
		name = visitor
	}
	if err := t.d.start(ctx, name, ""); err != nil || t.role != "dispatcher" {
		return err
	}
	_, err := t.d.procs[name].await(ctx, `"message":"begun at a snapshot"`, 20*time.Second)
	return err
}

func (t *trial) summary() string {
	return fmt.Sprintf("%d accepted, %d without an answer, down for %s", len(t.ids), t.unanswered, t.down.Round(100*time.Millisecond))
}
