// Package postgres gives Pilot its Postgres: one that exists, by URL, or one that it installs into its data
// directory, runs as a child process and stops.
//
// It promises that no statement, lock or open transaction of a pool waits without bound, and that a managed server
// never outlives its parent, listens on loopback only and never shares its files with a second parent.
package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Limits of a session, and the settings of a pool.
const (
	DefaultStatementTimeout = 5 * time.Second
	DefaultLockTimeout      = 2 * time.Second
	DefaultIdleInTx         = 10 * time.Second
	DefaultConnectTimeout   = 5 * time.Second
)

// Settings shape the sessions of a pool. Zero values mean the defaults; what the URL itself sets wins over both.
type Settings struct {
	// ApplicationName shows in pg_stat_activity, "pilot" when empty.
	ApplicationName string
	// SearchPath is a comma-separated list of schemas; empty leaves the role's own.
	SearchPath string
	// StatementTimeout ends a statement that runs longer; negative means no limit (migrations, rebuilds).
	StatementTimeout time.Duration
	// LockTimeout ends a statement that waits longer for a lock; negative means no limit.
	LockTimeout time.Duration
	// IdleInTx ends a session that leaves a transaction open and idle for longer; negative means no limit.
	IdleInTx time.Duration
	// Disposable lets a commit be acknowledged before it is on disk (synchronous_commit off): for what is rebuilt from the log
	// anyway. A crash of the server can lose the newest commits, whole ones and in order; it corrupts nothing.
	Disposable bool
	// MaxConns caps the pool; 0 means pgxpool's default, the larger of 4 and the number of CPUs.
	MaxConns int32
}

// Open makes a pool for url (`postgres://user:password@host:port/database`). It does not wait for the server, so
// that a process starts with Postgres down; pool.Ping asks. The caller closes the pool. No error repeats the password.
func Open(ctx context.Context, url string, s Settings) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open postgres pool: %w", err)
	}
	if s.ApplicationName == "" {
		s.ApplicationName = "pilot"
	}
	session := map[string]string{
		"application_name":                    s.ApplicationName,
		"statement_timeout":                   milliseconds(s.StatementTimeout, DefaultStatementTimeout),
		"lock_timeout":                        milliseconds(s.LockTimeout, DefaultLockTimeout),
		"idle_in_transaction_session_timeout": milliseconds(s.IdleInTx, DefaultIdleInTx),
	}
	if s.SearchPath != "" {
		session["search_path"] = s.SearchPath
	}
	if s.Disposable {
		session["synchronous_commit"] = "off"
	}
	for name, value := range session {
		if _, given := cfg.ConnConfig.RuntimeParams[name]; !given {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = DefaultConnectTimeout
	}
	if s.MaxConns > 0 {
		cfg.MaxConns = s.MaxConns
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open postgres pool: %w", err)
	}
	return pool, nil
}

// milliseconds renders a limit as Postgres takes it, where 0 means none.
func milliseconds(d, fallback time.Duration) string {
	switch {
	case d == 0:
		d = fallback
	case d < 0:
		d = 0
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}
