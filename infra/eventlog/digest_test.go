package eventlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// The digest is of the stored bytes: two readers agree, each event has its own, and who does not read whole events of a
// log without holes has none.
func TestWholeGaplessTailTakesDigests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1", "m2", "m3")
	read := func(cfg eventlog.TailConfig) (out []events.Digest) {
		done := errors.New("done")
		cfg.Stream = events.EventsStream(part)
		err := w.log.Tail(within(t, 30*time.Second), cfg, func(_ context.Context, b eventlog.Batch) error {
			for _, rec := range b.Events {
				out = append(out, rec.Digest)
			}
			if len(out) == 3 {
				return done
			}
			return nil
		})
		if !errors.Is(err, done) {
			t.Fatal(err)
		}
		return out
	}
	first, again := read(eventlog.TailConfig{Gapless: true}), read(eventlog.TailConfig{Gapless: true})
	seen := map[events.Digest]bool{{}: true}
	for i := range first {
		if first[i] != again[i] || seen[first[i]] {
			t.Errorf("digests of event %d: %x, then %x", i+1, first[i], again[i])
		}
		seen[first[i]] = true
	}
	for _, cfg := range []eventlog.TailConfig{{}, {Gapless: true, HeadersOnly: true}} {
		for i, d := range read(cfg) {
			if d != (events.Digest{}) {
				t.Errorf("%+v: event %d has a digest", cfg, i+1)
			}
		}
	}
}
