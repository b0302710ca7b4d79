package evolution

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/infra/await"
)

const okBody = `{"key":{"remoteJid":"5511999990000@s.whatsapp.net","fromMe":true,"id":"3EB0C1BD045B881CD1266D"},"messageTimestamp":1795957114}`

func allow() error { return nil }

// writes counts the writes that reach the network, below everything of ours.
type writes struct{ n, bytes atomic.Int64 }

func (w *writes) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &writesConn{conn, w}, nil
}

type writesConn struct {
	net.Conn
	w *writes
}

func (c *writesConn) Write(p []byte) (int, error) {
	c.w.n.Add(1)
	n, err := c.Conn.Write(p)
	c.w.bytes.Add(int64(n))
	return n, err
}

func newClient(t *testing.T, config Config) *Client {
	t.Helper()
	config.APIKey = "KEY"
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func gateway(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestSendIsOneWriteForALongText(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	s := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen.Add(int64(len(body)))
		if r.Header.Get("Idempotency-Key") != "" || r.Header.Get("apikey") != "KEY" {
			t.Errorf("headers %v", r.Header)
		}
		answer(201, okBody)(w, r)
	})
	var w writes
	c := newClient(t, Config{BaseURL: s.URL, Dial: w.dial})
	for _, size := range []int{10, 4000, 5000, 60000} {
		before := w.n.Load()
		checks := 0
		r := c.SendText(t.Context(), Text{Instance: "acme", Number: "5511999990000", Text: strings.Repeat("x", size), Check: func() error { checks++; return nil }})
		if r.Outcome != Accepted || r.GatewayID != "3EB0C1BD045B881CD1266D" || !r.Wrote || r.ForeignJID {
			t.Fatalf("size %d: %+v", size, r)
		}
		if got := w.n.Load() - before; got != 1 || checks != 1 {
			t.Errorf("size %d: %d writes, %d checks, want 1 and 1", size, got, checks)
		}
	}
}

func TestSendOverTLSIsOneCheckedWrite(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(answer(201, okBody))
	t.Cleanup(s.Close)
	c := newClient(t, Config{BaseURL: s.URL, TLS: s.Client().Transport.(*http.Transport).TLSClientConfig})
	for _, size := range []int{10, 50000} {
		checks := 0
		r := c.SendText(t.Context(), Text{Instance: "acme", Number: "5511999990000", Text: strings.Repeat("x", size), Check: func() error { checks++; return nil }})
		if r.Outcome != Accepted || checks != 1 {
			t.Errorf("size %d: %+v after %d checks", size, r, checks)
		}
	}
	stop := errors.New("stop")
	if r := c.SendText(t.Context(), Text{Instance: "acme", Number: "5511999990000", Text: "x", Check: func() error { return stop }}); r.Wrote || !errors.Is(r.Stopped, stop) || r.Code != CauseStopped {
		t.Errorf("stopped send: %+v", r)
	}
}

func TestARefusedCheckWritesNothing(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := gateway(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); answer(201, okBody)(w, r) })
	var w writes
	c := newClient(t, Config{BaseURL: s.URL, Dial: w.dial})
	stop := errors.New("paused")
	for _, warm := range []bool{false, true} {
		if warm { // the second round finds a connection that was used before
			if r := c.SendText(t.Context(), Text{Instance: "a", Number: "1", Text: "x", Check: allow}); r.Outcome != Accepted {
				t.Fatalf("%+v", r)
			}
		}
		calls.Store(0)
		w.n.Store(0)
		checks := 0
		r := c.SendButtons(t.Context(), Buttons{Instance: "a", Number: "1", Title: "t", Buttons: []Button{{Type: "reply"}}, Check: func() error { checks++; return stop }})
		if checks != 1 { // the transport tries a request again of which nothing was written, if it can get the body again
			t.Errorf("warm %v: asked %d times", warm, checks)
		}
		if r.Outcome != Deferred || r.Code != CauseStopped || r.Wrote || !errors.Is(r.Stopped, stop) {
			t.Errorf("warm %v: %+v", warm, r)
		}
		if w.n.Load() != 0 || calls.Load() != 0 {
			t.Errorf("warm %v: %d writes, %d calls, want none", warm, w.n.Load(), calls.Load())
		}
	}
}

func TestASendWithoutACheckIsRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{BaseURL: "http://127.0.0.1:1"})
	if r := c.SendText(t.Context(), Text{Instance: "a", Number: "1", Text: "x"}); !errors.Is(r.Err, ErrNoCheck) || r.Outcome != Refused {
		t.Errorf("%+v", r)
	}
}

