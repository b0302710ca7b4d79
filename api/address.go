package api

import (
	"hash/fnv"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// slot is the unit of concurrency of a recipient inside an instance: fnv1a64(recipientHash) mod maxConcurrency. It
// never changes for a recipient, because maxConcurrency is fixed when an instance is created.
func slot(recipientHash string, maxConcurrency int) uint8 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(recipientHash))
	n := min(max(maxConcurrency, 1), 256)
	return uint8(h.Sum64() % uint64(n))
}

// partitionsOf gives how many partitions the deployment has; 0 before it is known.
func partitionsOf(from Catalog) (n int) {
	from.Read(func(c *catalog.Catalog) { n = c.Deployment.Partitions })
	return n
}

// correlationID ends in the partition, as a message id does, so that a read of a young one knows whose view to wait for.
func correlationID(u uuid.UUID, p events.Partition) string {
	u[15] = byte(p)
	return events.CorrelationID(u)
}

func origin(i events.Instance) string {
	if i.DisplayName != "" {
		return i.DisplayName
	}
	return i.Name
}
