package evolution

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/loopback"
)

// replaceable is a gateway whose version changes, and that answers every send that its number check found no connection.
type replaceable struct {
	*httptest.Server
	version atomic.Pointer[string] // nil: it does not tell
	asked   atomic.Int64
	slow    atomic.Pointer[chan struct{}] // the version is told when it is closed; nil: at once
}

func newReplaceable(t *testing.T, version string) *replaceable {
	t.Helper()
	r := &replaceable{}
	r.version.Store(&version)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if req.URL.Path != "/" {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"status":500,"error":"Internal Server Error","response":{"message":"Connection Closed"}}`)) // the client's error shows
			return
		}
		v, slow := r.version.Load(), r.slow.Load()
		if r.asked.Add(1); slow != nil {
			<-*slow
		}
		if v == nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(`{"status":200,"version":"` + *v + `"}`))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *replaceable) client(t *testing.T) *Client {
	t.Helper()
	c, err := New(Config{BaseURL: r.URL, APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (c *Client) toldAgo(age time.Duration) {
	c.told.mu.Lock()
	defer c.told.mu.Unlock()
	c.told.at = time.Now().Add(-age)
}

// An answer that means something in some versions only: it means that where the gateway runs one of them before the send and after the
// answer. Everything else is unknown, since another version may have sent.
func TestWhatDependsOnTheVersionIsAskedAfterTheAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string // after "": it does not tell any more
		age           time.Duration
		doubted       bool
		want          Outcome
		asked         int64
	}{
		"the same":                  {"2.3.6", "2.3.6", time.Hour, false, Deferred, 1},
		"the same, doubted":         {"2.3.6", "2.3.6", 0, true, Deferred, 1},
		"another that means it too": {"2.3.6", "2.4.0", time.Minute, false, Deferred, 1},
		"an older one":              {"2.3.6", "2.2.3", time.Minute, false, Unknown, 1},
		"a newer one":               {"2.4.0", "2.5.0", time.Minute, true, Unknown, 1},
		"told just now":             {"2.3.6", "2.3.6", -time.Minute, false, Deferred, 0}, // however long the machine stands still
		"it was another":            {"2.2.3", "2.3.6", time.Minute, false, Unknown, 0},
		"not told, fresh":           {"2.3.6", "", 10 * time.Minute, false, Deferred, 1},
		"not told, doubted":         {"2.3.6", "", time.Minute, true, Unknown, 1},
		"not told, old":             {"2.3.6", "", 20 * time.Minute, false, Unknown, 1},
		"never told":                {"", "2.3.6", time.Minute, false, Unknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newReplaceable(t, c.before)
			client := g.client(t)
			if c.before != "" {
				if _, err := client.Version(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			client.toldAgo(c.age)
			if c.doubted {
				client.DoubtVersion()
			}
			g.asked.Store(0)
			g.version.Store(&c.after)
			if c.after == "" {
				g.version.Store(nil)
			}
			r := client.SendText(t.Context(), Text{Instance: "a", Number: "5511988887777", Text: "x", Check: func() error { return nil }})
			if r.Outcome != c.want || g.asked.Load() != c.asked {
				t.Errorf("%s, asked %d times", r.Outcome, g.asked.Load())
			}
		})
	}
}

// What the clients of a gateway learn of its version is one; a doubt that comes while it is asked is not settled by that answer.
func TestClientsOfAGatewayShareItsVersion(t *testing.T) {
	t.Parallel()
	g := newReplaceable(t, "2.3.6")
	one, two := g.client(t), g.client(t)
	two.ShareVersion(one)
	if _, err := one.Version(t.Context()); err != nil || two.KnownVersion() != "2.3.6" {
		t.Fatalf("%q, %v", two.KnownVersion(), err)
	}
	q, mine := one.told.begin()
	if _, again := two.told.begin(); !mine || again {
		t.Fatal("two ask at once")
	}
	two.DoubtVersion()
	q.version = "2.4.0"
	one.told.end(q)
	if _, doubted := one.VersionAge(); !doubted || one.KnownVersion() != "2.4.0" {
		t.Errorf("%q, doubted %v", one.KnownVersion(), doubted)
	}
	if _, err := two.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, doubted := one.VersionAge(); doubted {
		t.Error("doubted after an answer")
	}
}

// A gateway that is gone, or replaced behind a proxy, may come back as another version; one that is only slow is the same.
func TestWhatMakesAVersionDoubtful(t *testing.T) {
	t.Parallel()
	const slow = "hangs"
	for name, c := range map[string]struct {
		do   http.HandlerFunc
		want bool
	}{
		"answers":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, false},
		"breaks":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"proxy 502": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, true},
		"proxy 504": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) }, true},
		slow:        {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.do)
			defer server.Close()
			limits := Limits{}
			if name == slow { // time enough to write it, also for a machine that stands still
				limits.Other = 3 * time.Second
			}
			client, err := New(Config{BaseURL: server.URL, APIKey: "k", Version: "2.3.6", Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if _, err := client.ConnectionState(t.Context(), "a"); err == nil {
				t.Fatal("no error")
			}
			if _, doubted := client.VersionAge(); doubted != c.want {
				t.Errorf("doubted %v", doubted)
			}
		})
	}
	client, err := New(Config{BaseURL: "http://" + nobody(t), APIKey: "k", Version: "2.3.6"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.ConnectionState(t.Context(), "a"); err == nil {
		t.Fatal("no error")
	}
	if _, doubted := client.VersionAge(); !doubted {
		t.Error("not doubted")
	}
}

// nobody is an address where nobody listens, nor will while a test lasts.
func nobody(t *testing.T) string {
	t.Helper()
	addresses, err := loopback.Addresses(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0].String()
}

// A question that was put before an answer says nothing of who gave it: the gateway may have been replaced, and tell of itself before.
func TestAQuestionFromBeforeTheAnswerDoesNotCount(t *testing.T) {
	t.Parallel()
	g := newReplaceable(t, "2.3.6")
	client := g.client(t)
	if _, err := client.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.toldAgo(time.Minute)
	answer := make(chan struct{})
	g.slow.Store(&answer)
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		if v, err := client.Version(t.Context()); v != "2.3.6" || err != nil {
			t.Errorf("told %q, %v", v, err)
		}
	})
	awaittest.Eventually(t, 20*time.Second, time.Millisecond, "the question is put", func() bool { return g.asked.Load() == 2 }, nil)
	time.AfterFunc(versionNow+200*time.Millisecond, func() { close(answer) })
	next := "2.2.3"
	g.version.Store(&next)
	g.slow.Store(nil)
	if r := client.SendText(t.Context(), Text{Instance: "a", Number: "5511988887777", Text: "x", Check: func() error { return nil }}); r.Outcome != Unknown {
		t.Errorf("%s %s: 2.2 may have sent it", r.Outcome, r.Code)
	}
}
