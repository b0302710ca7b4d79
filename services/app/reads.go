package app

import (
	"context"

	"pilotstatus.dev/api"
	"pilotstatus.dev/projections/views"
)

// apiReads answers lists and figures from Postgres.
type apiReads struct{ views *views.Views }

func (a *App) reads() api.Reads {
	r := apiReads{a.views()}
	return api.Reads{Lists: r}
}

func (r apiReads) Messages(ctx context.Context, s api.Scope, f api.MessageFilter, after api.ListPlace, limit int) ([]api.MessageView, error) {
	rows, err := r.views.List(ctx, views.Scope(s), views.Filter(f), views.Place(after), limit)
	if err != nil {
		return nil, err
	}
	out := make([]api.MessageView, len(rows))
	for i, m := range rows {
		out[i] = messageView(m)
	}
	return out, nil
}
