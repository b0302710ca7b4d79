package audit

import (
	"fmt"
	"sync"

	"pilotstatus.dev/events"
)

// Kind says what kind of fault a finding is.
type Kind string

// The kinds of findings (docs/audit.md).
const (
	KindGap       Kind = "gap"        // the log lacks events
	KindShort     Kind = "short"      // the log ends before what a view has read
	KindMalformed Kind = "malformed"  // an event does not decode
	KindChain     Kind = "chain"      // a fenced event does not follow the one before it in its instance
	KindDigest    Kind = "digest"     // events are not those that the projector read
	KindUndigest  Kind = "undigested" // no digest was kept of a stretch of the log
	KindOther     Kind = "other_log"  // the log holds another event at the checkpoint than the one the view has read there
	KindRow       Kind = "row"        // a row is not what the log says
)

// Finding is one fault.
type Finding struct {
	Kind      Kind             `json:"kind"`
	Partition events.Partition `json:"partition"`
	From      uint64           `json:"from,omitempty"` // first sequence concerned
	To        uint64           `json:"to,omitempty"`   // last one
	Table     string           `json:"table,omitempty"`
	MessageID string           `json:"messageId,omitempty"`
	Detail    string           `json:"detail,omitempty"` // never personal data
}

// Place is where the finding is, as text.
func (f Finding) Place() string {
	switch {
	case f.From == 0:
		return f.Partition.String()
	case f.To > f.From:
		return fmt.Sprintf("%s:%d-%d", f.Partition, f.From, f.To)
	default:
		return fmt.Sprintf("%s:%d", f.Partition, f.From)
	}
}

// Report counts what an audit read and found.
type Report struct {
	Partitions int    `json:"partitions"`
	Events     uint64 `json:"events"`
	Messages   uint64 `json:"messages"`
	Findings   uint64 `json:"findings"`
}

// ledger counts and passes findings on, one at a time.
type ledger struct {
	mu     sync.Mutex
	report Report
	on     func(Finding)
}

func (l *ledger) add(f Finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Findings++
	if l.on != nil {
		l.on(f)
	}
}

func (l *ledger) read(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Events += uint64(n)
}

func (l *ledger) events() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report.Events
}
