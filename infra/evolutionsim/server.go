package evolutionsim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server is one running simulator. It is safe for concurrent use.
type Server struct {
	options  Options
	http     *http.Server
	url      string
	ctx      context.Context // ends with Close: whatever waits, waits on it
	cancel   context.CancelFunc
	stop     func() bool // unhooks the caller's context
	once     sync.Once
	gate     sync.Mutex // orders the start of handlers before the wait for them
	handlers sync.WaitGroup

	mu        sync.RWMutex
	instances map[string]*instance

	version  atomic.Pointer[string]
	numbers  *numbers
	faults   *faults
	ledger   *ledger
	hooks    *hooks
	requests atomic.Int64
	clockOff atomic.Int64 // how far its clock is ahead, milliseconds
}

// Start listens, unless DontListen is set, and serves until Close, or until ctx ends; Close must be called in either case.
func Start(ctx context.Context, options Options) (*Server, error) {
	options.setDefaults()
	if err := options.NumberCache.check(); err != nil {
		return nil, fmt.Errorf("start the simulated gateway: %w", err)
	}
	listener, err := options.listen(ctx)
	if err != nil {
		return nil, fmt.Errorf("listen for the simulated gateway: %w", err)
	}
	s := &Server{
		options:   options,
		url:       "http://" + options.Address,
		instances: map[string]*instance{},
		numbers:   newNumbers(options.NumberCache, options.NumberCap),
		faults:    newFaults(options.FaultsLimit),
		ledger:    newLedger(options.LedgerCap),
	}
	s.version.Store(&options.Version)
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.hooks = newHooks(s.ctx, options.Webhooks, options.PendingCap)
	for _, i := range options.Instances {
		if err := s.AddInstance(i); err != nil {
			s.cancel()
			s.hooks.close()
			if listener != nil {
				err = errors.Join(err, listener.Close())
			}
			return nil, err
		}
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Second}
	if listener != nil {
		s.url = "http://" + listener.Addr().String()
		s.handlers.Go(func() { _ = s.http.Serve(listener) }) // it ends with ErrServerClosed by Close
	}
	s.stop = context.AfterFunc(ctx, s.close)
	return s, nil
}

// listen gives nil when nothing is to be listened on.
func (o Options) listen(ctx context.Context) (net.Listener, error) {
	if o.DontListen {
		return nil, nil
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
}

// URL is the base URL of the gateway, without a slash at its end.
func (s *Server) URL() string { return s.url }

// APIKey is the global key.
func (s *Server) APIKey() string { return s.options.APIKey }

// Close ends every request, drops what waits to be posted, and returns when nothing of the server runs any more.
func (s *Server) Close() {
	s.stop()
	s.close()
}

func (s *Server) close() {
	s.once.Do(func() {
		s.gate.Lock()
		s.cancel()
		s.gate.Unlock()
		_ = s.http.Close() // it only repeats the listener's error
		s.handlers.Wait()
		s.hooks.close()
	})
}

// ServeHTTP answers as the gateway does, and /sim/… as the simulator.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.handlers.Done()
	if isControl(r.URL.Path) {
		s.control(w, r)
		return
	}
	s.requests.Add(1)
	s.serveGateway(w, r)
}

func (s *Server) enter() bool {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.handlers.Add(1)
	return true
}

// Reset forgets the ledger, messages, cached numbers, faults and waiting webhooks. Instances stay as they are.
func (s *Server) Reset() {
	s.faults.clear()
	s.ledger.clear()
	s.numbers.clear()
	s.hooks.clear()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, i := range s.instances {
		i.store.clear()
	}
}

// Stats are counters since the start.
type Stats struct {
	Requests  int64 `json:"requests"`  // to the gateway's routes
	Accepted  int64 `json:"accepted"`  // messages taken since the last reset
	Posted    int64 `json:"posted"`    // webhooks answered with 2xx
	Attempts  int64 `json:"attempts"`  // webhooks tried
	Abandoned int64 `json:"abandoned"` // webhooks given up, as the gateway does
	Dropped   int64 `json:"dropped"`   // webhooks beyond PendingCap
	Pending   int64 `json:"pending"`   // webhooks waiting now
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	stats := s.hooks.stats()
	stats.Requests = s.requests.Load()
	stats.Accepted = s.ledger.total()
	return stats
}
