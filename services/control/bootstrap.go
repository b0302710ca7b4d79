package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/infra/apikey"
)

// ErrHasOperators says that somebody can make keys already.
var ErrHasOperators = errors.New("there are operators already: let one of them make the key, or insist (--force) when none has theirs any more")

// BootstrapLog is what Bootstrap reads and writes.
type BootstrapLog interface {
	Log
	NextAppender
}

// Bootstrap records an operator's key with every scope for a person, and gives it; only its digest is kept. It refuses with
// ErrHasOperators when there was one before, unless forced. ctx bounds it.
func Bootstrap(ctx context.Context, log BootstrapLog, name string, force bool) (apikey.Key, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed, done := NewFeed(log, Settings{}), make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		ended = feed.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	select {
	case <-feed.Ready():
	case <-done:
		return apikey.Key{}, ended
	case <-ctx.Done():
		return apikey.Key{}, fmt.Errorf("read the control plane: %w", ctx.Err())
	}
	key, err := apikey.GenerateOperator(rand.Reader)
	if err != nil {
		return apikey.Key{}, err
	}
	sum := key.SHA256()
	o := events.Operator{
		ID: name, Name: name, PublicID: key.PublicID(), SHA256: hex.EncodeToString(sum[:]), Scopes: events.OperatorScopes(),
		CreatedAt: time.Now().UTC(),
	}
	var at uint64
	feed.Read(func(c *catalog.Catalog) {
		at = c.Sequence
		if len(c.Operators()) > 0 && !force {
			err = ErrHasOperators
			return
		}
		if c.Version(events.KindOperator, o.ID) > 0 {
			o.ID = "opr-" + key.PublicID()
		}
		err = policy.Operator(c, o, nil).Err()
	})
	if err != nil {
		return apikey.Key{}, err
	}
	_, err = Next(ctx, log, events.KindOperator, o.ID, events.DefinedType(events.KindOperator),
		&events.Defined[events.Operator]{By: "bootstrap", Reason: "first operator", Value: o}, at)
	if err != nil {
		return apikey.Key{}, err
	}
	return key, nil
}
