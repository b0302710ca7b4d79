package postgres_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"pilotstatus.dev/infra/postgres"
)

// dataDir is a directory that the server's user can reach, other than those of t.TempDir.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pilot-postgres-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "data")
}

// quick leaves out the flushes that these tests do not look at.
func quick(dir string) postgres.ManagedConfig {
	return postgres.ManagedConfig{DataDir: dir, Parameters: map[string]string{"fsync": "off"}}
}

func start(t *testing.T, cfg postgres.ManagedConfig) *postgres.Managed {
	t.Helper()
	m, err := postgres.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return m
}

func scalar(t *testing.T, url, query string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var value string
	if err := conn.QueryRow(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func TestManagedServerIsDurableLocalAndLocked(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	m := start(t, postgres.ManagedConfig{DataDir: dir})
	for query, want := range map[string]string{
		"show fsync":                   "on",
		"show listen_addresses":        "127.0.0.1",
		"show server_encoding":         "UTF8",
		"show unix_socket_directories": "",
		"select current_database()":    "pilot",
		"select datcollate from pg_database where datname = 'pilot'":          "C",
		"select string_agg(distinct auth_method, ',') from pg_hba_file_rules": "scram-sha-256",
		"select split_part(current_setting('server_version'), '.', 1)":        strconv.Itoa(m.Major()),
	} {
		if got := scalar(t, m.URL(), query); got != want {
			t.Errorf("%s = %q, want %q", query, got, want)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "password"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v, %v", info, err)
	}
	wrong := strings.Replace(m.URL(), ":"+passwordOf(t, dir)+"@", ":wrong@", 1)
	_, err = pgx.Connect(t.Context(), wrong)
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "28P01" {
		t.Errorf("wrong password: %v", err)
	}
	if _, err := postgres.Start(t.Context(), quick(dir)); !errors.Is(err, postgres.ErrInUse) {
		t.Errorf("second start: %v, want ErrInUse", err)
	}
}

func passwordOf(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "password"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

func TestDataSurvivesStopAndANewManager(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	first := start(t, quick(dir))
	conn, err := pgx.Connect(t.Context(), first.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "create table kept as select 'value' as v"); err != nil {
		t.Fatal(err)
	}
	// A session that stays open does not hold up a stop.
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
	select {
	case <-first.Done():
	default:
		t.Error("Done is open after Stop")
	}
	second := start(t, quick(dir))
	if got := scalar(t, second.URL(), "select v from kept"); got != "value" {
		t.Errorf("v = %q", got)
	}
}

func TestStartIsRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port

	old := dataDir(t)
	if err := os.MkdirAll(filepath.Join(old, "cluster"), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(old, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(old, "cluster", "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := quick(dataDir(t))
	taken.Port = port
	empty := quick(dataDir(t))
	empty.BinDir = t.TempDir()
	for name, c := range map[string]struct {
		cfg  postgres.ManagedConfig
		want error
		says string
	}{
		"other major":   {quick(old), postgres.ErrOtherMajor, "move the directory away"},
		"taken port":    {taken, postgres.ErrPortTaken, "--postgres-port"},
		"not installed": {empty, postgres.ErrNotInstalled, "initdb"},
	} {
		_, err := postgres.Start(t.Context(), c.cfg)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v saying %q", name, err, c.want, c.says)
		}
	}
	for name, cfg := range map[string]postgres.ManagedConfig{
		"no directory":  {},
		"database name": {DataDir: dataDir(t), Database: `x"; drop`},
		"bad parameter": {DataDir: dataDir(t), Parameters: map[string]string{"no_such_setting": "1"}},
	} {
		if _, err := postgres.Start(t.Context(), cfg); err == nil {
			t.Errorf("%s: started", name)
		}
	}
}

func TestMissingPasswordIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	m := start(t, quick(dir))
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "password")); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Start(t.Context(), quick(dir))
	if err == nil || !strings.Contains(err.Error(), "password is missing") {
		t.Errorf("error = %v", err)
	}
}

func TestCanceledStartLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cfg := quick(dir)
	cfg.StartTimeout = time.Millisecond
	if _, err := postgres.Start(t.Context(), cfg); err == nil {
		t.Fatal("started within a millisecond")
	}
	start(t, quick(dir)) // neither a lock nor a half-made cluster is in the way
}

func TestRootFindsAnotherPlace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root's server runs as another user")
	}
	dir := filepath.Join(t.TempDir(), "data") // below a directory of mode 0700
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	m := start(t, quick(dir))
	raw, err := os.ReadFile(filepath.Join(dir, "place"))
	if err != nil {
		t.Fatal(err)
	}
	cluster := strings.TrimSpace(string(raw))
	if got := scalar(t, m.URL(), "show data_directory"); got != cluster || strings.HasPrefix(got, dir) {
		t.Errorf("data_directory = %q, recorded is %q", got, cluster)
	}
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cluster); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("cluster after Remove: %v", err)
	}
}

// A data directory that was thrown away leaves its cluster behind; the next one gets a cluster of its own.
func TestRootMakesANewClusterAfterTheDataDirectoryIsGone(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root's server runs as another user")
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	first := start(t, quick(dir))
	old := scalar(t, first.URL(), "show data_directory")
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(old) })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	second := start(t, quick(dir))
	if got := scalar(t, second.URL(), "show data_directory"); got == old {
		t.Errorf("the old cluster %s was taken", got)
	}
	if err := second.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
