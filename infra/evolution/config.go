package evolution

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Limits bound one call, from its start to the last byte of its answer. A deadline of the caller's context that comes sooner wins.
type Limits struct {
	Send        time.Duration // sendText, sendButtons; 15 s
	Presence    time.Duration // 3 s
	NumberCheck time.Duration // 10 s
	Other       time.Duration // 10 s
}

// Config says how to reach one gateway. Only BaseURL and APIKey have no default.
type Config struct {
	BaseURL string // http or https, may have a path; no user, query or fragment
	APIKey  string // the gateway's global key, or one instance's token
	// Version is the gateway's version as last seen ("2.3.6"); Client.Version replaces it. Unknown when empty, which makes verdicts stricter.
	Version string

	Limits           Limits
	DialLimit        time.Duration // name, TCP and TLS together; 5 s
	IdleTimeout      time.Duration // must stay below the 5 s after which the gateway closes idle connections; 4 s
	MaxRequestBytes  int           // of a body; a longer one is refused here; 64 KiB
	MaxResponseBytes int64         // of a body; what is longer counts as incomplete; 1 MiB
	MaxIdleConns     int           // kept open for reuse; 64

	TLS *tls.Config // for https; nil means the system's roots
	// Dial replaces the dialer of TCP connections; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (c *Config) setDefaults() {
	setDefault(&c.Limits.Send, 15*time.Second)
	setDefault(&c.Limits.Presence, 3*time.Second)
	setDefault(&c.Limits.NumberCheck, 10*time.Second)
	setDefault(&c.Limits.Other, 10*time.Second)
	setDefault(&c.DialLimit, 5*time.Second)
	setDefault(&c.IdleTimeout, 4*time.Second)
	setDefault(&c.MaxRequestBytes, 64<<10)
	setDefault(&c.MaxResponseBytes, 1<<20)
	setDefault(&c.MaxIdleConns, 64)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

func (c *Config) baseURL() (string, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return "", errors.New("read gateway URL: not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("read gateway URL: the scheme must be http or https")
	case u.Host == "":
		return "", errors.New("read gateway URL: the host is missing")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("read gateway URL: user, query and fragment are not allowed")
	case strings.ContainsAny(c.APIKey, "\r\n\x00"):
		return "", fmt.Errorf("read gateway key: line breaks are not allowed")
	}
	return strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), nil
}
