package projector_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
)

// running starts Run and gives its result; stop ends it.
func running(t *testing.T, p *projector.Projector, part events.Partition, src projector.Source) (result <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan error, 1)
	go func() { out <- p.Run(ctx, part, src) }()
	t.Cleanup(cancel)
	return out, cancel
}

// until asks again and again, a minute at most.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("never came: " + what)
		}
	}
}

func TestPostgresMayGoAndComeBack(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	pool := open(t, server.URL(), "pilot", postgres.Settings{})
	log := logtest.New(5)
	var at atomic.Uint64
	p := projector.New(pool, projector.Config{
		Gapless: true, BatchMax: 7, RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond,
		OnCommit: func(_ events.Partition, seq uint64) { at.Store(seq) },
	})
	result, stop := running(t, p, 5, log)
	more := func(n int) {
		for range n {
			id := log.ID(len(log.All()))
			log.Queued(t, id, "acme", "inst-a")
			log.Append(t, "inst-a", logtest.About(events.TypeDispatchStarted, id, 1, &events.DispatchStarted{}))
		}
	}
	more(20)
	until(t, "the first events", func() bool { return at.Load() == 40 })
	more(200) // it is busy when the server goes
	for name, down := range map[string]func() error{
		"stop": func() error { return server.Stop(context.Background()) }, "kill": server.Kill,
	} {
		if err := down(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		more(50)
		if err := server.Start(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		until(t, "the events after a "+name, func() bool { return at.Load() == uint64(len(log.All())) })
	}
	stop()
	if err := <-result; err != nil {
		t.Errorf("Run: %v", err)
	}
	if diff := cmp.Diff(rebuild(t, server.URL(), log), dump(t, pool)); diff != "" {
		t.Errorf("rows differ from a rebuild (-rebuilt +live):\n%s", diff)
	}
}

func TestABatchThatTakesTooLongShrinks(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	owner := open(t, url, "pilot", postgres.Settings{})
	for _, sql := range []string{
		`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$`,
		`CREATE TRIGGER slow BEFORE INSERT ON timeline FOR EACH ROW EXECUTE FUNCTION slow()`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	pool := open(t, url, "pilot", postgres.Settings{StatementTimeout: 250 * time.Millisecond})
	log := story(t, 0, 12) // 48 events, half a second in one statement
	var at, largest atomic.Uint64
	p := projector.New(pool, projector.Config{
		Gapless: true, RetryMin: time.Millisecond, OnCommit: func(_ events.Partition, seq uint64) { at.Store(seq) },
		OnBatch: func(b projector.Batch) { largest.Store(max(largest.Load(), uint64(b.Events))) },
	})
	result, stop := running(t, p, 0, log)
	until(t, "the end of the log", func() bool { return at.Load() == 48 })
	stop()
	if err := <-result; err != nil {
		t.Errorf("Run: %v", err)
	}
	if largest.Load() > 25 {
		t.Errorf("a transaction of %d events fitted the limit", largest.Load())
	}
	if diff := cmp.Diff(rebuild(t, url, log), dump(t, owner)); diff != "" {
		t.Errorf("rows differ from a rebuild (-rebuilt +live):\n%s", diff)
	}
}

// source is a log with faults.
type source struct {
	*logtest.Log
	last  func() (uint64, error)
	batch func([]events.Recorded) ([]events.Recorded, error)
}

func (s source) Last(ctx context.Context, p events.Partition) (uint64, error) {
	if s.last != nil {
		return s.last()
	}
	return s.Log.Last(ctx, p)
}

func (s source) Tail(ctx context.Context, p events.Partition, from uint64, handle func(context.Context, []events.Recorded, uint64) error) error {
	return s.Log.Tail(ctx, p, from, func(ctx context.Context, recs []events.Recorded, last uint64) error {
		if s.batch != nil {
			var err error
			if recs, err = s.batch(recs); err != nil {
				return err
			}
		}
		return handle(ctx, recs, last)
	})
}

func TestRunStopsWhereAPersonMustDecide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		src func(*logtest.Log) projector.Source
		is  func(error) bool
	}{
		"log behind the view": {
			func(l *logtest.Log) projector.Source {
				return source{Log: l, last: func() (uint64, error) { return 7, nil }}
			},
			func(err error) bool { _, ok := errors.AsType[*projector.BehindError](err); return ok },
		},
		"another log": {
			func(l *logtest.Log) projector.Source {
				return source{Log: l, batch: func(recs []events.Recorded) ([]events.Recorded, error) {
					out := append([]events.Recorded(nil), recs...)
					out[0].ID = "another"
					return out, nil
				}}
			},
			func(err error) bool { _, ok := errors.AsType[*projector.DivergedError](err); return ok },
		},
		"a hole": {
			func(l *logtest.Log) projector.Source {
				return source{Log: l, batch: func(recs []events.Recorded) ([]events.Recorded, error) {
					return append(append([]events.Recorded(nil), recs[:2]...), recs[3:]...), nil
				}}
			},
			func(err error) bool { return events.CodeOf(err) == events.CodeLogGap },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
			log := story(t, 0, 5)
			p := projector.New(pool, projector.Config{Gapless: true})
			if err := p.Apply(t.Context(), 0, log.All()[:8], 8); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := p.Run(ctx, 0, c.src(log)); !c.is(err) {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Run("no tables", func(t *testing.T) {
		t.Parallel()
		pool, err := postgres.Open(t.Context(), pgtest.Database(t), postgres.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := projector.New(pool, projector.Config{}).Run(ctx, 0, logtest.New(0)); err == nil || ctx.Err() != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestRunGoesOnWhenTheLogFails(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	pool := open(t, url, "pilot", postgres.Settings{})
	log := story(t, 0, 100)
	var calls, at atomic.Uint64
	src := source{Log: log, batch: func(recs []events.Recorded) ([]events.Recorded, error) {
		if calls.Add(1)%3 == 0 {
			return nil, errors.New("connection reset")
		}
		return recs, nil
	}, last: func() (uint64, error) {
		if calls.Add(1)%5 == 0 {
			return 0, errors.New("no leader")
		}
		return 400, nil
	}}
	p := projector.New(pool, projector.Config{
		Gapless: true, RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond,
		OnCommit: func(_ events.Partition, seq uint64) { at.Store(seq) },
	})
	result, stop := running(t, p, 0, src)
	until(t, "the end of the log", func() bool { return at.Load() == 400 })
	stop()
	if err := <-result; err != nil {
		t.Errorf("Run: %v", err)
	}
	if diff := cmp.Diff(rebuild(t, url, log), dump(t, pool)); diff != "" {
		t.Errorf("rows differ from a rebuild (-rebuilt +live):\n%s", diff)
	}
}
