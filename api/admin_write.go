package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// entity says how a kind of the control plane is found and judged. Routes of operators and of customers share it.
type entity[T any] struct {
	kind  string
	get   func(*catalog.Catalog, string) (T, bool)
	check func(*catalog.Catalog, T, *T) policy.Faults
	// again lets an id be used anew after its entity was removed. Elsewhere it would bring back what was said of the old one.
	again bool
}

// author says who changes an entity, and why.
type author struct{ by, reason string }

// expectation judges the version of an entity before it is changed; 0 is one that never was.
type expectation func(version uint64, exists bool) error

// Control-plane writes that are tried against others, and how long an answer waits for this process to know what it wrote.
const (
	writeTries = 64
	readOwn    = 5 * time.Second
)

// writer changes entities, one at a time in this process: what a change was judged against is then rarely stale. Across
// processes CONTROL itself decides: a change is recorded only right behind everything it was judged against, else it is judged
// again. So rules that look at several entities hold, and of two changes of one version one wins.
type writer struct {
	control Control
	catalog Catalog
	turn    chan struct{}
	limit   time.Duration // of one change
	behind  time.Duration
}

func newWriter(c Control, cat Catalog, limit, behind time.Duration) *writer {
	return &writer{control: c, catalog: cat, turn: make(chan struct{}, 1), limit: limit, behind: behind}
}

// defineEntity records what next makes of the entity as it is (nil when there is none) and gives it with its version.
func defineEntity[T any](ctx context.Context, w *writer, e entity[T], id string, want expectation, by author, next func(old *T) (T, error)) (T, uint64, error) {
	var made T
	version, err := w.change(ctx, e.kind, id, func(c *catalog.Catalog, version uint64) (string, any, error) {
		old, exists := e.get(c, id)
		if err := want(version, exists); err != nil {
			return "", nil, err
		}
		var before *T
		if exists {
			before = &old
		} else if version > 0 && !e.again {
			return "", nil, events.Errorf(CodeAlreadyExists, "This id was used before and is not used again.")
		}
		value, err := next(before)
		if err != nil {
			return "", nil, err
		}
		if f := e.check(c, value, before); len(f) > 0 {
			return "", nil, f.Err()
		}
		made = value
		return events.DefinedType(e.kind), &events.Defined[T]{By: by.by, Reason: by.reason, Value: value}, nil
	})
	return made, version, err
}

// removeEntity ends an entity that nothing else needs.
func removeEntity[T any](ctx context.Context, w *writer, e entity[T], id string, want expectation, by author) error {
	_, err := w.change(ctx, e.kind, id, func(c *catalog.Catalog, version uint64) (string, any, error) {
		_, exists := e.get(c, id)
		if !exists {
			return "", nil, errNoEntity()
		}
		if err := want(version, exists); err != nil {
			return "", nil, err
		}
		if kinds := policy.Uses(c, e.kind, id); len(kinds) > 0 {
			return "", nil, events.Errorf(CodeInUse, "It is used by others: %s.", strings.Join(kinds, ", ")).WithDetails("kinds", kinds)
		}
		return events.RemovedType(e.kind), &events.Removed{By: by.by, Reason: by.reason}, nil
	})
	return err
}

// change records one event that judge makes of the catalog, and returns when this process knows it.
func (w *writer) change(ctx context.Context, kind, id string, judge func(c *catalog.Catalog, version uint64) (string, any, error)) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return 0, unavailable(ctx.Err(), "Nothing was changed; try again.")
	}
	for range writeTries {
		if w.catalog.Behind() > w.behind {
			return 0, unavailable(nil, "The configuration is being read; nothing was changed.")
		}
		var at uint64
		var eventType string
		var body any
		var err error
		w.catalog.Read(func(c *catalog.Catalog) {
			at = c.Sequence
			eventType, body, err = judge(c, c.Version(kind, id))
		})
		if err != nil {
			return 0, err
		}
		seq, err := w.control.Append(ctx, kind, id, eventType, body, at)
		switch events.CodeOf(err) {
		case "":
			w.know(ctx, seq)
			return seq, nil
		case events.CodeConflict: // somebody else wrote: look again, at what they wrote
			if err := w.control.CatchUp(ctx); err != nil {
				return 0, unavailable(err, "Nothing was changed; try again.")
			}
		case events.CodeUnavailable:
			return 0, unavailable(err, "It is not known whether it was changed; read it, then try again.")
		default:
			return 0, internal(err)
		}
	}
	return 0, events.Errorf(events.CodeConflict, "Too many others are changing the configuration; nothing was changed.")
}

// know waits until this process serves what was recorded. It is recorded all the same when that takes longer.
func (w *writer) know(ctx context.Context, seq uint64) {
	ctx, cancel := context.WithTimeout(ctx, readOwn)
	defer cancel()
	_ = w.control.Await(ctx, seq)
}

// created is the expectation of a new entity.
func created(_ uint64, exists bool) error {
	if exists {
		return events.Errorf(CodeAlreadyExists, "There is one with this id.")
	}
	return nil
}

// existing is the expectation of an entity that is changed whatever its version.
func existing(_ uint64, exists bool) error {
	if !exists {
		return errNoEntity()
	}
	return nil
}

// matching is the expectation of If-Match: one strong entity tag, or "*". required refuses a request without it.
func matching(header string, required bool) expectation {
	return func(version uint64, exists bool) error {
		header = strings.TrimSpace(header)
		switch {
		case !exists:
			return errNoEntity()
		case header == "" && required:
			return events.Errorf(CodePreconditionRequired, "The header If-Match must name the version that is changed.")
		case header == "", header == "*", header == etag(version):
			return nil
		}
		return events.Errorf(CodePreconditionFailed, "It was changed since it was read; read it again.")
	}
}

// etag is the entity tag of a version.
func etag(version uint64) string { return strconv.Quote(strconv.FormatUint(version, 10)) }

func errNoEntity() error { return events.Errorf(events.CodeNotFound, "There is nothing of this id.") }

// locationOf is where an entity can be read.
func locationOf(path, id string) string { return path + "/" + id }

// statusNoContent has no body.
const statusNoContent = http.StatusNoContent
