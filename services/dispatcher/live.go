package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pilotstatus.dev/events/roster"
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

// OfProcess gives the id of the dispatcher that a process of this machine runs: ids hold the number of their process.
func OfProcess(r roster.Roster, pid int) (id string, ok bool) {
	members := r.Members()
	i := slices.IndexFunc(members, func(m roster.Member) bool { return strings.Contains(m.ID, fmt.Sprintf("-%d-", pid)) })
	if i < 0 {
		return "", false
	}
	return members[i].ID, true
}
