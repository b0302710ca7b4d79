package projector_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
)

// story is a log in which messages go through what they usually go through.
func story(t testing.TB, p events.Partition, messages int) *logtest.Log {
	t.Helper()
	log := logtest.New(p)
	for n := range messages {
		id := log.ID(n)
		log.Queued(t, id, "acme", "inst-a")
		start := logtest.About(events.TypeDispatchStarted, id, 1, &events.DispatchStarted{Call: "sendText"})
		start.Nonce = "n"
		log.Append(t, "inst-a", start)
		done := logtest.About(events.TypeDispatchAccepted, id, 1, &events.DispatchAccepted{HTTPStatus: 201, ElapsedMS: 40})
		done.GatewayID = "3EB0" + id[20:]
		log.Append(t, "inst-a", done)
		at := logtest.Start.Add(time.Second)
		log.Append(t, "inst-a", logtest.About(events.TypeReceiptDelivered, id, 0, &events.Receipt{GatewayStatus: "DELIVERY_ACK", At: at, ReceivedAt: at}))
	}
	return log
}

// rebuild gives the rows of a log applied in one go.
func rebuild(t testing.TB, url string, log *logtest.Log) string {
	t.Helper()
	pool := open(t, url, "rebuilt", postgres.Settings{})
	all := log.All()
	p := projector.New(pool, projector.Config{Gapless: true, Timeout: time.Minute})
	if err := p.Apply(t.Context(), log.Partition, all, uint64(len(all))); err != nil {
		t.Fatal(err)
	}
	return dump(t, pool)
}

// stall makes the next write to a table wait, at the statement or at the commit, until release is called. waiting gives the process id
// of the server's backend that waits.
func stall(t *testing.T, pool *pgxpool.Pool, table string, atCommit bool) (waiting func() int, release func()) {
	t.Helper()
	ctx := t.Context()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	trigger := `CREATE TRIGGER stall BEFORE INSERT OR UPDATE ON ` + table + ` FOR EACH STATEMENT EXECUTE FUNCTION stall()`
	if atCommit {
		trigger = `CREATE CONSTRAINT TRIGGER stall AFTER INSERT OR UPDATE ON ` + table + ` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stall()`
	}
	for _, sql := range []string{
		`CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$`,
		trigger, `SELECT pg_advisory_lock(7)`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	waiting = func() int {
		for {
			var pid int
			err := conn.QueryRow(ctx, `SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event = 'advisory'`).Scan(&pid)
			if err == nil {
				return pid
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				t.Fatal(err)
			}
		}
	}
	var once sync.Once
	release = func() {
		once.Do(func() {
			for _, sql := range []string{`SELECT pg_advisory_unlock(7)`, `DROP FUNCTION stall CASCADE`} {
				if _, err := conn.Exec(context.Background(), sql); err != nil {
					t.Error(err)
				}
			}
			conn.Release()
		})
	}
	t.Cleanup(release)
	return waiting, release
}

// A transaction that dies at any of its steps leaves nothing behind, and the next try does it all, once.
func TestNothingIsLostOrDoubledByACrash(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		table    string
		atCommit bool
	}{{"messages", false}, {"timeline", false}, {"attempts", false}, {"checkpoints", false}, {"checkpoints", true}} {
		for _, how := range []string{"backend killed", "context canceled"} {
			name := how + " at " + at.table
			if at.atCommit {
				name = how + " at commit"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				url := pgtest.Database(t)
				pool := open(t, url, "pilot", postgres.Settings{LockTimeout: -1})
				log := story(t, 1, 6)
				all := log.All()
				p := projector.New(pool, projector.Config{Gapless: true})
				if err := p.Apply(t.Context(), 1, all[:10], 10); err != nil {
					t.Fatal(err)
				}
				before := dump(t, pool)
				waiting, release := stall(t, pool, at.table, at.atCommit)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				result := make(chan error, 1)
				go func() { result <- p.Apply(ctx, 1, all[8:], uint64(len(all))) }()
				pid := waiting()
				if how == "context canceled" {
					cancel()
				} else if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, pid); err != nil {
					t.Fatal(err)
				}
				if err := <-result; err == nil {
					t.Fatal("a broken transaction was reported done")
				}
				// A canceled caller leaves before its backend; what that does is over once nobody waits for its lock.
				if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend($1, 10000)`, pid); err != nil {
					t.Fatal(err)
				}
				release()
				if diff := cmp.Diff(before, dump(t, pool)); diff != "" {
					t.Errorf("a broken transaction left rows (-before +after):\n%s", diff)
				}
				if err := p.Apply(t.Context(), 1, all[8:], uint64(len(all))); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(rebuild(t, url, log), dump(t, pool)); diff != "" {
					t.Errorf("rows differ from a rebuild (-rebuilt +live):\n%s", diff)
				}
			})
		}
	}
}

// Two projectors on one partition, as during a takeover, write every row once; a checkpoint read meanwhile only rises.
func TestTwoProjectorsMayRace(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	log := story(t, 2, 60)
	all := log.All()
	pool := open(t, url, "pilot", postgres.Settings{LockTimeout: -1, StatementTimeout: -1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var racers sync.WaitGroup
	for seed := range uint64(3) {
		racers.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 1))
			p := projector.New(pool, projector.Config{Gapless: true, Cache: 5, Timeout: time.Minute})
			for {
				at, err := p.Checkpoint(ctx, 2)
				if err != nil {
					t.Error(err)
					return
				}
				if at == uint64(len(all)) {
					return
				}
				from, to := max(0, int(at)-rnd.IntN(4)), min(len(all), int(at)+1+rnd.IntN(9))
				if err := p.Apply(ctx, 2, all[from:to], uint64(to)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { racers.Wait(); close(done) }()
	watcher := projector.New(pool, projector.Config{})
	for high, running := uint64(0), true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		at, err := watcher.Checkpoint(ctx, 2)
		if err != nil {
			t.Error(err)
			break
		}
		if at < high {
			t.Errorf("checkpoint went from %d back to %d", high, at)
		}
		high = at
	}
	<-done
	if diff := cmp.Diff(rebuild(t, url, log), dump(t, pool)); diff != "" {
		t.Errorf("rows differ from a rebuild (-rebuilt +live):\n%s", diff)
	}
}
