package evolutionsim

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBody is the gateway's own limit, in bytes.
const maxBody = 136 << 20

// exchange is one request to the gateway on its way.
type exchange struct {
	server   *Server
	w        http.ResponseWriter
	r        *http.Request
	call     string
	instance *instance
	in       fields
	started  time.Time
	misroute string // the jid that replaces every resolved one

	gone     func() bool // forgets the watch on the client, when there is one
	inFlight int64

	mu       sync.Mutex
	entry    *Entry    // when a message was taken
	finished time.Time // zero while the client waits
}

// fields is the body of a request, read leniently: each route checks what it needs.
type fields map[string]any

func (f fields) string(name string) string { s, _ := f[name].(string); return s }
func (f fields) number() string            { return f.string("number") }

func (f fields) text() string {
	if s, ok := f["text"].(string); ok {
		return s
	}
	return f.string("title")
}

// milliseconds reads a whole number; false when the field is absent or something else.
func (f fields) milliseconds(name string) (time.Duration, bool) {
	n, ok := f[name].(float64)
	if !ok || n != float64(int64(n)) {
		return 0, false
	}
	return time.Duration(n) * time.Millisecond, true
}

func readFields(r *http.Request) (fields, bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, false
	}
	in := fields{}
	if len(body) == 0 {
		return in, true
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, false
	}
	return in, true
}

func (x *exchange) isSend() bool { return x.call == "sendText" || x.call == "sendButtons" }

// begin counts a send as under way.
func (x *exchange) begin() {
	if x.isSend() {
		x.inFlight = x.instance.inFlight.Add(1)
		x.server.ledger.saw(x.instance.name, x.inFlight)
	}
}

// finish ends the call as its client sees it. It comes before the first byte of the answer, so that a client's next call never seems to
// overlap this one.
func (x *exchange) finish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.finished.IsZero() {
		return
	}
	x.finished = time.Now()
	if x.isSend() {
		x.instance.inFlight.Add(-1)
	}
	if x.entry != nil {
		x.server.ledger.finish(x.entry, x.finished)
	}
}

// accept puts the message into the ledger, as finished already when its client has gone.
func (x *exchange) accept(e *Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.FinishedAt = x.finished
	x.server.ledger.add(e)
	x.entry = e
}

// abort ends the connection without an answer.
func (x *exchange) abort() {
	x.finish()
	panic(http.ErrAbortHandler) // net/http's way; returning would make it answer 200
}

// end is the end of the handler.
func (x *exchange) end() {
	x.finish()
	if x.gone != nil {
		x.gone()
	}
}

// watch ends the call when its client goes, while the gateway works on.
func (x *exchange) watch() {
	if x.gone == nil {
		x.gone = context.AfterFunc(x.r.Context(), x.finish)
	}
}

// wait holds the request for d. It is false when the server closes.
func (x *exchange) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	x.watch()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.server.ctx.Done():
		return false
	}
}

// hang holds the request until its client gives up.
func (x *exchange) hang() bool {
	select {
	case <-x.r.Context().Done():
	case <-x.server.ctx.Done():
	}
	x.abort()
	return true
}

func (x *exchange) control() *http.ResponseController { return http.NewResponseController(x.w) }

// route is what the gateway does for one call of an instance.
type route func(*Server, *exchange) (reply, *taking)

func only(f func(*Server, *exchange) reply) route {
	return func(s *Server, x *exchange) (reply, *taking) { return f(s, x), nil }
}

var routes = map[string]route{
	"POST /message/sendText":        (*Server).sendText,
	"POST /message/sendButtons":     (*Server).sendButtons,
	"POST /chat/sendPresence":       only((*Server).sendPresence),
	"POST /chat/whatsappNumbers":    only((*Server).whatsappNumbers),
	"POST /chat/findMessages":       only((*Server).findMessages),
	"POST /chat/findStatusMessage":  only((*Server).findStatusMessage),
	"POST /webhook/set":             only((*Server).setWebhook),
	"GET /webhook/find":             only((*Server).findWebhook),
	"GET /instance/connectionState": only((*Server).connectionState),
	"GET /instance/connect":         only((*Server).connect),
	"POST /instance/restart":        only((*Server).restart),
	"DELETE /instance/logout":       only((*Server).logout),
	"DELETE /instance/delete":       only((*Server).deleteInstance),
}

// serveGateway keeps the gateway's order: the body is parsed, then the route, the instance and the key are looked at.
func (s *Server) serveGateway(w http.ResponseWriter, r *http.Request) {
	in, ok := readFields(r)
	if !ok {
		errorReply(http.StatusBadRequest, "Unexpected end of JSON input").relabel("Internal Server Error").write(w)
		return
	}
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/":
		s.root().write(w)
		return
	case r.Method == http.MethodPost && r.URL.Path == "/instance/create":
		s.create(r, in).write(w)
		return
	case r.Method == http.MethodGet && r.URL.Path == "/instance/fetchInstances":
		s.fetchInstances(r).write(w)
		return
	case len(segments) != 3:
		noRoute(r).write(w)
		return
	}
	do, ok := routes[r.Method+" /"+segments[0]+"/"+segments[1]]
	if !ok {
		noRoute(r).write(w)
		return
	}
	i := s.instance(segments[2])
	if i == nil {
		listError(http.StatusNotFound, `The "`+segments[2]+`" instance does not exist`).write(w)
		return
	}
	if k := r.Header.Get("apikey"); k != s.options.APIKey && k != i.token {
		unauthorized().write(w)
		return
	}
	// The gateway lets the query replace the instance after it has checked the key.
	if other := s.instance(r.URL.Query().Get("instanceName")); other != nil {
		i = other
	}
	s.perform(do, &exchange{server: s, w: w, r: r, call: segments[1], instance: i, in: in, started: time.Now()})
}

// perform runs one call through the faults that match it.
func (s *Server) perform(do route, x *exchange) {
	x.begin()
	defer x.end()
	kinds := s.faults.take(x)
	for _, k := range kinds {
		if k.before(x) {
			return
		}
	}
	answer, taken := do(s, x)
	if taken != nil {
		for _, k := range kinds {
			k.plan(taken)
		}
		answer = s.take(x, taken)
	}
	for _, k := range kinds {
		if k.after(x, &answer) {
			return
		}
	}
	if s.ctx.Err() != nil {
		x.abort() // no answer may be made up while closing
	}
	x.finish()
	answer.write(x.w)
}

func noRoute(r *http.Request) reply {
	return listError(http.StatusNotFound, "Cannot "+r.Method+" "+r.URL.Path)
}

func unauthorized() reply { return plainError(http.StatusUnauthorized, "Unauthorized") }
