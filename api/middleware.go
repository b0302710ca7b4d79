package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
)

type requestKey struct{}

// request is what belongs to one HTTP request, for problems and log lines.
type request struct {
	id         string
	log        *zerolog.Logger
	retryAfter time.Duration
	limits     *limits
}

func requestOf(ctx context.Context) request {
	r, _ := ctx.Value(requestKey{}).(request)
	return r
}

// identify gives the request its id: the caller's where it is sane, else a new one.
func identify(cfg *Config, newID func() uuid.UUID, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !saneRequestID(id) {
			u := newID()
			id = hex.EncodeToString(u[:])
		}
		w.Header().Set("X-Request-Id", id)
		ctx := context.WithValue(r.Context(), requestKey{}, request{id: id, log: &cfg.Log, retryAfter: cfg.RetryAfter, limits: &limits{}})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// saneRequestID keeps an id that can be logged: short, of harmless characters, and with a letter, so that no telephone
// number passes for one.
func saneRequestID(id string) bool {
	if len(id) < 8 || len(id) > 64 {
		return false
	}
	letter := false
	for i := range len(id) {
		switch c := id[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letter = true
		case c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return letter
}

// tracked remembers whether an answer was begun.
type tracked struct {
	http.ResponseWriter
	begun bool
}

func (t *tracked) WriteHeader(status int) {
	t.begun = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(b []byte) (int, error) {
	t.begun = true
	return t.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection's deadlines.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// recoverPanics answers a panic with a problem. The value of the panic is not logged: it may hold what was sent.
func recoverPanics(log zerolog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &tracked{ResponseWriter: w}
		defer func() {
			v := recover()
			err, _ := v.(error)
			switch {
			case v == nil:
				return
			case errors.Is(err, http.ErrAbortHandler):
				panic(v)
			case t.begun && r.Context().Err() != nil:
				return // huma panics when the caller went away while it wrote
			}
			log.Error().Str("request_id", requestOf(r.Context()).id).Str("panic", fmt.Sprintf("%T", v)).
				Bytes("stack", debug.Stack()).Msg("panic while serving a request")
			if !t.begun {
				writeProblem(t, r, events.Errorf(events.CodeInternal, "An internal error occurred."))
			}
		}()
		next.ServeHTTP(t, r)
	})
}

// secure sets headers that every answer has; a page sets its own policy over them.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

// normalize makes /api/v1/… the same as /v1/… and takes slashes too many away. It never redirects: customers' clients
// repeat a redirected POST in ways of their own.
func normalize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, raw := r.URL.Path, r.URL.RawPath
		switch clean := path.Clean("/" + p); {
		case strings.Contains(p+"/", "/../") || strings.Contains(p+"/", "/./"):
			p, raw = "/no/such/path", "" // it would be another path to a proxy in front of us
		case clean != p:
			p, raw = clean, ""
		}
		if strings.HasPrefix(p, "/api/v1/") {
			p, raw = strings.TrimPrefix(p, "/api"), strings.TrimPrefix(raw, "/api")
		}
		if p != r.URL.Path {
			r2 := new(http.Request)
			*r2 = *r
			u := *r.URL
			u.Path, u.RawPath = p, raw
			r2.URL = &u
			r = r2
		}
		next.ServeHTTP(w, r)
	})
}

// routed answers what the mux has no route for with a problem.
func routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		// The mux says in the answer itself whether the path or only the method is unknown.
		probe := &answer{header: http.Header{}}
		h.ServeHTTP(probe, r)
		status := http.StatusNotFound
		if probe.status == http.StatusMethodNotAllowed {
			status = probe.status
			w.Header().Set("Allow", probe.header.Get("Allow"))
		}
		writeProblem(w, r, translate(status, nil))
	})
}

// answer keeps status and header of an answer and drops its body.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }
