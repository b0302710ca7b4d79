package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"pilotstatus.dev/infra/loopback"
)

// front is the address of the simulated gateway that Pilot knows, so that it can refuse connections for a while: the gateway goes on, and
// what was asked before is answered.
type front struct {
	addr   string
	server *http.Server

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	cuts     []span       // when it began to refuse them
	serving  sync.WaitGroup
}

// startFront listens before the gateway at target.
func startFront(ctx context.Context, target string) (*front, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("read the gateway's address: %w", err)
	}
	// No connection is used twice: one that is kept open would go on while new ones are refused, or would have to be broken in a call.
	way := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{DisableKeepAlives: true},
		// A client that was killed is no error, and an answer that the gateway did not give is none of its.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	f := &front{server: &http.Server{Handler: way, ReadHeaderTimeout: 10 * time.Second}}
	f.server.SetKeepAlivesEnabled(false)
	addrs, err := loopback.Addresses(ctx, 1)
	if err != nil {
		return nil, err
	}
	f.addr = addrs[0].String()
	return f, f.open(ctx)
}

// URL is the base URL of the gateway as Pilot knows it.
func (f *front) URL() string { return "http://" + f.addr }

// open lets connections through.
func (f *front) open(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		return nil
	}
	l, err := loopback.Listen(ctx, f.addr)
	if err != nil {
		return fmt.Errorf("listen before the gateway: %w", err)
	}
	f.listener = l
	f.serving.Go(func() { _ = f.server.Serve(l) }) // it ends when l is closed
	return nil
}

// refuse has connections refused. One that the system took and nobody has yet is broken: whoever had written a request does not know whether
// it was read.
func (f *front) refuse(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener == nil {
		return nil
	}
	began := time.Now()
	err := loopback.Close(ctx, f.listener)
	f.listener = nil
	f.serving.Wait()
	f.cuts = append(f.cuts, span{began, time.Now()})
	return err
}

// refused gives when connections began to be refused.
func (f *front) refused() []span {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cuts
}

// close ends it; whoever waits for an answer gets none.
func (f *front) close() error {
	err := f.server.Close()
	f.serving.Wait()
	if errors.Is(err, net.ErrClosed) { // it refuses already
		return nil
	}
	return err
}
