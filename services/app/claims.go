package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pilotstatus.dev/api"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/services/recall"
)

// apiClaims fits the bucket of claims to the port of the API.
type apiClaims struct{ *eventlog.Claims }

func (c apiClaims) Put(ctx context.Context, name string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	written, err := c.Claims.Put(ctx, name, value, revision, ttl)
	return written, moved(err)
}

func (c apiClaims) Delete(ctx context.Context, name string, revision uint64) error {
	return moved(c.Claims.Delete(ctx, name, revision))
}

func moved(err error) error {
	if errors.Is(err, eventlog.ErrMoved) {
		return fmt.Errorf("%w: %w", api.ErrMoved, err)
	}
	return err
}

// recall starts what remembers posts without a known result.
func (a *App) recall(ctx context.Context, claims *eventlog.Claims) *recall.Memory {
	m := recall.New(claims, 0, time.Now, a.log)
	a.sup.start(ctx, "recall", m.Run)
	return m
}
