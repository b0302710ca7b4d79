package eventlog

import "context"

// Courtesy waits while something urgent is on its way in this process, as *courtesy.Courtesy does.
type Courtesy interface {
	Yield(ctx context.Context)
}

// farBehind is with how many events that wait a reader yields no more: somebody waits for them, too.
const farBehind = 256

// yield lets others go first, unless the reader is far behind.
func (l *Log) yield(ctx context.Context, behind uint64) {
	if l.opts.Courtesy != nil && behind < farBehind {
		l.opts.Courtesy.Yield(ctx)
	}
}
