package evolution

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

const (
	maxHeaderBytes = 64 << 10 // of an answer
	headerRoom     = 8 << 10  // for a request line and headers, beside the body, in the write buffer
)

// newTransport makes HTTP/1.1 connections on which each request is one write that a guard allows. It follows nothing, uses no proxy of the
// environment, and its write buffer holds the largest request whole.
func newTransport(c Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil,
		Protocols:              protocols,
		IdleConnTimeout:        c.IdleTimeout,
		MaxIdleConns:           c.MaxIdleConns,
		MaxIdleConnsPerHost:    c.MaxIdleConns,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		WriteBufferSize:        c.MaxRequestBytes + headerRoom,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, c.DialLimit)
			defer cancel()
			return dial(ctx, c, network, address)
		},
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, c.DialLimit)
			defer cancel()
			return dialTLS(ctx, c, network, address)
		},
	}
}

func dial(ctx context.Context, c Config, network, address string) (*guardedConn, error) {
	conn, err := c.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	raw := &countedConn{Conn: conn}
	return &guardedConn{Conn: raw, raw: raw}, nil
}

func dialTLS(ctx context.Context, c Config, network, address string) (*guardedConn, error) {
	conn, err := dial(ctx, c, network, address)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		config.ServerName = host
	}
	config.NextProtos = []string{"http/1.1"}
	secure := tls.Client(conn.raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.raw.Close() // the error of the handshake is the one that tells
		return nil, err
	}
	conn.Conn = secure
	return conn, nil
}
