package evolutionsim

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Fault makes matching calls misbehave. Every field that is set must match; Kind says what goes wrong.
type Fault struct {
	ID           int64  `json:"id"`
	Instance     string `json:"instance,omitempty"`
	Call         string `json:"call,omitempty"`         // the route's last word, like sendText; empty: both sends
	Number       string `json:"number,omitempty"`       // as given in the request
	TextContains string `json:"textContains,omitempty"` // of the text, or of the title of buttons
	Times        int    `json:"times,omitempty"`        // how often it works; 0: until it is deleted

	Kind string `json:"kind"` // delay, hang, answer, reset, receipts, unsaved, misroute or renamed

	// When says whether the fault comes "before" the message is taken (nothing has left) or "after": delay, hang, answer, reset. Before when empty.
	When string `json:"when,omitempty"`
	// DelayMS is how long a delay takes, or each receipt of "receipts" waits in addition. A client that gives up does not shorten it.
	DelayMS int `json:"delayMs,omitempty"`

	// The answer of "answer".
	Status      int               `json:"status,omitempty"`
	Body        string            `json:"body,omitempty"`
	ContentType string            `json:"contentType,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`

	// Mode of "receipts": lost, duplicated, reversed, early (posted and answered before the 201), error (a status ERROR and nothing else),
	// rowless (the gateway keeps no row: look-ups find nothing, receipts come all the same), unposted (the gateway keeps them, but their
	// webhooks are lost) or late (only DelayMS and JID).
	Mode   string `json:"mode,omitempty"`
	Copies int    `json:"copies,omitempty"` // of "duplicated": how many of each in all; 2
	// Statuses are the receipts that Mode works on; empty: all. For "early" with none planned they are added.
	Statuses []string `json:"statuses,omitempty"`

	// JID is where "misroute" sends instead, or what "receipts" call the recipient (a LID, for example).
	JID string `json:"jid,omitempty"`
}

// kind is one way to misbehave. Embed nothing for what a kind does not touch.
type kind interface {
	// before runs before the call has any effect; true means it ended the request.
	before(*exchange) bool
	// after runs when the answer is ready; true means it ended the request.
	after(*exchange, *reply) bool
	// plan alters what happens to a message that is taken.
	plan(*taking)
}

// nothing is a kind without effect, for others to start from.
type nothing struct{}

func (nothing) before(*exchange) bool        { return false }
func (nothing) after(*exchange, *reply) bool { return false }
func (nothing) plan(*taking)                 {}

var kinds = map[string]func(Fault) (kind, error){
	"delay":    func(f Fault) (kind, error) { return delayFault{d: f.delay(), late: f.late()}, nil },
	"hang":     func(f Fault) (kind, error) { return hangFault{late: f.late()}, nil },
	"answer":   newAnswerFault,
	"reset":    func(f Fault) (kind, error) { return resetFault{late: f.late()}, nil },
	"receipts": newReceiptsFault,
	"unsaved":  func(Fault) (kind, error) { return unsavedFault{}, nil },
	"misroute": newMisrouteFault,
	"renamed":  func(Fault) (kind, error) { return renamedFault{}, nil },
}

func (f Fault) delay() time.Duration { return time.Duration(f.DelayMS) * time.Millisecond }
func (f Fault) late() bool           { return f.When == "after" }

func (f Fault) matches(x *exchange) bool {
	if f.Call == "" && !x.isSend() || f.Call != "" && f.Call != x.call {
		return false
	}
	return (f.Instance == "" || f.Instance == x.instance.name) && (f.Number == "" || f.Number == x.in.number()) &&
		(f.TextContains == "" || strings.Contains(x.in.text(), f.TextContains))
}

type activeFault struct {
	Fault
	kind kind
	left int // uses left, when Times is set
}

type faults struct {
	mu    sync.Mutex
	list  []*activeFault // in the order they were set
	last  int64
	limit int
}

func newFaults(limit int) *faults { return &faults{limit: limit} }

// AddFault sets a fault and gives its id.
func (s *Server) AddFault(f Fault) (int64, error) {
	build, ok := kinds[f.Kind]
	if !ok {
		return 0, fmt.Errorf("add fault: unknown kind %q", f.Kind)
	}
	if f.When != "" && f.When != "before" && f.When != "after" {
		return 0, fmt.Errorf("add fault: when is %q, not before or after", f.When)
	}
	if f.DelayMS < 0 || f.Times < 0 || f.Copies < 0 {
		return 0, errors.New("add fault: a negative number")
	}
	k, err := build(f)
	if err != nil {
		return 0, fmt.Errorf("add fault: %w", err)
	}
	return s.faults.add(f, k)
}

func (s *faults) add(f Fault, k kind) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) >= s.limit {
		return 0, errors.New("add fault: too many faults are set")
	}
	s.last++
	f.ID = s.last
	s.list = append(s.list, &activeFault{Fault: f, kind: k, left: f.Times})
	return f.ID, nil
}

// take gives the faults that work on this call and counts the use of each.
func (s *faults) take(x *exchange) []kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil
	}
	var found []kind
	kept := s.list[:0]
	for _, f := range s.list {
		if f.matches(x) {
			found = append(found, f.kind)
			if f.left--; f.Times > 0 && f.left == 0 {
				continue
			}
		}
		kept = append(kept, f)
	}
	clear(s.list[len(kept):])
	s.list = kept
	return found
}

// Faults lists what is set, oldest first. Times is what is left of it.
func (s *Server) Faults() []Fault {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	list := make([]Fault, 0, len(s.faults.list))
	for _, f := range s.faults.list {
		shown := f.Fault
		shown.Times = max(f.left, 0)
		list = append(list, shown)
	}
	return list
}

// RemoveFault takes a fault away and reports whether it was set.
func (s *Server) RemoveFault(id int64) bool {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	for n, f := range s.faults.list {
		if f.ID == id {
			s.faults.list = append(s.faults.list[:n], s.faults.list[n+1:]...)
			return true
		}
	}
	return false
}

func (s *faults) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = nil
}
