// Package natsserver runs an embedded NATS server with JetStream and connects to it or to an external one.
//
// It promises that a server which Start returned accepts connections and keeps what it acknowledged as its
// sync policy says, and that no two servers of this program ever share one store directory.
package natsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/filelock"
)

// Sync says when a stored message reaches the disk, measured against the publisher's acknowledgement.
type Sync string

const (
	// SyncAlways flushes every stored message before it is acknowledged (`sync_interval: always`).
	SyncAlways Sync = "always"
	// SyncDefault leaves the flush to the server's two-minute timer: an acknowledged message survives the end of
	// the process, not a power cut.
	SyncDefault Sync = "default"
	// SyncGroup is SyncDefault for the server: whoever appends waits for a sync of the file system that began after the
	// acknowledgement (package groupcommit). The server calls itself GroupName, because a client of another process
	// cannot wait for that sync and must not append.
	SyncGroup Sync = "group"
)

// GroupName is the name of a server under SyncGroup; clients see it as the name of the server they are connected to.
const GroupName = "pilot-group-commit"

const (
	// DefaultPort is the port of Config.Port 0, the one the NATS tools expect.
	DefaultPort = 4222
	// RandomPort as Config.Port takes any free port.
	RandomPort = -1
	// Loopback is the only address an embedded server listens on.
	Loopback = "127.0.0.1"

	maxPayload     = 1 << 20
	defaultStartIn = 30 * time.Second
)

var (
	// ErrPortTaken says that another process listens on the wanted port.
	ErrPortTaken = errors.New("port is taken")
	// ErrStoreInUse says that a running process holds the store directory.
	ErrStoreInUse = errors.New("store directory is in use by a running process")
)

// Config describes an embedded server. Its zero value, with StoreDir set, is a durable server on DefaultPort.
type Config struct {
	// StoreDir holds the JetStream files; it is made when absent.
	StoreDir string
	// Port to listen on: 0 means DefaultPort, RandomPort any free one.
	Port int
	// DontListen opens no socket at all: only Server.Connect reaches the server. Made for synctest bubbles; nats.go
	// pools timers across connections, so a process whose test uses nats.go in a bubble may not use it outside one,
	// nor in a second bubble.
	DontListen bool
	// Sync is the flush policy, SyncAlways when empty.
	Sync Sync
	// MaxStore bounds the bytes of all file streams; 0 lets the server take three quarters of the free disk.
	MaxStore int64
	// Name is the server's name in its own answers, "pilot" when empty; under SyncGroup it is GroupName.
	Name string
	// Logger takes the server's warnings and errors, and its notices at debug level.
	Logger zerolog.Logger
}

// Server is a running embedded server. Make it with Start; its methods are safe for concurrent use.
type Server struct {
	srv        *server.Server
	lock       *filelock.Lock
	dontListen bool

	stopping sync.Once
	stopped  chan struct{}
}

// Start runs a server and returns when it accepts connections, when ctx ends, or after 30 s. The server outlives
// ctx; Stop ends it. A taken port is ErrPortTaken, a store directory held by a live process ErrStoreInUse.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("start nats server: %w", err)
	}
	if err := os.MkdirAll(cfg.StoreDir, 0o700); err != nil {
		return nil, fmt.Errorf("start nats server: %w", err)
	}
	lock, err := filelock.Take(filepath.Join(cfg.StoreDir, "pilot.lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("start nats server: %w (%s)", ErrStoreInUse, cfg.StoreDir)
	}
	if err != nil {
		return nil, fmt.Errorf("start nats server: %w", err)
	}
	s := &Server{lock: lock, dontListen: cfg.DontListen, stopped: make(chan struct{})}
	if err := s.run(ctx, opts, cfg.Logger); err != nil {
		return nil, fmt.Errorf("start nats server: %w", errors.Join(err, lock.Release()))
	}
	return s, nil
}

func (c Config) options() (*server.Options, error) {
	if c.StoreDir == "" {
		return nil, errors.New("no store directory given")
	}
	if c.Sync == "" {
		c.Sync = SyncAlways
	}
	if c.Sync != SyncAlways && c.Sync != SyncDefault && c.Sync != SyncGroup {
		return nil, fmt.Errorf("unknown sync policy %q: want %q, %q or %q", c.Sync, SyncAlways, SyncGroup, SyncDefault)
	}
	if c.Port == 0 {
		c.Port = DefaultPort
	}
	if c.Port < RandomPort || c.Port > 65535 {
		return nil, fmt.Errorf("port %d is out of range", c.Port)
	}
	switch {
	case c.Sync == SyncGroup:
		c.Name = GroupName
	case c.Name == "":
		c.Name = "pilot"
	}
	opts := &server.Options{
		ServerName:        c.Name,
		Host:              Loopback,
		Port:              c.Port,
		DontListen:        c.DontListen,
		JetStream:         true,
		StoreDir:          c.StoreDir,
		JetStreamMaxStore: c.MaxStore,
		SyncAlways:        c.Sync == SyncAlways,
		MaxPayload:        maxPayload,
		NoSigs:            true,
		NoLog:             true,
	}
	// The server's own cap of 1,000 consumers a stream would refuse lanes; each stream states its cap itself.
	opts.JetStreamLimits.DefaultMaxConsumers = -1
	return opts, nil
}

func (s *Server) run(ctx context.Context, opts *server.Options, logger zerolog.Logger) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !opts.DontListen && opts.Port > 0 {
		// The server would recover its whole store before it notices.
		if err := portFree(ctx, opts.Port); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, defaultStartIn)
	defer cancel()

	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	s.srv = srv
	bridge := newBridge(logger)
	srv.SetLoggerV2(bridge, false, false, false)

	started := make(chan struct{})
	go func() {
		defer close(started)
		srv.Start()
	}()
	select {
	case <-started:
		err = bridge.fatal()
	case <-bridge.died:
		err = bridge.fatal()
	case <-ctx.Done():
		err = fmt.Errorf("wait for readiness: %w", context.Cause(ctx))
	}
	if err == nil && !srv.ReadyForConnections(time.Second) {
		err = errors.New("server came up without accepting connections")
	}
	if err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		<-started
	}
	return err
}

// portFree asks for the port and gives it back.
func portFree(ctx context.Context, port int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another process listens on %s:%d; choose another with --nats-port or PILOT_NATS_PORT (0 takes any free one): %w",
			ErrPortTaken, Loopback, port, err)
	}
	if err != nil {
		return fmt.Errorf("take port %d: %w", port, err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("release port %d: %w", port, err)
	}
	return nil
}

// ClientURL is the address for clients of other processes, `nats://127.0.0.1:<port>`; empty with DontListen.
func (s *Server) ClientURL() string {
	if s.dontListen {
		return ""
	}
	return s.srv.ClientURL()
}

// Stop shuts the server down and waits until its files are closed, at most until ctx ends. Close the connections
// first (Drain). A second call waits for the first. After an error the store directory stays locked until the
// process ends.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Do(func() {
		go func() {
			defer close(s.stopped)
			s.srv.Shutdown()
			s.srv.WaitForShutdown()
			_ = s.lock.Release() // nothing was written to it
		}()
	})
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop nats server: %w", context.Cause(ctx))
	}
}
