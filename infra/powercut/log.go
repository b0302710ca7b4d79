//go:build linux

package powercut

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
)

// story is what the log says of the messages.
type story struct {
	mu       sync.Mutex
	accepted map[string]bool // their queued event is there
	ended    map[string]bool
	unknown  int // attempts whose outcome nobody recorded in time
}

func (s *story) tell(rec events.Recorded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch rec.Type {
	case events.TypeMessageQueued:
		s.accepted[rec.Subject] = true
	case events.TypeDispatchUnknown:
		s.unknown++
	case events.TypeReceiptDelivered, events.TypeReceiptRead, events.TypeReceiptFailed, events.TypeDispatchRefused:
		s.ended[rec.Subject] = true
	case events.TypeDispatchClosed:
		if body, ok := rec.Body.(*events.DispatchClosed); ok {
			for _, m := range body.Messages {
				s.ended[m.ID] = true
			}
		}
	}
}

// missing gives those of ids that were not accepted, and how many of the others have not ended.
func (s *story) missing(ids []string) (lost []string, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		switch {
		case !s.accepted[id]:
			lost = append(lost, id)
		case !s.ended[id]:
			open++
		}
	}
	return lost, open
}

// withLog opens the log of a running pilot for a reader.
func withLog(ctx context.Context, url string, do func(*eventlog.Log) error) (err error) {
	nc, err := natsserver.Connect(ctx, url, natsserver.Client{Name: "powercut"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, natsserver.Drain(context.WithoutCancel(ctx), nc)) }()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	return do(eventlog.New(js, eventlog.Options{Logger: zerolog.Nop()}))
}

// follow reads every partition from its first event on, says when it has read what was there, and goes on until ctx ends.
// A gap in the log is an error.
func follow(ctx context.Context, log *eventlog.Log, partitions int, s *story, caughtUp func()) error {
	g, ctx := errgroup.WithContext(ctx)
	var waiting sync.WaitGroup
	waiting.Add(partitions)
	g.Go(func() error {
		waiting.Wait()
		caughtUp()
		return nil
	})
	for p := range partitions {
		once := sync.OnceFunc(waiting.Done)
		g.Go(func() error {
			defer once()
			err := log.Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(events.Partition(p)), Gapless: true},
				func(_ context.Context, b eventlog.Batch) error {
					for _, rec := range b.Events {
						s.tell(rec)
					}
					if b.CaughtUp {
						once()
					}
					return nil
				})
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// acceptedIn reads, from a log that may lack streams and events, which messages were accepted.
func acceptedIn(ctx context.Context, url string, partitions int) (map[string]bool, error) {
	ids := map[string]bool{}
	err := withLog(ctx, url, func(l *eventlog.Log) error {
		for p := range partitions {
			stream := events.EventsStream(events.Partition(p))
			last, err := l.LastSequence(ctx, stream)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			for seq := uint64(1); seq <= last; seq++ {
				rec, err := l.GetLeader(ctx, stream, seq)
				switch {
				case events.CodeOf(err) == events.CodeNotFound:
				case err != nil:
					return err
				case rec.Type == events.TypeMessageQueued:
					ids[rec.Subject] = true
				}
			}
		}
		return nil
	})
	return ids, err
}

// unpace takes the pace from every instance, and says how many partitions the deployment has.
func unpace(ctx context.Context, log *eventlog.Log) (partitions int, err error) {
	instances := map[string]events.Recorded{}
	errRead := errors.New("read")
	err = log.Tail(ctx, eventlog.TailConfig{Stream: events.StreamControl}, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			switch body := rec.Body.(type) {
			case *events.Defined[events.Deployment]:
				partitions = body.Value.Partitions
			case *events.Defined[events.Instance]:
				instances[body.Value.ID] = rec
			}
		}
		if b.CaughtUp {
			return errRead
		}
		return nil
	})
	if !errors.Is(err, errRead) {
		return 0, fmt.Errorf("read the control plane: %w", err)
	}
	for id, rec := range instances {
		inst := rec.Body.(*events.Defined[events.Instance]).Value
		inst.Pace = events.Pace{}
		eventID, err := uuid.NewV7()
		if err != nil {
			return 0, fmt.Errorf("draw an event id: %w", err)
		}
		if _, err := log.AppendExpecting(ctx, events.Event{
			Envelope: events.Envelope{ID: eventID.String(), Type: events.DefinedType(events.KindInstance), Source: "pilot/powercut", Time: time.Now()},
			Address:  events.ControlSubject(events.KindInstance, id),
			Body:     &events.Defined[events.Instance]{By: "operator:powercut", Value: inst},
		}, rec.Position.Sequence); err != nil {
			return 0, fmt.Errorf("take the pace from an instance: %w", err)
		}
	}
	return partitions, nil
}
