package crash

import (
	"context"
	"fmt"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/services/dispatcher"
)

// crewDraws bounds how often the other dispatcher is started until the armed one has what it is to be hit at: they share the
// instances by names that are drawn with each start.
const crewDraws = 30

// besides starts the other dispatcher so that the armed one comes to the point: it works for an instance, or keeps snapshots.
func (t *trial) besides(ctx context.Context, armed *process, other string) error {
	for range crewDraws {
		if err := t.d.start(ctx, other, ""); err != nil {
			return err
		}
		r, err := t.d.crew(ctx, armed, t.d.procs[other])
		if err != nil {
			return err
		}
		if id, _ := dispatcher.OfProcess(r, armed.cmd.Process.Pid); t.reaches(r, id) {
			return nil
		}
		if err := t.d.procs[other].stop(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s was given nothing to do", armed.name)
}

// reaches reports whether a dispatcher comes to the point of the trial.
func (t *trial) reaches(r roster.Roster, id string) bool {
	for i := range instances {
		p := events.PartitionOf(instanceID(i), partitions)
		if t.point == "dispatcher.snapshot_half_written" && r.Serving(p)[0] == id {
			return true
		}
		if t.point != "dispatcher.snapshot_half_written" && r.Owner(p, instanceID(i)) == id {
			return true
		}
	}
	return false
}

// crew waits until the two dispatchers work in every partition, and gives them.
func (d *deployment) crew(ctx context.Context, one, other *process) (roster.Roster, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	leases := eventlog.NewLeases(d.platform.Events(), topology.Deployment{Partitions: partitions})
	return dispatcher.AwaitServing(ctx, leases, partitions, one.cmd.Process.Pid, other.cmd.Process.Pid)
}
