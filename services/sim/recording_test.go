package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
	"pilotstatus.dev/infra/evolutionsim"
)

// recording is all that a run leaves behind: what was asked, what the outside saw, and the log.
type recording struct {
	Seed     uint64
	Began    time.Time
	Quiet    time.Time // from here on nothing breaks but dispatchers
	Ended    time.Time
	Accepted []acceptedMessage
	Cancels  []cancelAnswer
	Calls    []call
	Asked    []map[int]int         // of each gateway, what it was asked beside sends and look-ups in each minute
	Ledgers  []evolutionsim.Report // of each gateway
	Heard    []heard
	Away     []span // perhaps no dispatcher could work
	Stirred  []span // who works for an instance may have changed, or have been held up
	Settings []setting
	Log      [][]events.Stored
	Hooks    []events.Stored // deliveries, as the fan-out appended them, each id once
	Tries    []hookTry       // what reached the receivers
	HookLog  []events.Stored
	Waiting  []events.Stored          // deliveries and schedules that are left at the end
	Lives    int                      // of dispatchers
	Clocks   map[string]time.Duration // how far that of each dispatcher was ahead
	Faults   map[string]int           // what happened to the log and the ways to it, how often
	Errors   []string                 // what the run itself could not do

	ids map[string]bool // of Hooks
}

// acceptedMessage is a message as its sender knows it.
type acceptedMessage struct {
	ID           string
	Instance     string
	Tenant       string
	Text         string
	DeliverUntil time.Time
	ReadyAt      time.Time // from when on it may leave
	Seq          uint64    // in the log; 0 when Unknown
	Unknown      bool      // the log did not answer: it may or may not be there
}

// setting is what an instance was given, from a time on.
type setting struct {
	Instance string
	At       time.Time
	Calls    int // at once
	Pace     events.Pacing
}

// cancelAnswer is what a request to cancel a message was answered.
type cancelAnswer struct {
	ID      string
	Asked   time.Time
	Verdict cancel.Verdict
}

// call is a send that reached a gateway, before it had any effect.
type call struct {
	Instance string
	Text     string
	At       time.Time
	By       string // the dispatcher
	Group    uint64 // last sequence of the instance's fenced group at that moment
	Unread   bool   // the log did not answer just then: only the time tells how far the group had come
}

// heard is a receipt that the gateway posted and that was answered.
type heard struct {
	Instance string
	KeyID    string
	Status   string
	FromMe   bool
	At       time.Time
	Answer   int
}

// hookTry is a delivery that reached its receiver whole.
type hookTry struct {
	Host   string
	ID     string
	Body   string
	Signed bool // its signature is the endpoint's
	Status int  // that was answered in time; 0 when the answer never came
	At     time.Time
}

// span is a time from and to.
type span struct{ From, To time.Time }

// recorder gathers a recording while the run goes on.
type recorder struct {
	mu  sync.Mutex
	rec recording
}

func (r *recorder) note(f func(*recording)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.rec)
}

// hit counts one thing that befell the log or a way to it.
func (r *recorder) hit(fault string) { r.note(func(rec *recording) { rec.Faults[fault]++ }) }

// fail notes what the run itself could not do.
func (r *recorder) fail(what string, err error) {
	r.note(func(rec *recording) { rec.Errors = append(rec.Errors, fmt.Sprintf("%s: %v", what, err)) })
}

func (r *recorder) write(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, err := json.Marshal(r.rec)
	if err != nil {
		return fmt.Errorf("encode recording: %w", err)
	}
	return os.WriteFile(path, raw, 0o600)
}

func readRecording(path string) (recording, error) {
	var rec recording
	raw, err := os.ReadFile(path)
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(raw, &rec); err != nil {
		return rec, fmt.Errorf("decode recording: %w", err)
	}
	return rec, nil
}

// decoded gives the log of each partition.
func (r recording) decoded() ([][]events.Recorded, error) {
	out := make([][]events.Recorded, len(r.Log))
	for p, stored := range r.Log {
		for _, s := range stored {
			rec, err := events.Standard.Decode(s)
			if err != nil {
				return nil, fmt.Errorf("decode %s: %w", s.Position, err)
			}
			rec.Digest = s.Digest()
			out[p] = append(out[p], rec)
		}
	}
	return out, nil
}