// TestTheTransportNeverSendsTwice closes a kept connection after it took the second request: net/http would repeat a request it may repeat.
func TestTheTransportNeverSendsTwice(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(conn)
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					break
				}
				_, _ = io.Copy(io.Discard, req.Body)
				if requests.Add(1) > 1 {
					break
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	c := newClient(t, Config{BaseURL: "http://" + listener.Addr().String()})
	m := Text{Instance: "a", Number: "1", Text: "x", Check: allow}
	if r := c.SendText(t.Context(), m); r.Outcome != Accepted || r.Code != CauseNoGatewayID {
		t.Fatalf("%+v", r)
	}
	r := c.SendText(t.Context(), m)
	if r.Outcome != Unknown || r.Code != CauseBroken || !r.Wrote {
		t.Errorf("%+v", r)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("the gateway saw %d requests, want 2", n)
	}
}

func TestAHangingSendIsUnknownAfterTheLimit(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := gateway(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	})
	t.Cleanup(func() { close(release) })
	c := newClient(t, Config{BaseURL: s.URL, Limits: Limits{Send: 3 * time.Second}}) // it is written by then, also where the machine stands still
	r := c.SendText(t.Context(), Text{Instance: "a", Number: "1", Text: "x", Check: allow})
	if r.Outcome != Unknown || r.Code != CauseNoAnswer || !r.Wrote || r.Scope != ScopeInstance {
		t.Errorf("%+v", r)
	}
}

func TestNothingIsWrittenWithoutAConnection(t *testing.T) {
	t.Parallel()
	address := nobody(t)
	blocked := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	plain := gateway(t, answer(200, ""))
	for name, config := range map[string]Config{
		"refused":      {BaseURL: "http://" + address},
		"dial timeout": {BaseURL: "http://" + address, Dial: blocked, DialLimit: 20 * time.Millisecond},
		"TLS":          {BaseURL: strings.Replace(plain.URL, "http:", "https:", 1), TLS: &tls.Config{MinVersion: tls.VersionTLS13}},
		"time is over": {BaseURL: plain.URL, Limits: Limits{Send: time.Nanosecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, config)
			r := c.SendText(t.Context(), Text{Instance: "a", Number: "1", Text: "secret words", Check: allow})
			if r.Outcome != Deferred || r.Code != CauseNotConnected || r.Wrote || r.Scope != ScopeGateway {
				t.Errorf("%+v", r)
			}
			if r.Err == nil || strings.Contains(r.Err.Error(), "sendText") || strings.Contains(r.Err.Error(), "secret") {
				t.Errorf("error %v", r.Err)
			}
		})
	}
}

// A send waits for its connection as long as it may and no longer, and nothing is written then. The
// connection goes on being made, and the next send has it.
func TestASendWaitsForAConnectionAsLongAsItMay(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := gateway(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); answer(201, okBody)(w, r) })
	far := make(chan struct{})
	var w writes
	var dials atomic.Int64
	c := newClient(t, Config{BaseURL: s.URL, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			return nil, errors.New("connection refused")
		}
		<-far
		return w.dial(ctx, network, address)
	}})
	send := func(connect time.Duration) Result {
		return c.SendText(t.Context(), Text{Instance: "a", Number: "5511988887777", Text: "x", Connect: connect, Check: allow})
	}
	began := time.Now()
	r := send(20 * time.Millisecond)
	if _, doubted := c.VersionAge(); !doubted || r.Outcome != Deferred || r.Code != CauseNotConnected || r.Scope != ScopeGateway || r.Wrote || r.Stopped != nil || !errors.Is(r.Err, errNoConnection) {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("waited %s", took)
	}
	close(far)
	await.Until(t.Context(), 30*time.Second, time.Millisecond, func() bool { // the second dial may lose against the first one's end
		r = send(time.Second)
		return r.Outcome == Accepted
	})
	if r.Outcome != Accepted || calls.Load() != 1 || w.n.Load() != 1 {
		t.Errorf("%+v after %d calls", r, calls.Load())
	}
}

