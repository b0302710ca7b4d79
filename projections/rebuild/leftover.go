package rebuild

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What stands between the name of the live schema and a time, in the names of others.
const (
	unfinishedMark = "_r"
	oldMark        = "_old_"
)

func stamp(at time.Time) string { return at.UTC().Format("20060102150405") }

// Found lists the schemas beside a live one, the oldest first.
type Found struct {
	Unfinished []string // of rebuilds that did not come to their switch
	Old        []string // that were replaced and kept
}

// Leftovers lists what stands beside the live schema. While a rebuild runs its schema is listed too.
func Leftovers(ctx context.Context, url, live string) (Found, error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return Found{}, fmt.Errorf("list schemas: %w", err)
	}
	found, err := leftovers(ctx, conn, live)
	return found, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// Clean removes what interrupted rebuilds left behind and gives the names. Replaced schemas that were kept stay: somebody
// asked for that. The error is ErrRunning while a rebuild is under way.
func Clean(ctx context.Context, url, live string) (_ []string, err error) {
	conn, err := takeTurn(ctx, url, live)
	if err != nil {
		return nil, fmt.Errorf("clean up: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	found, err := leftovers(ctx, conn, live)
	if err != nil {
		return nil, fmt.Errorf("clean up: %w", err)
	}
	for i, name := range found.Unfinished {
		if err := drop(ctx, conn, name); err != nil {
			return found.Unfinished[:i], fmt.Errorf("clean up: %w", err)
		}
	}
	return found.Unfinished, nil
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the URL of Postgres: %w", err)
	}
	cfg.RuntimeParams["application_name"] = "pilot rebuild"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	return conn, nil
}

// takeTurn connects and takes the one turn there is; closing the connection, or the end of the process, gives it back. A turn whose
// holder has just gone is free only when its session has ended in Postgres, so it is waited for a little.
func takeTurn(ctx context.Context, url, live string) (*pgx.Conn, error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, `SET lock_timeout = '3s'`)
	if err == nil {
		_, err = conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended('pilot rebuild ' || $1, 0))`, live)
	}
	if err == nil {
		_, err = conn.Exec(ctx, `SET lock_timeout = 0`)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == stateLockUnavailable {
		err = ErrRunning
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

func leftovers(ctx context.Context, conn *pgx.Conn, live string) (Found, error) {
	var f Found
	unfinished := regexp.MustCompile("^" + regexp.QuoteMeta(live+unfinishedMark) + "[0-9]{14}$")
	old := regexp.MustCompile("^" + regexp.QuoteMeta(live+oldMark) + "[0-9]{14}$")
	rows, err := conn.Query(ctx, `SELECT nspname FROM pg_namespace ORDER BY nspname`)
	if err == nil {
		var name string
		_, err = pgx.ForEachRow(rows, []any{&name}, func() error {
			switch {
			case unfinished.MatchString(name):
				f.Unfinished = append(f.Unfinished, name)
			case old.MatchString(name):
				f.Old = append(f.Old, name)
			}
			return nil
		})
	}
	if err != nil {
		return Found{}, fmt.Errorf("list schemas: %w", err)
	}
	return f, nil
}

// dropLimit bounds the wait for readers that still use a schema, dropTries how often a deadlock with one is tried again.
const (
	dropLimit = 30 * time.Second
	dropTries = 5

	// https://www.postgresql.org/docs/current/errcodes-appendix.html
	stateDeadlock        = "40P01"
	stateLockUnavailable = "55P03"
)

func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	ctx, cancel := context.WithTimeout(ctx, dropLimit)
	defer cancel()
	var err error
	for range dropTries {
		var pg *pgconn.PgError
		_, err = conn.Exec(ctx, `DROP SCHEMA `+pgx.Identifier{name}.Sanitize()+` CASCADE`)
		if !errors.As(err, &pg) || pg.Code != stateDeadlock {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("drop schema %s: %w", name, err)
	}
	return nil
}
