package crash

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/await"
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
		r, id, err := t.d.crew(ctx, armed)
		if err != nil {
			return err
		}
		if t.reaches(r, id) {
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

// crew waits until two dispatchers work in every partition, and gives them with the id of one of them.
func (d *deployment) crew(ctx context.Context, of *process) (roster.Roster, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	leases := eventlog.NewLeases(d.platform.Events(), topology.Deployment{Partitions: partitions})
	for {
		r, err := dispatcher.Live(ctx, leases)
		if err != nil {
			return roster.Roster{}, "", err
		}
		waits := slices.ContainsFunc(r.Members(), func(m roster.Member) bool { return len(m.Serves) < partitions })
		if id, ok := dispatcher.OfProcess(r, of.cmd.Process.Pid); ok && !waits && len(r.Members()) == 2 {
			return r, id, nil
		}
		if !await.Elapsed(ctx, 100*time.Millisecond) {
			return roster.Roster{}, "", fmt.Errorf("two dispatchers do not work side by side: %v: %w", r.Members(), context.Cause(ctx))
		}
	}
}
