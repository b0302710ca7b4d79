package api

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
)

// CodeRateLimited says that a key asks more often than it may.
const CodeRateLimited events.Code = "RATE_LIMITED"

// Limit is one policy that a caller is held to and what is left of it: an item of the headers RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers).
type Limit struct {
	Name   string        // a word: burst, day, month
	Quota  int64         // what the policy grants in a window
	Window time.Duration // told in whole seconds; 0 is not told
	Left   int64         // never below 0
	Reset  time.Duration // until the quota is whole again; told in whole seconds, rounded up
}

// limits collects what one answer says of limits: whoever judges by one notes it, and both headers are written with the answer.
type limits struct {
	mu   sync.Mutex
	list []Limit
}

// note adds a limit; one of the same name is replaced.
func (l *limits) note(item Limit) {
	if l == nil {
		return
	}
	item.Left = max(item.Left, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.list {
		if l.list[i].Name == item.Name {
			l.list[i] = item
			return
		}
	}
	l.list = append(l.list, item)
}

// noteLimit tells the caller of a request about a limit.
func noteLimit(ctx context.Context, item Limit) { requestOf(ctx).limits.note(item) }

// header writes what was noted.
func (l *limits) header(h http.Header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var policies, left []string
	for _, i := range l.list {
		policy := fmt.Sprintf("%q;q=%d", i.Name, i.Quota)
		if i.Window > 0 {
			policy += fmt.Sprintf(";w=%d", seconds(i.Window))
		}
		policies = append(policies, policy)
		left = append(left, fmt.Sprintf("%q;r=%d;t=%d", i.Name, i.Left, seconds(i.Reset)))
	}
	if len(policies) > 0 {
		h.Set("RateLimit-Policy", strings.Join(policies, ", "))
		h.Set("RateLimit", strings.Join(left, ", "))
	}
}

// wait is how long until the last of what is used up is whole again, at least a second: Retry-After of a 429.
func (l *limits) wait() time.Duration {
	longest := time.Second
	if l == nil {
		return longest
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range l.list {
		if i.Left == 0 {
			longest = max(longest, i.Reset)
		}
	}
	return longest
}

// seconds rounds up: who waits as long as he is told has waited long enough.
func seconds(d time.Duration) int { return int(math.Ceil(max(d, 0).Seconds())) }

// limited writes the headers of limits at the moment at which the answer begins, whoever gives it.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&limitWriter{ResponseWriter: w, limits: requestOf(r.Context()).limits}, r)
	})
}

type limitWriter struct {
	http.ResponseWriter
	limits *limits
	begun  bool
}

func (w *limitWriter) WriteHeader(status int) {
	if !w.begun && status >= http.StatusOK {
		w.begun = true
		w.limits.header(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *limitWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection's deadlines.
func (w *limitWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// documentLimits adds to every operation with a customer's key that it may be answered 429, and the headers of limits.
func documentLimits(doc *huma.OpenAPI) {
	text := &huma.Schema{Type: huma.TypeString}
	headers := map[string]*huma.Header{
		"RateLimit":        {Schema: text, Description: `What is left of each limit: "name";r=left;t=seconds until it is whole again.`},
		"RateLimit-Policy": {Schema: text, Description: `The limits that were judged: "name";q=quota;w=seconds.`},
	}
	doc.Components.Headers = headers
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil || !ofCustomers(op) {
				continue
			}
			addRateLimited(doc, op)
			for _, r := range op.Responses {
				if r.Headers == nil {
					r.Headers = map[string]*huma.Param{}
				}
				for name := range headers {
					r.Headers[name] = &huma.Param{Ref: "#/components/headers/" + name}
				}
			}
		}
	}
}

func ofCustomers(op *huma.Operation) bool {
	for _, s := range op.Security {
		if _, ok := s[schemeName]; ok {
			return true
		}
	}
	return false
}

func addRateLimited(doc *huma.OpenAPI, op *huma.Operation) {
	if r := op.Responses["429"]; r != nil {
		r.Description += ", " + string(CodeRateLimited)
		return
	}
	op.Responses["429"] = &huma.Response{
		Description: http.StatusText(http.StatusTooManyRequests) + ": " + string(CodeRateLimited),
		Content:     map[string]*huma.MediaType{problemType: {Schema: schemaOf[Problem](doc.Components.Schemas)}},
		Headers:     map[string]*huma.Param{"Retry-After": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "Whole seconds."}},
	}
}
