// Package schema makes the tables of the read side and opens pools onto them: every pool sees exactly one named schema.
//
// No statement of the read side names a schema, so that a second set of tables can be built beside the live one and
// take its place. What the tables mean is in docs/reference/views.md.
package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"pilotstatus.dev/infra/postgres"
)

// Default is the schema of the live views.
const Default = "pilot"

//go:embed migrations/*.sql
var files embed.FS

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Open makes a pool whose sessions see the tables of one schema only. It does not wait for the server. The caller closes it.
// Commits do not wait for the disk: rows and checkpoint are one transaction, so what a crash loses is projected again.
// A name that is no plain lower-case identifier is an error, and so is a URL that sets another search path; one in s is replaced.
func Open(ctx context.Context, url, name string, s postgres.Settings) (*pgxpool.Pool, error) {
	path, err := searchPath(name)
	if err != nil {
		return nil, fmt.Errorf("open views: %w", err)
	}
	s.SearchPath = path
	pool, err := postgres.Open(ctx, url, s)
	if err != nil {
		return nil, err
	}
	if pool.Config().ConnConfig.RuntimeParams["search_path"] != path {
		pool.Close()
		return nil, errors.New("open views: the URL sets another search path")
	}
	return pool, nil
}

// Migrate brings the tables of a schema up to the newest version, making the schema when it is absent. It may run in
// several processes at once: they take turns. It changes nothing when there is nothing to do.
func Migrate(ctx context.Context, url, name string) error {
	if err := migrate(ctx, url, name); err != nil {
		return fmt.Errorf("migrate schema of the views: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, url, name string) (err error) {
	path, err := searchPath(name)
	if err != nil {
		return err
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["search_path"] = path
	cfg.RuntimeParams["application_name"] = "pilot migrate"

	turn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	// Closing the session gives the lock back, however the work ended.
	defer func() { err = errors.Join(err, turn.Close(context.WithoutCancel(ctx))) }()
	if _, err := turn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended('pilot views ' || $1, 0))`, name); err != nil {
		return fmt.Errorf("wait for a turn: %w", err)
	}
	if _, err := turn.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+path); err != nil {
		return fmt.Errorf("make the schema: %w", err)
	}

	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	sql, err := fs.Sub(files, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, sql,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

func searchPath(name string) (string, error) {
	if !plainName.MatchString(name) {
		return "", errors.New("the name of a schema is a plain lower-case identifier of at most 63 characters")
	}
	return pgx.Identifier{name}.Sanitize(), nil
}
