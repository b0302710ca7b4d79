package evolution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// Client calls one gateway. It is safe for concurrent use.
type Client struct {
	config    Config
	base      string
	transport *http.Transport
	told      *told
}

// New makes a client. It connects to nothing.
func New(config Config) (*Client, error) {
	base, err := config.baseURL()
	if err != nil {
		return nil, err
	}
	config.setDefaults()
	return &Client{config: config, base: base, transport: newTransport(config), told: &told{version: config.Version, at: time.Now()}}, nil
}

// Close drops the idle connections. Calls under way end by their own limits.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// request is one HTTP request to make.
type request struct {
	call   Call
	method string
	path   string // escaped, begins with a slash
	body   []byte // nil for none
	limit  time.Duration
	// connect bounds the wait for a connection; 0 for none but limit. The connection goes on being made, for a later request.
	connect time.Duration
	check   func() error
	trace   string // traceparent; empty for none
}

// response is what came of a request.
type response struct {
	answer   Answer
	answered bool // a status came; answer.Incomplete tells whether its body did
	wrote    bool
	pause    time.Duration // Result.Pause
	stopped  error
	err      error
}

// path is the route of a call for one instance. The instance's name is one segment, whatever it holds.
func path(prefix, instance string) string { return prefix + "/" + url.PathEscape(instance) }

// do makes one request, once.
func (c *Client) do(ctx context.Context, r request) response {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	g := &guard{check: r.check}
	if r.connect > 0 {
		late := time.AfterFunc(r.connect, func() {
			if g.abandon() {
				giveUp(errNoConnection)
			}
		})
		defer late.Stop()
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if conn, ok := info.Conn.(*guardedConn); ok {
			g.arrived()
			conn.arm(g)
		}
	}})
	req, err := c.build(ctx, r)
	if err != nil {
		return response{err: err}
	}
	var out response
	out.answer, out.answered, out.err = c.exchange(req)
	out.wrote, out.pause, out.stopped = g.finish()
	if ctx.Err() != nil && out.err != nil && !isTimeout(out.err) {
		out.err = errors.Join(ctx.Err(), out.err)
	}
	c.noticed(out)
	return out
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return nil, fmt.Errorf("build %s request: the path is not valid", r.call)
	}
	req.GetBody = nil // with it the transport could send the body again on its own
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "pilot")
	req.Header.Set("apikey", c.config.APIKey)
	if r.trace != "" {
		req.Header.Set("traceparent", r.trace)
	}
	return req, nil
}

// exchange makes the round trip below http.Client, which would follow redirects and put the URL into errors.
func (c *Client) exchange(req *http.Request) (Answer, bool, error) {
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return Answer{}, false, fmt.Errorf("call gateway: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	answer := Answer{
		Status:      res.StatusCode,
		ContentType: res.Header.Get("Content-Type"),
		RetryAfter:  res.Header.Get("Retry-After"),
		At:          time.Now(),
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, c.config.MaxResponseBytes+1))
	answer.Body = body
	if err != nil {
		answer.Incomplete = true
		return answer, true, fmt.Errorf("read gateway answer: %w", err)
	}
	answer.Incomplete = int64(len(body)) > c.config.MaxResponseBytes
	return answer, true, nil
}

// verdict judges what came of a request, before which the gateway was known to be of a version. An answer to a request of which no byte
// left is not an answer to it.
func (c *Client) verdict(ctx context.Context, call Call, version string, r response) Verdict {
	if !r.answered || !r.wrote {
		return JudgeFailure(call, r.wrote, r.stopped != nil, r.err)
	}
	if !call.IsSend() {
		return Judge(call, version, r.answer)
	}
	return c.versioned(ctx, call, version, r.answer)
}
