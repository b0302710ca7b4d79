package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/filelock"
)

const (
	host        = "127.0.0.1"
	superuser   = "pilot"
	maxAttempts = 20
	retryPause  = 250 * time.Millisecond
)

var (
	// ErrOtherMajor says that the data directory was made by a major version that is not installed.
	ErrOtherMajor = errors.New("data directory of another major version")
	// ErrInUse says that a running process manages the same data directory.
	ErrInUse = errors.New("data directory is in use by a running process")
	// ErrPortTaken says that the port asked for belongs to another process.
	ErrPortTaken = errors.New("port is taken")
)

// ManagedConfig describes a managed server. Its zero value, with DataDir set, is a durable server on a free port.
type ManagedConfig struct {
	// DataDir holds the password, and the cluster where the server's user can reach it; it is made when absent.
	DataDir string
	// Port on 127.0.0.1; 0 takes a free one, which stays the same over Stop and Start.
	Port int
	// Database is made when absent, "pilot" when empty.
	Database string
	// BinDir holds `postgres` and `initdb`; empty means to look for them.
	BinDir string
	// Parameters are further server settings; they win over ours (`fsync` is on unless set to off here).
	Parameters map[string]string
	// StartTimeout bounds a start, making the cluster included; 0 means 60 s.
	StartTimeout time.Duration
	// StopTimeout is what a clean stop may take before an unclean one, where ctx allows more; 0 means 10 s.
	StopTimeout time.Duration
	// Logger takes the server's operational lines; they carry no statements and no values.
	Logger zerolog.Logger
}

// Managed is a Postgres server that runs as our child. Make it with Start; its methods are safe for concurrent use.
type Managed struct {
	cfg      ManagedConfig
	bin      installation
	owner    *user
	cluster  string
	password string

	mu   sync.Mutex // guards what follows, and is held over a start and a stop
	port int
	lock *filelock.Lock
	proc *process
}

var databaseName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Start makes the cluster when there is none, runs the server and returns when it answers. A server that a killed
// process left behind is stopped first. The server outlives ctx; Stop ends it, and so does the end of this process.
// As root the server runs as user postgres, or nobody. Errors: ErrNotInstalled, ErrOtherMajor, ErrInUse, ErrPortTaken.
func Start(ctx context.Context, cfg ManagedConfig) (*Managed, error) {
	m, err := prepare(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	if err := m.Start(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

func prepare(ctx context.Context, cfg ManagedConfig) (*Managed, error) {
	if cfg.DataDir == "" {
		return nil, errors.New("no data directory given")
	}
	if cfg.Database == "" {
		cfg.Database = "pilot"
	}
	if !databaseName.MatchString(cfg.Database) {
		return nil, errors.New("database name is not a plain lower-case identifier")
	}
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = time.Minute
	}
	if cfg.StopTimeout <= 0 {
		cfg.StopTimeout = 10 * time.Second
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("locate data directory: %w", err)
	}
	if cfg.DataDir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("locate data directory: %w", err)
	}
	m := &Managed{cfg: cfg, port: cfg.Port}
	if m.owner, err = serverUser(); err != nil {
		return nil, err
	}
	if m.cluster, err = place(cfg.DataDir, m.owner, cfg.Logger); err != nil {
		return nil, err
	}
	major, err := clusterMajor(m.cluster)
	if err != nil {
		return nil, err
	}
	if m.bin, err = findBinaries(ctx, cfg.BinDir, major, m.cluster); err != nil {
		return nil, err
	}
	m.password, err = password(cfg.DataDir, m.cluster, major != 0)
	return m, err
}

func findBinaries(ctx context.Context, binDir string, major int, cluster string) (installation, error) {
	if binDir == "" {
		return choose(installed(ctx), major, cluster)
	}
	own, err := majorOf(ctx, binDir)
	if err != nil {
		return installation{}, fmt.Errorf("%w in %s: %w", ErrNotInstalled, binDir, err)
	}
	return choose([]installation{{dir: binDir, major: own}}, major, cluster)
}

// Start runs the server again after Stop, Kill or a crash, on the same port with the same data. A running server is
// left alone.
func (m *Managed) Start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil && !m.proc.ended() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.StartTimeout)
	defer cancel()
	err := m.start(ctx)
	if err != nil {
		return fmt.Errorf("start postgres: %w", errors.Join(err, m.release()))
	}
	return nil
}

func (m *Managed) start(ctx context.Context) error {
	if m.lock == nil {
		lock, err := filelock.Take(m.cluster + ".lock")
		if errors.Is(err, filelock.ErrHeld) {
			return fmt.Errorf("%w (%s.lock)", ErrInUse, m.cluster)
		}
		if err != nil {
			return err
		}
		m.lock = lock
	}
	if err := m.initialise(ctx); err != nil {
		return err
	}
	if err := stopLeftover(ctx, m.cluster, m.cfg.Logger); err != nil {
		return err
	}
	if m.cfg.Port != 0 {
		if err := portFree(ctx, m.cfg.Port); err != nil {
			return err
		}
	}
	var err error
	for range maxAttempts {
		if m.port == 0 {
			if m.port, err = freePort(ctx); err != nil {
				return err
			}
		}
		if err = m.launch(ctx); err == nil {
			return m.ensureDatabase(ctx)
		}
		if !passing(err) || !await.Elapsed(ctx, retryPause) {
			return err
		}
		if m.cfg.Port == 0 && m.proc == nil { // never up yet: nobody knows the port
			m.port = 0
		}
	}
	return err
}

// Stop ends the server: cleanly at first, uncleanly (its log recovers that) once StopTimeout or ctx has passed. The
// server is down when Stop returns, whatever ctx says. A stopped server may be started again.
func (m *Managed) Stop(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.StopTimeout)
	defer cancel()
	var err error
	if m.proc != nil {
		err = m.proc.stop(ctx)
	}
	if err = errors.Join(err, m.release()); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	return nil
}

// Kill ends the server with SIGKILL, as a crash of the machine's memory would, and waits for its end. For tests.
func (m *Managed) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil {
		m.proc.kill()
	}
	if err := m.release(); err != nil {
		return fmt.Errorf("kill postgres: %w", err)
	}
	return nil
}

// Remove stops the server and deletes its data.
func (m *Managed) Remove(ctx context.Context) error {
	err := m.Stop(ctx)
	for _, path := range []string{
		m.cluster, m.cluster + ".lock",
		filepath.Join(m.cfg.DataDir, "password"), filepath.Join(m.cfg.DataDir, "place"),
	} {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

func (m *Managed) release() error {
	if m.lock == nil {
		return nil
	}
	lock := m.lock
	m.lock = nil
	return lock.Release()
}

// URL addresses the configured database as the cluster's owner. It holds the password.
func (m *Managed) URL() string { return m.DatabaseURL(m.cfg.Database) }

// DatabaseURL addresses a database of the server as the cluster's owner. It holds the password.
func (m *Managed) DatabaseURL(database string) string { return m.url(m.Port(), database) }

func (m *Managed) url(port int, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, m.password),
		Host:     net.JoinHostPort(host, strconv.Itoa(port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is where the server listens on 127.0.0.1.
func (m *Managed) Port() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.port
}

// Major is the server's major version.
func (m *Managed) Major() int { return m.bin.major }

// Done is closed when the server process that runs now has ended, asked to or not.
func (m *Managed) Done() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc.done
}
