package evolutionsim

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"
)

// Entry is one message that the simulator took: it left, whatever was answered.
type Entry struct {
	Seq      int64  `json:"seq"` // from 1, in the order of acceptance
	Instance string `json:"instance"`
	Call     string `json:"call"`
	Number   string `json:"number"` // as given
	JID      string `json:"jid"`
	KeyID    string `json:"keyId"`
	Text     string `json:"text"`
	TextHash string `json:"textHash"` // SHA-256 of Text, hex
	Stored   bool   `json:"stored"`   // a look-up finds it; false: it left and the gateway keeps no row

	StartedAt  time.Time `json:"startedAt"`  // the request came
	AcceptedAt time.Time `json:"acceptedAt"` // the message left
	FinishedAt time.Time `json:"finishedAt"` // the answer, a reset, or the client's end, which can come first; zero while under way
	// InFlight is the number of sends of this instance under way when this one began, with it: above 1 they overlapped.
	InFlight int64 `json:"inFlight"`
}

// Filter chooses entries. Empty fields choose all.
type Filter struct {
	Instance string
	Text     string // is contained
	Number   string
	KeyID    string
	After    int64 // only later ones than this, by Seq
}

// Report is the ledger as /sim/ledger gives it.
type Report struct {
	Total       int64            `json:"total"`       // taken since the last reset
	Dropped     int64            `json:"dropped"`     // of these no longer kept
	MaxInFlight map[string]int64 `json:"maxInFlight"` // by instance: the most sends under way at once, accepted or not
	Entries     []Entry          `json:"entries"`
}

type ledger struct {
	mu      sync.Mutex
	entries []*Entry // a ring once it is full
	taken   int64
	limit   int
	most    map[string]int64
}

func newLedger(limit int) *ledger { return &ledger{limit: limit, most: map[string]int64{}} }

func (l *ledger) add(e *Entry) {
	sum := sha256.Sum256([]byte(e.Text))
	e.TextHash = hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken++
	e.Seq = l.taken
	if len(l.entries) < l.limit {
		l.entries = append(l.entries, e)
		return
	}
	l.entries[(l.taken-1)%int64(l.limit)] = e
}

func (l *ledger) finish(e *Entry, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.FinishedAt = at
}

func (l *ledger) saw(instance string, inFlight int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most[instance] = max(l.most[instance], inFlight)
}

func (l *ledger) total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

func (l *ledger) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.taken, l.most = nil, 0, map[string]int64{}
}

// Ledger lists what was taken, oldest first.
func (s *Server) Ledger(f Filter) Report {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	report := Report{Total: l.taken, Dropped: l.taken - int64(len(l.entries)), MaxInFlight: map[string]int64{}, Entries: []Entry{}}
	for name, n := range l.most {
		report.MaxInFlight[name] = n
	}
	for n := max(report.Dropped, f.After); n < l.taken; n++ {
		e := l.entries[n%int64(len(l.entries))]
		if f.matches(e) {
			report.Entries = append(report.Entries, *e)
		}
	}
	return report
}

func (f Filter) matches(e *Entry) bool {
	return (f.Instance == "" || f.Instance == e.Instance) && (f.Number == "" || f.Number == e.Number) &&
		(f.KeyID == "" || f.KeyID == e.KeyID) && strings.Contains(e.Text, f.Text)
}
