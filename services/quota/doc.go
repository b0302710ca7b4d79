// Package quota keeps what a tenant accepts within the limits of its plan (promise P11; docs/reference/quota.md).
//
// A Book takes places in windows before a message is appended: it adds to the window's counter, looks at the total, and takes
// the place back when it is one too many. Records say how many of the accepted messages were refunded, as folded from the log. A Keeper
// publishes the records from the views, and corrects counters whose owner died between taking a place and giving it back.
package quota

import "context"

// Counter is a counter of the log.
type Counter interface {
	// Count adds n once for each id and gives the total after it.
	Count(ctx context.Context, subject string, n int64, id string) (total int64, err error)
	// Counted gives the total.
	Counted(ctx context.Context, subject string) (total int64, err error)
}
