package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/receipts"
)

// gateway is a simulated gateway behind a host of the network.
type gateway struct {
	sim    *evolutionsim.Server
	host   *host
	tap    *gatewayTap
	server *http.Server
	served chan struct{}
}

func (w *world) openGateway(ctx context.Context, name string, o evolutionsim.Options) (*gateway, error) {
	o.Address, o.DontListen, o.Webhooks.Dial = name, true, w.net.dial
	sim, err := evolutionsim.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	g := &gateway{sim: sim, host: w.net.listen(name), tap: &gatewayTap{w: w, n: len(w.gateways), next: sim, busy: map[string]int{}}}
	g.server, g.served = serve(g.host, g.tap)
	return g, nil
}

func (g *gateway) close() {
	g.host.set(linkRefused)
	_ = g.server.Close() // repeats the listener's error
	<-g.served
	g.sim.Close()
}

func serve(h *host, handler http.Handler) (*http.Server, chan struct{}) {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(h) // it ends by Close
	}()
	return s, served
}

// gatewayTap notes each send at the moment it reaches the gateway, with how far the log had come.
type gatewayTap struct {
	w    *world
	n    int // of the gateway
	next http.Handler

	mu   sync.Mutex
	busy map[string]int // sends under way, by text
}

func (g *gatewayTap) busyWith(text string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy[text] > 0
}

func (g *gatewayTap) count(text string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy[text] += n
}

// marked is what tells a message's text apart from all others.
var marked = regexp.MustCompile(`(sim|same)-\d+`)

func (g *gatewayTap) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/message/") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone: nothing reached the gateway
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c := call{Instance: r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], Text: marked.FindString(string(body)), At: time.Now(), By: r.RemoteAddr}
		p := events.PartitionOf(c.Instance, partitions)
		last, err := g.w.log.LastBySubject(context.Background(), events.EventsStream(p), events.DispatchFilter(p, c.Instance))
		c.Group, c.Unread = last.Position.Sequence, err != nil
		g.w.rec.note(func(rec *recording) { rec.Calls = append(rec.Calls, c) })
		g.count(c.Text, 1)
		defer g.count(c.Text, -1)
	} else if !looksUp(r.URL.Path) {
		g.w.rec.note(func(rec *recording) { rec.Asked[g.n][rec.minute(time.Now())]++ })
	}
	g.next.ServeHTTP(rw, r)
}

// looksUp reports that a request asks what became of a message: as many are made as messages are in doubt, whether the gateway is parked or
// not, each less and less often.
func looksUp(path string) bool {
	return strings.HasPrefix(path, "/chat/findMessages/") || strings.HasPrefix(path, "/chat/findStatusMessage/")
}

// ingestMode says what a gateway's webhook meets.
type ingestMode string

const (
	ingestUp   ingestMode = "up"
	ingestDown ingestMode = "down" // 503
	ingestLost ingestMode = "lost" // stored, and the answer is lost
	ingestSlow ingestMode = "slow" // answered after 20 s
)

// ingestTap notes which receipts were handed in, and breaks the way to the ingest.
type ingestTap struct {
	w    *world
	next *receipts.Ingest

	mu   sync.Mutex
	mode ingestMode
}

func (i *ingestTap) set(m ingestMode) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mode = m
}

func (i *ingestTap) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	i.mu.Lock()
	mode := i.mode
	i.mu.Unlock()
	switch mode {
	case ingestDown:
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	case ingestSlow:
		pass(20 * time.Second)
	default:
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := &answered{ResponseWriter: rw, lost: mode == ingestLost}
	i.next.ServeHTTP(answer, r)
	var e struct {
		Event, Instance string
		Data            struct {
			KeyID, Status string
			FromMe        bool
		}
	}
	if json.Unmarshal(body, &e) == nil && e.Event == receipts.EventMessagesUpdate {
		h := heard{Instance: e.Instance, KeyID: e.Data.KeyID, Status: e.Data.Status, FromMe: e.Data.FromMe, At: time.Now(), Answer: answer.status}
		i.w.rec.note(func(rec *recording) { rec.Heard = append(rec.Heard, h) })
	}
	if mode == ingestLost {
		panic(http.ErrAbortHandler)
	}
}

// answered remembers the status, and keeps it back when the answer is to be lost.
type answered struct {
	http.ResponseWriter
	status int
	lost   bool
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	if !a.lost {
		a.ResponseWriter.WriteHeader(status)
	}
}
