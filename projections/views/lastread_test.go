package views_test

import (
	"testing"

	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/views"
)

func TestLastRead(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	v, all := views.New(pool), sample(t).All()
	if seq, id, err := v.LastRead(t.Context(), 9); seq != 0 || id != "" || err != nil {
		t.Errorf("before the first event: %d, %q, %v", seq, id, err)
	}
	if err := projector.New(pool, projector.Config{}).Apply(t.Context(), 9, all[:3], 3); err != nil {
		t.Fatal(err)
	}
	if seq, id, err := v.LastRead(t.Context(), 9); seq != 3 || id != all[2].ID || err != nil {
		t.Errorf("after three: %d, %q, %v", seq, id, err)
	}
}