// The bound is of the wait for the connection, not of the answer.
func TestABoundedConnectionDoesNotBoundTheAnswer(t *testing.T) {
	t.Parallel()
	const connect = 2 * time.Second // a machine may stand still while it looks for the connection that there is
	s := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, string(CallSendText)) {
			<-time.After(connect + 500*time.Millisecond)
		}
		answer(201, okBody)(w, r)
	})
	c := newClient(t, Config{BaseURL: s.URL})
	if _, err := c.ConnectionState(t.Context(), "a"); err == nil { // makes the connection; the answer is another call's
		t.Fatal("answered")
	}
	r := c.SendText(t.Context(), Text{Instance: "a", Number: "5511988887777", Text: "x", Connect: connect, Check: allow})
	if r.Outcome != Accepted {
		t.Errorf("%+v", r)
	}
}

// A connection that comes when its request was given up gets nothing written, and a request that has one is not given up.
func TestOfAConnectionAndTheEndOfItsTimeOneWins(t *testing.T) {
	t.Parallel()
	late := &guard{}
	if !late.abandon() {
		t.Error("a request without a connection is not given up")
	}
	late.arrived()
	if err := late.begin(); !errors.Is(err, errFinished) {
		t.Errorf("written after it was given up: %v", err)
	}
	if wrote, _, _ := late.finish(); wrote {
		t.Error("it counts as written")
	}
	timely := &guard{}
	timely.arrived()
	if timely.abandon() || timely.begin() != nil {
		t.Error("a request with a connection is given up")
	}
}

// TestNothingIsWrittenAfterTheEnd lets the context end inside the last check: no byte may leave when the result says that none did.
func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := gateway(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); answer(201, okBody)(w, r) })
	var w writes
	c := newClient(t, Config{BaseURL: s.URL, Dial: w.dial})
	ctx, cancel := context.WithCancel(t.Context())
	returned, checked := make(chan struct{}), make(chan struct{})
	r := c.SendText(ctx, Text{Instance: "a", Number: "1", Text: "x", Check: func() error {
		defer close(checked)
		cancel()
		select { // until the send is over, if the transport does not wait for this check
		case <-returned:
		case <-time.After(200 * time.Millisecond):
		}
		return nil
	}})
	close(returned)
	<-checked
	c.Close()
	if r.Outcome != Deferred || r.Wrote {
		t.Fatalf("%+v", r)
	}
	if w.bytes.Load() != 0 || calls.Load() != 0 {
		t.Errorf("%d bytes and %d calls after the result said none", w.bytes.Load(), calls.Load())
	}
}

func TestAGuardAllowsNoWriteAfterTheRequest(t *testing.T) {
	t.Parallel()
	g := &guard{}
	if err := g.begin(); err != nil {
		t.Fatal(err)
	}
	if wrote, _, _ := g.finish(); !wrote {
		t.Error("a write under way must count as written")
	}
	if err := g.begin(); !errors.Is(err, errFinished) {
		t.Errorf("write after the end: %v", err)
	}
	if _, err := (&guardedConn{}).Write(nil); !errors.Is(err, errNoRequest) {
		t.Errorf("write outside a request: %v", err)
	}
}

func TestRedirectsAndOversizeAnswersAreNotFollowed(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if strings.Contains(r.URL.Path, "/big") {
			answer(400, wrapped(400, `[["`+strings.Repeat("x", 2000)+`"]]`))(w, r)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	c := newClient(t, Config{BaseURL: s.URL, MaxResponseBytes: 1000})
	if r := c.SendText(t.Context(), Text{Instance: "a", Number: "1", Text: "x", Check: allow}); r.Code != CauseRedirected || r.Outcome != Unknown || calls.Load() != 1 {
		t.Errorf("%+v after %d calls", r, calls.Load())
	}
	if r := c.SendText(t.Context(), Text{Instance: "big", Number: "1", Text: "x", Check: allow}); r.Outcome != Unknown {
		t.Errorf("an answer cut off must not be read: %+v", r)
	}
}

func TestAnAnswerFromAnotherAddressIsMarked(t *testing.T) {
	t.Parallel()
	s := gateway(t, answer(201, okBody))
	c := newClient(t, Config{BaseURL: s.URL})
	if r := c.SendText(t.Context(), Text{Instance: "a", Number: "5519988887777", Text: "x", Check: allow}); !r.ForeignJID || r.Outcome != Accepted {
		t.Errorf("%+v", r)
	}
}

func TestATextThatDoesNotFitIntoOneWriteIsRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{BaseURL: "http://127.0.0.1:1", MaxRequestBytes: 100})
	if r := c.SendText(t.Context(), Text{Instance: "a", Number: "1", Text: strings.Repeat("x", 101), Check: allow}); r.Outcome != Refused || r.Wrote {
		t.Errorf("%+v", r)
	}
}
