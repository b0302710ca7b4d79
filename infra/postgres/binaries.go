package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNotInstalled says that no PostgreSQL server was found on this machine.
var ErrNotInstalled = errors.New("no PostgreSQL server is installed")

// installation is a directory that holds both `postgres` and `initdb`.
type installation struct {
	dir   string
	major int
}

// installed lists the installations on PATH, where pg_config points, and where the usual packages put them.
// The first on PATH comes first, the others newest first.
func installed(ctx context.Context) []installation {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	if out, err := run(ctx, "pg_config", "--bindir"); err == nil {
		dirs = append(dirs, strings.TrimSpace(out))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",         // Debian
		"/usr/pgsql-*/bin",                  // Fedora, RHEL (PGDG)
		"/opt/homebrew/opt/postgresql*/bin", // macOS, ARM
		"/usr/local/opt/postgresql*/bin",    // macOS, Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		dirs = append(dirs, found...)
	}

	var all []installation
	for _, dir := range dirs {
		known := slices.ContainsFunc(all, func(i installation) bool { return i.dir == dir })
		if major, err := majorOf(ctx, dir); err == nil && !known {
			all = append(all, installation{dir: dir, major: major})
		}
	}
	if len(all) > 1 {
		slices.SortStableFunc(all[1:], func(a, b installation) int { return b.major - a.major })
	}
	return all
}

// choose picks the installation for a data directory of the given major version, 0 when it is yet to be made.
func choose(all []installation, major int, cluster string) (installation, error) {
	if len(all) == 0 {
		return installation{}, fmt.Errorf("%w: %s; or name an existing server by its URL", ErrNotInstalled, howToInstall(runtime.GOOS))
	}
	if major == 0 {
		return all[0], nil
	}
	for _, i := range all {
		if i.major == major {
			return i, nil
		}
	}
	return installation{}, fmt.Errorf(
		"%w: %s is of PostgreSQL %d, installed is %d; install PostgreSQL %d, or move the directory away: a new one is made and its views are rebuilt from the log",
		ErrOtherMajor, cluster, major, all[0].major, major)
}

func howToInstall(goos string) string {
	if goos == "darwin" {
		return "run `brew install postgresql@17`"
	}
	return "run `apt-get install postgresql` (Debian, Ubuntu) or `dnf install postgresql-server` (Fedora)"
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// majorOf asks the binaries in dir for their version.
func majorOf(ctx context.Context, dir string) (int, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, err
	}
	out, err := run(ctx, filepath.Join(dir, "postgres"), "--version")
	if err != nil {
		return 0, err
	}
	match := versionLine.FindStringSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("unknown version %q", strings.TrimSpace(out))
	}
	return strconv.Atoi(match[1])
}

func run(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output() //nolint:gosec // fixed names below fixed directories
	if err != nil {
		return "", fmt.Errorf("run %s: %w", filepath.Base(name), err)
	}
	return string(out), nil
}
