package topology

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
)

// deploymentID is the id of the one entity of kind deployment.
const deploymentID = "deployment"

// Control is what EnsureDeployment needs of the log: optimistic appends to CONTROL and reads from its leader.
type Control interface {
	AppendExpecting(ctx context.Context, ev events.Event, expected uint64) (uint64, error)
	LastBySubject(ctx context.Context, stream, filter string) (events.Recorded, error)
}

// PartitionsError says that a deployment was created with another number of partitions than the one asked for. The
// number is fixed for life: instances, ids and positions depend on it.
type PartitionsError struct {
	Want, Recorded int
}

func (e *PartitionsError) Error() string {
	return fmt.Sprintf("this deployment was created with %d partitions and cannot run with %d", e.Recorded, e.Want)
}

// EnsureDeployment gives the deployment recorded in CONTROL. On the first boot it records want partitions
// (DefaultPartitions when want is 0), dated now. A recorded number that differs from want is a *PartitionsError;
// want 0 accepts any. Of several first boots at once exactly one records, the others read what it recorded. A log that does not answer, as
// in a cluster that places its streams for the first time, is asked again for 20 s.
func EnsureDeployment(ctx context.Context, log Control, want int, now time.Time) (events.Deployment, error) {
	if want < 0 || want > events.MaxPartitions {
		return events.Deployment{}, fmt.Errorf("ensure deployment: %d partitions: want 1 to %d", want, events.MaxPartitions)
	}
	dep, err := readOrRecord(ctx, log, want, now)
	for began := time.Now(); events.CodeOf(err) == events.CodeUnavailable && time.Since(began) < gathering && await.Elapsed(ctx, gatherEvery); {
		dep, err = readOrRecord(ctx, log, want, now)
	}
	if err != nil {
		return events.Deployment{}, fmt.Errorf("ensure deployment: %w", err)
	}
	if want != 0 && dep.Partitions != want {
		return events.Deployment{}, &PartitionsError{Want: want, Recorded: dep.Partitions}
	}
	return dep, nil
}

func readOrRecord(ctx context.Context, log Control, want int, now time.Time) (events.Deployment, error) {
	dep, err := readDeployment(ctx, log)
	if events.CodeOf(err) == events.CodeNotFound {
		dep, err = recordDeployment(ctx, log, want, now)
		if events.CodeOf(err) == events.CodeConflict {
			dep, err = readDeployment(ctx, log)
		}
	}
	return dep, err
}

func readDeployment(ctx context.Context, log Control) (events.Deployment, error) {
	rec, err := log.LastBySubject(ctx, events.StreamControl, events.ControlSubject(events.KindDeployment, deploymentID))
	if err != nil {
		return events.Deployment{}, err
	}
	body, ok := rec.Body.(*events.Defined[events.Deployment])
	if !ok || body.Value.Partitions < 1 || body.Value.Partitions > events.MaxPartitions {
		return events.Deployment{}, events.Errorf(events.CodeMalformed, "the record of the deployment at %s is not readable", rec.Position)
	}
	return body.Value, nil
}

func recordDeployment(ctx context.Context, log Control, want int, now time.Time) (events.Deployment, error) {
	if want == 0 {
		want = DefaultPartitions
	}
	id, err := uuid.NewV7()
	if err != nil {
		return events.Deployment{}, fmt.Errorf("draw an id: %w", err)
	}
	dep := events.Deployment{Partitions: want, CreatedAt: now.UTC().Truncate(time.Millisecond)}
	_, err = log.AppendExpecting(ctx, events.Event{
		Envelope: events.Envelope{ID: id.String(), Type: events.DefinedType(events.KindDeployment), Source: "pilot/boot", Time: dep.CreatedAt},
		Address:  events.ControlSubject(events.KindDeployment, deploymentID),
		Body:     &events.Defined[events.Deployment]{By: "pilot", Reason: "first boot", Value: dep},
	}, 0)
	return dep, err
}
