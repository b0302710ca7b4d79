package quota

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/quota"
)

// giveBackLimit bounds giving places back; what is not given back is corrected by the Keeper.
const giveBackLimit = 5 * time.Second

// ReservationLife is how long a place may be in the hands of a process: then it is appended, or given back, or left to the Keeper,
// who takes it for left behind a little later. It is longer than any acceptance (--accept-limit, 20 s).
const ReservationLife = 60 * time.Second

// rememberMax bounds the windows whose totals a Book remembers.
const rememberMax = 100_000

// FullError says that a window has no place left.
type FullError struct{ Window quota.Window }

func (e *FullError) Error() string { return "window " + e.Window.Name + " is full" }

// Book takes places in windows. It is safe for concurrent use and starts nothing.
type Book struct {
	counter Counter
	records *Records
	log     zerolog.Logger

	mu     sync.Mutex
	totals map[string]int64 // by subject: the largest total that was seen
}

// NewBook makes a book over the counters of a deployment.
func NewBook(counter Counter, records *Records, log zerolog.Logger) *Book {
	return &Book{counter: counter, records: records, log: log, totals: map[string]int64{}}
}

// Place is what Reserve took.
type Place struct {
	book   *Book
	tenant string
	id     string
	since  time.Time
	taken  []taken
}

// taken is a place in one window. It is sure once the counter has answered.
type taken struct {
	window quota.Window
	used   int64
	sure   bool
}

// Reserve takes one place in each window, or none in any: then the error is a *FullError, or of code events.CodeUnavailable when the
// counters cannot be reached. Windows without a limit are passed over.
func (b *Book) Reserve(ctx context.Context, tenant string, windows []quota.Window) (Place, error) {
	p := Place{book: b, tenant: tenant, id: uuid.NewString(), since: time.Now()}
	for _, w := range windows {
		if w.Limit <= 0 {
			continue
		}
		if err := b.look(ctx, tenant, w); err != nil {
			p.GiveBack(ctx)
			return Place{}, err
		}
		total, err := b.counter.Count(ctx, events.QuotaSubject(tenant, w.Name), 1, p.id+"."+w.Name)
		refunded := b.records.Refunded(tenant, w.Name)
		p.taken = append(p.taken, taken{window: w, used: quota.Used(total, refunded), sure: err == nil})
		if err == nil && !quota.Fits(total, refunded, w.Limit) {
			err = &FullError{Window: w}
		}
		if err != nil {
			p.GiveBack(ctx)
			return Place{}, err
		}
		b.remember(events.QuotaSubject(tenant, w.Name), total)
	}
	return p, nil
}

// look refuses without adding where the window was full when it was last seen and still is: a tenant at its limit that goes on
// asking costs a read each time and writes nothing.
func (b *Book) look(ctx context.Context, tenant string, w quota.Window) error {
	subject := events.QuotaSubject(tenant, w.Name)
	refunded := b.records.Refunded(tenant, w.Name)
	b.mu.Lock()
	total, seen := b.totals[subject]
	b.mu.Unlock()
	if !seen || quota.Fits(total+1, refunded, w.Limit) {
		return nil
	}
	total, err := b.counter.Counted(ctx, subject)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.totals[subject] = total // places may have been given back
	b.mu.Unlock()
	if !quota.Fits(total+1, refunded, w.Limit) {
		return &FullError{Window: w}
	}
	return nil
}

func (b *Book) remember(subject string, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.totals) >= rememberMax {
		clear(b.totals) // only saves reads
	}
	b.totals[subject] = max(b.totals[subject], total)
}

// Names lists the windows that the place is in, as MessageQueued.QuotaWindows records them.
func (p Place) Names() []string {
	var names []string
	for _, t := range p.taken {
		names = append(names, t.window.Name)
	}
	return names
}

// Used tells how many places of each of these windows are taken, this one included.
func (p Place) Used() []int64 {
	used := make([]int64, len(p.taken))
	for i, t := range p.taken {
		used[i] = t.used
	}
	return used
}

// GiveBack gives the place back, for a message that is certain not to be in the log. It goes on for a moment when ctx has ended.
func (p Place) GiveBack(ctx context.Context) {
	if len(p.taken) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackLimit)
	defer cancel()
	for _, t := range p.taken {
		if err := p.giveBack(ctx, t); err != nil {
			p.book.log.Warn().Err(err).Str("tenant", p.tenant).Str("window", t.window.Name).
				Msg("a place was not given back; the count is corrected later")
		}
	}
}

func (p Place) giveBack(ctx context.Context, t taken) error {
	subject, id := events.QuotaSubject(p.tenant, t.window.Name), p.id+"."+t.window.Name
	if !t.sure {
		// First make sure that the addition is in: one that is still on its way would come after its undoing and stay.
		if _, err := p.book.counter.Count(ctx, subject, 1, id); err != nil {
			return err
		}
	}
	// A process that stood still must not give back what the Keeper has corrected meanwhile.
	if time.Since(p.since) > ReservationLife || time.Now().Round(0).Sub(p.since.Round(0)) > ReservationLife {
		return errOld
	}
	_, err := p.book.counter.Count(ctx, subject, -1, id+".back")
	return err
}

var errOld = errors.New("it was taken too long ago")

// Used tells how many places of each window are taken.
func (b *Book) Used(ctx context.Context, tenant string, windows []quota.Window) ([]int64, error) {
	out := make([]int64, 0, len(windows))
	for _, w := range windows {
		total, err := b.counter.Counted(ctx, events.QuotaSubject(tenant, w.Name))
		if err != nil {
			return nil, err
		}
		out = append(out, quota.Used(total, b.records.Refunded(tenant, w.Name)))
	}
	return out, nil
}
