package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// clusterMajor reads the major version of a cluster, 0 when there is none.
func clusterMajor(cluster string) (int, error) {
	raw, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read version of cluster: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("read version of cluster: %w", err)
	}
	return major, nil
}

// password reads the owner's password from its file, or makes both when there is no cluster yet.
func password(dataDir, cluster string, exists bool) (string, error) {
	path := filepath.Join(dataDir, "password")
	raw, err := os.ReadFile(path)
	switch {
	case err == nil:
		return strings.TrimSpace(string(raw)), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read postgres password: %w", err)
	case exists:
		return "", fmt.Errorf("read postgres password: %s is missing; put it back, or move %s away: a new cluster is made and its views are rebuilt from the log", path, cluster)
	}
	text := rand.Text()
	if err := writeFile(path, text+"\n"); err != nil {
		return "", fmt.Errorf("write postgres password: %w", err)
	}
	return text, nil
}

// initialise makes the cluster beside its final place and moves it there, so that a cluster that exists is complete.
func (m *Managed) initialise(ctx context.Context) error {
	major, err := clusterMajor(m.cluster)
	if err != nil || major != 0 {
		return err
	}
	fresh, pwfile := m.cluster+".new", m.cluster+".password"
	defer os.Remove(pwfile) //nolint:errcheck // gone, or reported by the next write
	for _, leftover := range []string{fresh, pwfile} {
		if err := os.RemoveAll(leftover); err != nil {
			return fmt.Errorf("clear an unfinished cluster: %w", err)
		}
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	// initdb runs as the server's user, who cannot read our password file.
	if err := writeFile(pwfile, m.password+"\n"); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	if err := errors.Join(m.owner.owns(fresh), m.owner.owns(pwfile)); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	args := []string{
		"--pgdata=" + fresh, "--username=" + superuser, "--pwfile=" + pwfile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C",
	}
	if m.cfg.Parameters["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(m.bin.dir, "initdb"), args...) //nolint:gosec // an installed binary
	cmd.Dir, cmd.Env, cmd.SysProcAttr = fresh, environment(), m.owner.attributes()
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make cluster: %w: %s", err, lastLines(string(out), 5))
	}
	if err := os.Rename(fresh, m.cluster); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	return nil
}

// environment is what the binaries see: no PG… variable of ours may steer them.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}

func (m *Managed) ensureDatabase(ctx context.Context) error {
	if m.cfg.Database == "postgres" {
		return nil
	}
	conn, err := pgx.Connect(ctx, m.url(m.port, "postgres"))
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is pending
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", m.cfg.Database).Scan(&exists); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "create database "+pgx.Identifier{m.cfg.Database}.Sanitize()); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	return nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
