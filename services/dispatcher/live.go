package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
)

// Live reads which dispatchers live, for who looks from outside.
func Live(ctx context.Context, leases *eventlog.Leases) (roster.Roster, error) {
	said, err := leases.Owners(ctx, roster.Prefix)
	if err != nil {
		return roster.Roster{}, fmt.Errorf("ask which dispatchers live: %w", err)
	}
	members := make([]roster.Member, 0, len(said))
	for _, text := range said {
		if m, err := roster.Decode([]byte(text)); err == nil { // what else is written there is no dispatcher's word
			members = append(members, m)
		}
	}
	return roster.Of(members...), nil
}

// AwaitServing waits until dispatchers live in just these processes and each works in every partition, and gives them.
func AwaitServing(ctx context.Context, leases *eventlog.Leases, partitions int, pids ...int) (roster.Roster, error) {
	for {
		r, err := Live(ctx, leases)
		if err != nil {
			return roster.Roster{}, err
		}
		waits := len(r.Members()) != len(pids) || slices.ContainsFunc(r.Members(), func(m roster.Member) bool { return len(m.Serves) < partitions })
		for _, pid := range pids {
			_, lives := OfProcess(r, pid)
			waits = waits || !lives
		}
		if !waits {
			return r, nil
		}
		if !await.Elapsed(ctx, 50*time.Millisecond) {
			return roster.Roster{}, fmt.Errorf("dispatchers do not work side by side: %v: %w", r.Members(), context.Cause(ctx))
		}
	}
}

// OfProcess gives the id of the dispatcher that a process of this machine runs: ids hold the number of their process.
func OfProcess(r roster.Roster, pid int) (id string, ok bool) {
	members := r.Members()
	i := slices.IndexFunc(members, func(m roster.Member) bool { return strings.Contains(m.ID, fmt.Sprintf("-%d-", pid)) })
	if i < 0 {
		return "", false
	}
	return members[i].ID, true
}
