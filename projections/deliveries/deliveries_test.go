package deliveries_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/deliveries"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/schema"
	"pilotstatus.dev/projections/views"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	url := pgtest.Database(t)
	if err := schema.Migrate(t.Context(), url, schema.Default); err != nil {
		t.Fatal(err)
	}
	pool, err := schema.Open(t.Context(), url, schema.Default, postgres.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// hooklog is HOOKLOG in memory.
type hooklog struct {
	mu   sync.Mutex
	recs []events.Recorded
	more chan struct{}
}

func newLog() *hooklog { return &hooklog{more: make(chan struct{})} }

func (l *hooklog) Last(context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.recs)), nil
}

func (l *hooklog) Tail(ctx context.Context, from uint64, handle func(context.Context, []events.Recorded, uint64) error) error {
	for next := max(from, 1); ; {
		l.mu.Lock()
		all, more := l.recs, l.more
		l.mu.Unlock()
		if uint64(len(all)) < next {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-more:
				continue
			}
		}
		batch := all[next-1 : min(uint64(len(all)), next+6)]
		next += uint64(len(batch))
		if err := handle(ctx, batch, next-1); err != nil {
			return err
		}
	}
}

var now = time.Now().UTC().Truncate(time.Second)

// try records one of endpoint's, through the real encoding.
func (l *hooklog) try(t *testing.T, tenant, endpoint string, n int, result string, change func(*events.HookAttempt)) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := uint64(len(l.recs) + 1)
	body := &events.HookAttempt{Endpoint: endpoint, Event: "message.sent", MessageID: "msg_1", Attempt: n, HTTPStatus: 200, ElapsedMS: 12}
	change(body)
	wire, err := events.Standard.Encode(events.Event{
		Envelope: events.Envelope{
			ID: fmt.Sprintf("0a%02x.%d.%s", seq, n, result), Type: events.TypeHookAttempt, Source: "pilot/notifier", Time: now, Subject: "msg_1",
			TenantID: tenant, Attempt: n,
		},
		Address: events.HookLogSubject(endpoint, result), Body: body,
	})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := events.Standard.Decode(events.Stored{Wire: wire, Position: events.Position{Sequence: seq}, Time: now.Add(time.Duration(seq) * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	l.recs = append(l.recs, rec)
	close(l.more)
	l.more = make(chan struct{})
}

func plain(*events.HookAttempt) {}

func dump(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var out string
	if err := pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(to_jsonb(d)::text, E'\n' ORDER BY seq), '') FROM deliveries d`).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func checkpoint(t *testing.T, pool *pgxpool.Pool) (at uint64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT seq FROM checkpoints WHERE view = 'deliveries'`).Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestDeliveriesOfAnEndpoint(t *testing.T) {
	t.Parallel()
	pool, log := open(t), newLog()
	queued := logtest.New(3)
	id := queued.ID(1)
	queued.Queued(t, id, "acme", "inst-a")
	if err := projector.New(pool, projector.Config{Gapless: true}).Apply(t.Context(), 3, queued.All(), 1); err != nil {
		t.Fatal(err)
	}
	made := &events.HookDelivery{Endpoint: "ep", Event: "message.read", MessageID: id, Status: events.StatusRead, At: now, WithContent: true}
	log.try(t, "acme", "ep", 1, events.HookFailed, func(a *events.HookAttempt) {
		a.HTTPStatus, a.Reason, a.NextAt = 503, "status_503", now.Add(time.Minute)
	})
	log.try(t, "acme", "other", 1, events.HookSucceeded, plain)
	log.try(t, "globex", "ep", 1, events.HookSucceeded, plain)
	log.try(t, "acme", "ep", 2, events.HookExhausted, func(a *events.HookAttempt) { a.HTTPStatus, a.Reason = 0, "time\x00out" })
	log.try(t, "acme", "ep", 1, events.HookSucceeded, func(a *events.HookAttempt) {
		a.MessageID, a.Event, a.Delivery, a.Response = id, "message.read", made, &events.Sealed{KeyID: "k1", Blob: []byte{7, 0, 255}}
	})
	if err := deliveries.New(pool, deliveries.Config{}).Fill(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	v := views.New(pool)
	got, err := v.Deliveries(t.Context(), "acme", "ep", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	common := views.Delivery{MessageID: "msg_1", Event: "message.sent", Elapsed: 12 * time.Millisecond, At: now}
	with := func(change func(*views.Delivery)) views.Delivery {
		d := common
		change(&d)
		return d
	}
	want := []views.Delivery{
		with(func(d *views.Delivery) {
			d.WebhookID, d.MessageID, d.Event, d.Attempt, d.Result, d.HTTPStatus = "0a05", id, "message.read", 1, events.HookSucceeded, 200
			d.Place, d.Response = 5, events.Sealed{KeyID: "k1", Blob: []byte{7, 0, 255}}
			d.Made, d.Sealed = made, events.Sealed{KeyID: "k1", Blob: []byte{0, 1, 2, 255}}
		}),
		with(func(d *views.Delivery) {
			d.Place, d.WebhookID, d.Attempt, d.Result, d.Reason = 4, "0a04", 2, events.HookExhausted, "time\uFFFDout"
		}),
		with(func(d *views.Delivery) {
			d.Place = 1
			d.WebhookID, d.Attempt, d.Result, d.HTTPStatus, d.Reason, d.NextAt = "0a01", 1, events.HookFailed, 503, "status_503", now.Add(time.Minute)
		}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if before, err := v.Deliveries(t.Context(), "acme", "ep", 4, 10); err != nil || len(before) != 1 || before[0].Place != 1 {
		t.Errorf("before 4: %+v, %v", before, err)
	}
	if two, err := v.Deliveries(t.Context(), "acme", "ep", 0, 2); err != nil || len(two) != 2 {
		t.Errorf("with limit 2: %d, %v", len(two), err)
	}
	// Promise P12.
	for _, c := range [][2]string{{"globex", "other"}, {"", "ep"}, {"acme", "none"}, {"acme", "e\x00p"}} {
		if got, err := v.Deliveries(t.Context(), c[0], c[1], 0, 10); err != nil || len(got) > 0 {
			t.Errorf("%q sees %d tries of %q, %v", c[0], len(got), c[1], err)
		}
	}
}

// Promise P8: several projectors, a batch again, and tables made anew give the same rows.
func TestRowsAreThoseOfTheLog(t *testing.T) {
	t.Parallel()
	pool, log := open(t), newLog()
	for i := range 40 {
		log.try(t, "acme", "ep", i+1, events.HookFailed, plain)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			p := deliveries.New(pool, deliveries.Config{RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond})
			if err := p.Run(ctx, log); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 40 {
		log.try(t, "acme", "ep", i+1, events.HookSucceeded, plain)
	}
	p := deliveries.New(pool, deliveries.Config{})
	for range 2 {
		if err := p.Fill(t.Context(), log); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	running.Wait()
	all, _ := log.Last(t.Context())
	if at := checkpoint(t, pool); at != all {
		t.Errorf("checkpoint %d of %d", at, all)
	}
	fresh := open(t)
	if err := deliveries.New(fresh, deliveries.Config{}).Fill(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dump(t, fresh), dump(t, pool)); diff != "" {
		t.Errorf("rows (-anew +live):\n%s", diff)
	}
	if err := p.Apply(t.Context(), all+1, nil, all+2); err == nil || checkpoint(t, pool) != all {
		t.Errorf("a batch behind a hole was taken: %v", err)
	}
	// A log that ends before the checkpoint is another one: the view is what it holds.
	short := newLog()
	short.try(t, "acme", "ep", 1, events.HookSucceeded, plain)
	if err := p.Fill(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	if at := checkpoint(t, pool); at != 1 {
		t.Errorf("checkpoint %d behind a shorter log", at)
	}
}

// What HOOKLOG does not keep any more is neither read nor kept.
func TestOldRowsGo(t *testing.T) {
	t.Parallel()
	pool, log := open(t), newLog()
	for i := range 4 {
		log.try(t, "acme", "ep", i+1, events.HookFailed, plain)
	}
	if err := deliveries.New(pool, deliveries.Config{}).Fill(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE deliveries SET stored_at = stored_at - interval '31 days' WHERE seq <= 3`); err != nil {
		t.Fatal(err)
	}
	if got, err := views.New(pool).Deliveries(t.Context(), "acme", "ep", 0, 10); err != nil || len(got) != 1 {
		t.Errorf("%d rows are read, %v", len(got), err)
	}
	log.try(t, "acme", "ep", 5, events.HookFailed, plain)
	if err := deliveries.New(pool, deliveries.Config{}).Fill(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM deliveries`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows are kept, %v", n, err)
	}
}

// gone is a log whose events are all too old to be kept.
type gone struct{ *hooklog }

func (gone) Last(context.Context) (uint64, error) { return 9, nil }

func TestFillOfALogThatKeepsNothing(t *testing.T) {
	t.Parallel()
	if err := deliveries.New(open(t), deliveries.Config{Timeout: 3 * time.Second}).Fill(t.Context(), gone{newLog()}); err != nil {
		t.Error(err)
	}
}
