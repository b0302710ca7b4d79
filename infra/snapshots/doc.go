// Package snapshots keeps what a fold came to at a place of the log: the state itself in the object store SNAPSHOTS, and a
// witness of the place in a local file that no restore of the log takes along. It promises that what was half written, cut or
// changed is never given back as whole.
package snapshots

import (
	"errors"
	"time"
)

// Mark is a place of a partition's log as a fold has seen it. Whoever comes back to the place must find the same.
type Mark struct {
	Sequence uint64 `json:"sequence"`
	EventID  string `json:"eventId"` // ce-id of the event there
	Chain    string `json:"chain"`   // digest of all ids up to there, in hex
	Fold     int    `json:"fold"`    // version of the fold that wrote it
	// Restored is the last sequence of the log when an operator accepted it although it had lost events, 0 when that never
	// happened. What was pending there may have left in the part that was lost.
	Restored   uint64    `json:"restored,omitempty"`
	RestoredAt time.Time `json:"restoredAt,omitzero"`
}

// Errors of what was kept.
var (
	ErrNone    = errors.New("nothing is kept there")
	ErrDamaged = errors.New("what is kept there is damaged")
)
