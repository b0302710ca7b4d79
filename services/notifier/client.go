package notifier

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// ClientSettings tune how endpoints are called. Zero values take the defaults.
type ClientSettings struct {
	Limit       time.Duration // for one try, from name look-up to the last byte; 15 s
	MaxResponse int64         // bytes of an answer that are read; 64 KiB
	Keep        int           // first bytes of an answer that are kept, sealed; 1 KiB, below 0 for none
	// AllowLoopback lets endpoints be on this machine, on any port: for demos and tests only.
	AllowLoopback bool
	TLS           *tls.Config // nil means the system's roots
	// Dial replaces the dialer, and with it the check of addresses: for simulations, whose network is inside the process. No
	// setting of the program leads here. nil means the guarded dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// client calls endpoints of customers: strangers' URLs.
type client struct {
	settings  ClientSettings
	transport *http.Transport
}

func newClient(s ClientSettings) *client {
	if s.Limit <= 0 {
		s.Limit = 15 * time.Second
	}
	if s.MaxResponse <= 0 {
		s.MaxResponse = 64 << 10
	}
	if s.Keep == 0 {
		s.Keep = 1 << 10
	}
	dial := s.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: s.Limit, Control: guard(s.AllowLoopback)}).DialContext
	}
	return &client{settings: s, transport: &http.Transport{
		Proxy:       nil, // a proxy would make the address check look at the proxy
		DialContext: dial, TLSClientConfig: s.TLS, TLSHandshakeTimeout: s.Limit,
		DisableCompression: true, MaxResponseHeaderBytes: 16 << 10, MaxIdleConns: 256, MaxIdleConnsPerHost: 4,
		IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: s.Limit,
	}}
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// guard refuses addresses that are not on the public internet, at the moment of the connection: whatever a name resolves to, and
// however a literal is written (docs/reference/webhooks.md).
func guard(allowLoopback bool) func(network, address string, c syscall.RawConn) error {
	public := ssrf.New()
	return func(network, address string, c syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(address); allowLoopback && err == nil && at.Addr().Unmap().IsLoopback() {
			return nil
		}
		if err := public.Safe(network, address, c); err != nil {
			return &refusedAddress{err}
		}
		return nil
	}
}

// refusedAddress says that an endpoint is where none may be.
type refusedAddress struct{ err error }

func (r *refusedAddress) Error() string { return "address is not allowed" }
func (r *refusedAddress) Unwrap() error { return r.err }

// answer is what came of one try.
type answer struct {
	status     int    // 0 when none came
	reason     string // why it is no success; "" for a success
	retryAfter time.Duration
	elapsed    time.Duration
	said       []byte // the first bytes of the endpoint's answer, as they came
}

// post makes one signed try. It does not follow redirects.
func (c *client) post(ctx context.Context, target, id string, secrets []string, body []byte) answer {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.settings.Limit)
	defer cancel()
	a := c.exchange(ctx, target, id, secrets, body, begun)
	a.elapsed = time.Since(begun)
	return a
}

func (c *client) exchange(ctx context.Context, target, id string, secrets []string, body []byte, now time.Time) answer {
	u, err := url.Parse(target)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		return answer{reason: "url_not_allowed"}
	}
	signature, err := sign(secrets, id, now, body)
	if err != nil {
		return answer{reason: reasonSecret}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return answer{reason: "url_not_allowed"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Pilot-Webhooks/1")
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	res, err := c.transport.RoundTrip(req) // below http.Client, which would follow redirects
	if err != nil {
		return answer{reason: reasonOf(ctx, err)}
	}
	defer func() { _ = res.Body.Close() }()
	a := answer{status: res.StatusCode, retryAfter: retryAfter(res.Header.Get("Retry-After"), now)}
	// Read what is short, so that the connection can serve the next try; no more than its begin is kept.
	rest := io.LimitReader(res.Body, c.settings.MaxResponse)
	a.said, err = io.ReadAll(io.LimitReader(rest, int64(max(c.settings.Keep, 0))))
	if err == nil {
		_, err = io.Copy(io.Discard, rest)
	}
	if err != nil && ctx.Err() != nil {
		a.reason = "timeout"
		return a
	}
	switch {
	case a.status >= 200 && a.status < 300:
	case a.status >= 300 && a.status < 400:
		a.reason = "redirect"
	default:
		a.reason = "status_" + strconv.Itoa(a.status)
	}
	return a
}

// sign makes the signature header: one signature for each active secret, newest first.
func sign(secrets []string, id string, at time.Time, body []byte) (string, error) {
	if len(secrets) == 0 {
		return "", errors.New("sign: the endpoint has no secret")
	}
	var header string
	for _, s := range secrets {
		hook, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			return "", errors.New("sign: the secret is not readable") // the cause could quote it
		}
		signature, err := hook.Sign(id, at, body)
		if err != nil {
			return "", fmt.Errorf("sign: %w", err)
		}
		if header != "" {
			header += " "
		}
		header += signature
	}
	return header, nil
}

// reasonOf words a failed try without the URL, which may hold a token of the customer.
func reasonOf(ctx context.Context, err error) string {
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case errorIs[*refusedAddress](err):
		return "address_not_allowed"
	case ctx.Err() != nil, timeout != nil && timeout.Timeout():
		return "timeout"
	case errorIs[*net.DNSError](err):
		return "name_not_found"
	case errorIs[*tls.CertificateVerificationError](err), errorIs[tls.RecordHeaderError](err):
		return "tls"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection_refused"
	default:
		return "connection_broken"
	}
}

func errorIs[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// retryAfter reads both forms of Retry-After (RFC 9110 §10.2.3); 0 when there is none.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(min(max(seconds, 0), 1<<20)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
