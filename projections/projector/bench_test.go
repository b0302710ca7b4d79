package projector_test

import (
	"strconv"
	"testing"

	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/projector"
)

// BenchmarkApply writes the usual story of messages, accepted to delivered, in batches of Run's default size; events/s
// is what one partition takes.
func BenchmarkApply(b *testing.B) {
	pool := open(b, pgtest.Database(b), "pilot", postgres.Settings{})
	for _, size := range []int{100, 1000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			log := story(b, 0, b.N*size/4+1)
			all := log.All()
			truncate(b, pool)
			p := projector.New(pool, projector.Config{Gapless: true})
			b.ResetTimer()
			for i := range b.N {
				if err := p.Apply(b.Context(), 0, all[i*size:(i+1)*size], uint64((i+1)*size)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
