package rebuild_test

import (
	"context"
	"sync/atomic"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/rebuild"
	"pilotstatus.dev/projections/rebuild/streamtest"
)

// hardOfHearing is a log that does not answer each second question about its end.
type hardOfHearing struct {
	rebuild.Streams
	asked *atomic.Int64
}

func (h hardOfHearing) Last(ctx context.Context, p events.Partition) (uint64, error) {
	if h.asked.Add(1)%2 == 1 {
		return 0, events.Errorf(events.CodeUnavailable, "the log did not answer")
	}
	return h.Streams.Last(ctx, p)
}

// What takes hours is not given up over one question that got no answer.
func TestRebuildInsistsOnAnAnswer(t *testing.T) {
	t.Parallel()
	w, url := streamtest.Start(t, 1), pgtest.Database(t)
	wr := w.Writer(0)
	wr.Story(t, 30)
	wr.Flush(t)
	cfg, asked := config(w, url), &atomic.Int64{}
	cfg.Source = hardOfHearing{rebuild.Streams{Log: w.Log}, asked}
	if res, err := rebuild.Run(t.Context(), cfg); err != nil || asked.Load() < 2 {
		t.Errorf("%+v, %v after %d questions", res, err, asked.Load())
	}
}
