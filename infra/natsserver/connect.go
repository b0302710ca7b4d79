package natsserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	dialTimeout    = 5 * time.Second
	defaultDialFor = 30 * time.Second
	drainTimeout   = 10 * time.Second
	reconnectWait  = 250 * time.Millisecond
	pingInterval   = 5 * time.Second
)

// Client says how a connection is made. The zero value is usable.
type Client struct {
	// Name shows in the server's connection list, "pilot" when empty.
	Name string
	// OnError hears asynchronous errors: permission violations, slow consumers, lost connections. It must not
	// block. A publish that permissions forbid shows only here, its caller just sees a timeout. May be nil.
	OnError func(error)
	// Options are applied last: credentials, TLS, an inbox prefix.
	Options []nats.Option
}

// Connect connects to an external server, `nats://host:port` (several separated by commas), trying again until ctx
// ends, for 30 s when ctx has no deadline. Refused credentials end it at once. An established connection reconnects
// for ever, with jitter. While it is down a publish fails at once with nats.ErrReconnectBufExceeded instead of
// leaving late. Close it with Drain.
func Connect(ctx context.Context, url string, c Client) (*nats.Conn, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultDialFor)
		defer cancel()
	}
	opts := c.options()
	for {
		nc, err := nats.Connect(url, opts...)
		if err == nil {
			return nc, nil
		}
		err = hideURL(err)
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return nil, fmt.Errorf("connect to nats: %w", err)
		}
		wait := time.NewTimer(jitter(reconnectWait))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, fmt.Errorf("connect to nats: %w (last try: %w)", context.Cause(ctx), err)
		}
	}
}

// InProcessConn opens one raw connection to the embedded server. With it a Server is a nats.InProcessConnProvider, so that
// a test can put something of its own between a client and the server.
func (s *Server) InProcessConn() (net.Conn, error) { return s.srv.InProcessConn() }

// Connect connects to the embedded server inside the process, without a socket.
func (s *Server) Connect(c Client) (*nats.Conn, error) {
	nc, err := nats.Connect("", append(c.options(), nats.InProcessServer(s.srv))...)
	if err != nil {
		return nil, fmt.Errorf("connect to embedded nats: %w", err)
	}
	return nc, nil
}

// Drain lets subscriptions finish what they hold, sends what is buffered, closes the connection and waits for that,
// at most until ctx ends; then it closes it the hard way. A closed connection is no error.
func Drain(ctx context.Context, nc *nats.Conn) error {
	if nc == nil || nc.IsClosed() {
		return nil
	}
	closed := nc.StatusChanged(nats.CLOSED)
	if err := nc.Drain(); err != nil {
		nc.Close()
		if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrConnectionReconnecting) {
			return nil
		}
		return fmt.Errorf("drain nats connection: %w", err)
	}
	if nc.IsClosed() { // before the status was watched
		return nil
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		nc.Close()
		return fmt.Errorf("drain nats connection: %w", context.Cause(ctx))
	}
}

func (c Client) options() []nats.Option {
	name := c.Name
	if name == "" {
		name = "pilot"
	}
	report := c.OnError
	if report == nil {
		report = func(error) {}
	}
	opts := []nats.Option{
		nats.Name(name),
		nats.Timeout(dialTimeout),
		nats.DrainTimeout(drainTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, 2*reconnectWait),
		nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.PermissionErrOnSubscribe(true),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if sub != nil {
				err = fmt.Errorf("nats subscription %s: %w", sub.Subject, err)
			}
			report(err)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				report(fmt.Errorf("nats connection lost: %w", err))
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			report(fmt.Errorf("reconnect to nats: %w", err))
		}),
	}
	return append(opts, c.Options...)
}

// hideURL drops the address from a parse error, which repeats it with its password.
func hideURL(err error) error {
	if parse, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("parse nats url: %w", parse.Err)
	}
	return err
}

// jitter spreads d over half of it and one and a half.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // it spreads retries and guards nothing
}
