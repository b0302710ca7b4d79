package evolution

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	versionLimit = 3 * time.Second // of the question after an answer that means something in some versions only
	versionFresh = 15 * time.Minute
	versionNow   = time.Second // no gateway is replaced by another, and asked, in less
)

// told is what one gateway told of its version: its clients share it.
type told struct {
	mu      sync.Mutex
	version string    // "" while it has not told
	at      time.Time // when the question was put: a gateway can be replaced while it answers
	doubts  int       // what happened, after which another version may run
	settled int       // of those, how many a later answer has settled
	asking  *question // under way; nil when none is
}

type question struct {
	done    chan struct{} // closed when it has ended
	at      time.Time     // when it was put
	doubts  int           // when it was put: later ones it does not settle
	version string
	err     error
}

// begin gives the question that is under way, or a new one that is the caller's to put.
func (t *told) begin() (q *question, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asking == nil {
		t.asking, mine = &question{done: make(chan struct{}), at: time.Now(), doubts: t.doubts}, true
	}
	return t.asking, mine
}

func (t *told) end(q *question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.err == nil {
		t.version, t.at, t.settled = q.version, q.at, q.doubts
	}
	t.asking = nil
	close(q.done)
}

func (t *told) read() (version string, age time.Duration, doubted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version, time.Since(t.at), t.doubts > t.settled
}

func (t *told) doubt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubts++
}

// ShareVersion makes what c and other, clients of one gateway, know of its version one. For a c that is not used yet.
func (c *Client) ShareVersion(other *Client) { c.told = other.told }

// KnownVersion is the gateway's version as configured or told last, however long ago; "" when neither happened.
func (c *Client) KnownVersion() string {
	version, _, _ := c.told.read()
	return version
}

// VersionAge is how long ago the version was told (or configured), and whether something happened since after which another one may run:
// no connection came about, one broke, a proxy found no gateway behind it, or DoubtVersion.
func (c *Client) VersionAge() (age time.Duration, doubted bool) {
	_, age, doubted = c.told.read()
	return age, doubted
}

// DoubtVersion says that another version may run from now on, as its user knows.
func (c *Client) DoubtVersion() { c.told.doubt() }

// Version asks the gateway for its version, like "2.3.6", and keeps it for the verdicts that depend on it. Who asks while others do gets
// their answer.
func (c *Client) Version(ctx context.Context) (string, error) {
	return c.versionSince(ctx, time.Time{})
}

// versionSince is Version by a question that was put at a time or later.
func (c *Client) versionSince(ctx context.Context, since time.Time) (string, error) {
	q, mine := c.told.begin()
	for !mine {
		select {
		case <-q.done:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if !q.at.Before(since) {
			return q.version, q.err
		}
		q, mine = c.told.begin() // put after that one has ended
	}
	defer c.told.end(q)
	var out struct {
		Version string `json:"version"`
	}
	q.err = c.call(ctx, CallVersion, http.MethodGet, "/", c.config.Limits.Other, nil, &out)
	if q.err == nil {
		q.version = out.Version
	}
	return q.version, q.err
}

// noticed takes in what a request says of whether the gateway is still the one that told its version. One that only takes too long is.
func (c *Client) noticed(r response) {
	switch status := r.answer.Status; {
	case r.stopped != nil, errors.Is(r.err, context.Canceled) && !errors.Is(r.err, errNoConnection):
	case r.err != nil && (!r.wrote || !isTimeout(r.err)),
		r.err == nil && (status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout):
		c.told.doubt()
	}
}

// versioned is the verdict on the answer to a send, before which the gateway was known to be of a version. What an answer means in some
// versions only counts where the gateway is of one before the send and after the answer: it may have been replaced without anybody
// noticing. The question is asked after such an answer only. When it gets none, which the gateway's own WhatsApp may cause, what was told
// before counts while it is fresh and nothing speaks against it.
func (c *Client) versioned(ctx context.Context, call Call, version string, a Answer) Verdict {
	v, strict := Judge(call, version, a), Judge(call, "", a)
	if v.Outcome == strict.Outcome {
		return v
	}
	answered := time.Now()
	now, age, doubted := c.told.read()
	if doubted || age > versionNow {
		limited, cancel := context.WithTimeout(ctx, versionLimit)
		defer cancel()
		var err error
		if now, err = c.versionSince(limited, answered); err != nil {
			if now, age, doubted = c.told.read(); doubted || age > versionFresh {
				return strict
			}
		}
	}
	if Judge(call, now, a).Outcome != v.Outcome {
		return strict
	}
	return v
}
