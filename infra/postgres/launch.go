package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const readyPoll = 25 * time.Millisecond

// launch runs the server on m.port and waits until it answers; on an error nothing runs.
func (m *Managed) launch(ctx context.Context) error {
	args := []string{"-D", m.cluster}
	for name, value := range m.parameters() {
		args = append(args, "-c", name+"="+value)
	}
	proc, err := spawn(filepath.Join(m.bin.dir, "postgres"), args, m.cluster, m.owner, m.cfg.Logger)
	if err != nil {
		return err
	}
	if err := m.answers(ctx, proc); err != nil {
		proc.kill()
		return err
	}
	m.proc = proc
	return nil
}

func (m *Managed) parameters() map[string]string {
	settings := map[string]string{
		"listen_addresses":        host,
		"port":                    strconv.Itoa(m.port),
		"unix_socket_directories": "",
		"fsync":                   "on",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		// Errors of statements go to the client and name values: they stay out of the log.
		"log_min_messages":        "log",
		"log_min_error_statement": "panic",
		"log_error_verbosity":     "terse",
		"log_checkpoints":         "off",
	}
	maps.Copy(settings, m.cfg.Parameters)
	return settings
}

// answers waits until the server takes a session, ends, or ctx does.
func (m *Managed) answers(ctx context.Context, proc *process) error {
	address := m.url(m.port, "postgres")
	for {
		err := try(ctx, address)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(refused.Code, "28") {
			return fmt.Errorf("wait for readiness: %w", err) // a wrong password does not become right
		}
		timer := time.NewTimer(readyPoll)
		select {
		case <-proc.done:
			timer.Stop()
			return &exitError{lines: proc.tail()}
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for readiness: %w: %s", context.Cause(ctx), proc.tail())
		case <-timer.C:
		}
	}
}

func try(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// exitError says that the server ended while it started.
type exitError struct{ lines string }

func (e *exitError) Error() string { return "server ended while starting: " + e.lines }

// passing reports whether a start that failed may succeed a moment later: the port was snatched, or the last traces
// of a killed server are still there.
func passing(err error) bool {
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		return false
	}
	return slices.ContainsFunc([]string{
		"Address already in use", "could not create any TCP/IP sockets",
		"pre-existing shared memory block", `lock file "postmaster.pid" already exists`,
	}, func(sign string) bool { return strings.Contains(exit.lines, sign) })
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	address, ok := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil || !ok {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return address.Port, nil
}

func portFree(ctx context.Context, port int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another process listens on %s:%d; choose another with --postgres-port or PILOT_POSTGRES_PORT (0 takes any free one)",
			ErrPortTaken, host, port)
	}
	if err != nil {
		return fmt.Errorf("take port %d: %w", port, err)
	}
	return l.Close()
}
