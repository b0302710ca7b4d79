package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
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
func (d *deployment) crew(ctx context.Context, of *process) (r roster.Roster, id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	leases := eventlog.NewLeases(d.platform.Events(), topology.Deployment{Partitions: partitions})
	for {
		live, err := leases.Owners(ctx, roster.Prefix)
		if err != nil {
			return roster.Roster{}, "", fmt.Errorf("ask which dispatchers live: %w", err)
		}
		members, working := make([]roster.Member, 0, len(live)), 0
		for _, said := range live {
			m, err := roster.Decode([]byte(said))
			if err != nil {
				return roster.Roster{}, "", err
			}
			if members = append(members, m); len(m.Serves) == partitions {
				working++
			}
		}
		own := slices.IndexFunc(members, func(m roster.Member) bool {
			return strings.Contains(m.ID, fmt.Sprintf("-%d-", of.cmd.Process.Pid))
		})
		if working == 2 && len(members) == 2 && own >= 0 {
			return roster.Of(members...), members[own].ID, nil
		}
		if !await.Elapsed(ctx, 100*time.Millisecond) {
			return roster.Roster{}, "", fmt.Errorf("two dispatchers do not work side by side: %v: %w", live, context.Cause(ctx))
		}
	}
}
