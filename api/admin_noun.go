package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// noun is a kind of entity as operators see it: T is recorded, S is what they set, V is what they read. V holds no secret.
type noun[T, S, V any] struct {
	entity[T]
	path  string // below /v1/admin, also the tag's name
	name  string // of one, for people and operation ids
	scope string // that changes need
	draw  string // prefix of ids that are not chosen
	owned bool   // belongs to a tenant, and is listed by it
	list  func(c *catalog.Catalog, q ListQuery) []T
	idOf  func(T) string
	// chosen gives the id that the settings choose; "" is none.
	chosen func(S) string
	// prepare does what needs others (sealing, hashing), once, and gives what makes the next state from the one before.
	prepare func(ctx context.Context, id string, s S) (next func(old *T) (T, error), err error)
	view    func(T) V
	// live adds what is known of the entity now, where it is read; nil adds nothing.
	live func(context.Context, *V)
}

// now is the view of an entity that is read.
func (n noun[T, S, V]) now(ctx context.Context, value T) V {
	v := n.view(value)
	if n.live != nil {
		n.live(ctx, &v)
	}
	return v
}

// Reasoned is part of every request that changes something.
type Reasoned struct {
	Reason string `header:"X-Reason" required:"true" minLength:"1" maxLength:"200" doc:"Why it is changed; kept in the history." example:"ticket 4711"`
}

// ListQuery chooses a part of a list.
type ListQuery struct {
	TenantID  string `query:"tenantId" maxLength:"40" doc:"Of this tenant only. Needed where the entities belong to tenants."`
	ProjectID string `query:"projectId" maxLength:"40" doc:"Of this project only, where the entities have one."`
	After     string `query:"after" maxLength:"40" doc:"Ids behind this one: next of the page before."`
	Limit     int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

// Page is a part of a list, by id.
type Page[V any] struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Data []V    `json:"data"`
	Next string `json:"next,omitempty" doc:"To be given as after for the next page; absent on the last one."`
}

// Change is one event of an entity's history.
type Change[V any] struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Version uint64 `json:"version" doc:"Sequence in CONTROL: the entity tag that it had from then on."`
	Time    string `json:"time" format:"date-time"`
	By      string `json:"by" example:"operator:ana"`
	Reason  string `json:"reason"`
	Removed bool   `json:"removed,omitempty"`
	Value   *V     `json:"value,omitempty" doc:"The whole entity from then on; absent when it was removed."`
}

type (
	entityInput struct {
		ID string `path:"id" maxLength:"64"`
	}
	createInput[S any] struct {
		Reasoned
		Body S
	}
	replaceInput[S any] struct {
		Reasoned
		ID      string `path:"id" maxLength:"64"`
		IfMatch string `header:"If-Match" doc:"The version that is changed: its ETag. Needed."`
		Body    S
	}
	removeInput struct {
		Reasoned
		ID      string `path:"id" maxLength:"64"`
		IfMatch string `header:"If-Match" doc:"The version that is removed: its ETag. Needed."`
	}
	// actInput is of an action on an entity, with a body.
	actInput[S any] struct {
		Reasoned
		ID      string `path:"id" maxLength:"64"`
		IfMatch string `header:"If-Match" doc:"Refuses the action when the entity has another version."`
		Body    S
	}
	// bareInput is of an action without a body.
	bareInput struct {
		Reasoned
		ID      string `path:"id" maxLength:"64"`
		IfMatch string `header:"If-Match" doc:"Refuses the action when the entity has another version."`
	}
	historyInput struct {
		ID    string `path:"id" maxLength:"64"`
		After uint64 `query:"after" doc:"Changes behind this version."`
		Limit int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	}
	entityOutput[V any] struct {
		ETag     string `header:"ETag" doc:"The version, for If-Match."`
		Location string `header:"Location" doc:"Where to read it."`
		Body     V
	}
	pageOutput[V any] struct{ Body Page[V] }
	changes[V any]    struct {
		Data []Change[V] `json:"data"`
	}
	historyOutput[V any] struct{ Body changes[V] }
)

// readable registers list, read and history.
func readable[T, S, V any](a *API, n noun[T, S, V]) {
	base := adminPrefix + n.path
	huma.Register(a.huma, a.adminOperation(http.MethodGet, base, "list", n.name+"s", n.path, events.OperatorRead),
		func(ctx context.Context, in *ListQuery) (*pageOutput[V], error) { return list(ctx, a, n, *in) })
	huma.Register(a.huma, a.adminOperation(http.MethodGet, base+"/{id}", "get", n.name, n.path, events.OperatorRead, events.CodeNotFound),
		func(ctx context.Context, in *entityInput) (*entityOutput[V], error) { return read(ctx, a, n, in.ID) })
	huma.Register(a.huma, a.adminOperation(http.MethodGet, base+"/{id}/history", "list", n.name+"Changes", n.path, events.OperatorRead, events.CodeNotFound),
		func(ctx context.Context, in *historyInput) (*historyOutput[V], error) { return history(ctx, a, n, in) })
}

// creatable registers creation.
func creatable[T, S, V any](a *API, n noun[T, S, V]) {
	op := a.adminOperation(http.MethodPost, adminPrefix+n.path, "create", n.name, n.path, n.scope, CodeAlreadyExists)
	op.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, op, func(ctx context.Context, in *createInput[S]) (*entityOutput[V], error) {
		by, err := authorOf(ctx, in.Reason)
		if err != nil {
			return nil, err
		}
		value, out, err := create(ctx, a, n, by, in.Body)
		if err != nil {
			return nil, err
		}
		out.Body = n.view(value)
		return out, nil
	})
}

// editable registers replacement and removal.
func editable[T, S, V any](a *API, n noun[T, S, V]) {
	replaceable(a, n)
	removable(a, n)
}

func removable[T, S, V any](a *API, n noun[T, S, V]) {
	op := a.adminOperation(http.MethodDelete, adminPrefix+n.path+"/{id}", "delete", n.name, n.path, n.scope, preconditions(CodeInUse)...)
	op.DefaultStatus = statusNoContent
	huma.Register(a.huma, op, func(ctx context.Context, in *removeInput) (*struct{}, error) {
		by, err := authorOf(ctx, in.Reason)
		if err != nil {
			return nil, err
		}
		return nil, removeEntity(ctx, a.writer, n.entity, in.ID, matching(in.IfMatch, true), by)
	})
}

func replaceable[T, S, V any](a *API, n noun[T, S, V]) {
	op := a.adminOperation(http.MethodPut, adminPrefix+n.path+"/{id}", "replace", n.name, n.path, n.scope, preconditions()...)
	huma.Register(a.huma, op, func(ctx context.Context, in *replaceInput[S]) (*entityOutput[V], error) {
		return replace(ctx, a, n, in.ID, in.IfMatch, in.Reason, in.Body)
	})
}

// preconditions are the codes of a change of what exists.
func preconditions(more ...events.Code) []events.Code {
	return append([]events.Code{events.CodeNotFound, CodePreconditionRequired, CodePreconditionFailed}, more...)
}

func list[T, S, V any](ctx context.Context, a *API, n noun[T, S, V], q ListQuery) (*pageOutput[V], error) {
	if n.owned && q.TenantID == "" {
		return nil, faultsError(faults{{Field: "query.tenantId", Rule: ruleRequired}})
	}
	var all []T
	a.ports.Catalog.Read(func(c *catalog.Catalog) { all = n.list(c, q) })
	out := &pageOutput[V]{Body: Page[V]{Data: []V{}}}
	last := ""
	for _, v := range all {
		id := n.idOf(v)
		if id <= q.After {
			continue
		}
		if len(out.Body.Data) == q.Limit {
			out.Body.Next = last
			break
		}
		out.Body.Data = append(out.Body.Data, n.now(ctx, v))
		last = id
	}
	return out, nil
}

func read[T, S, V any](ctx context.Context, a *API, n noun[T, S, V], id string) (*entityOutput[V], error) {
	value, version, found := findEntity(a.ports.Catalog, n.entity, id)
	if !found {
		return nil, errNoEntity()
	}
	return &entityOutput[V]{ETag: etag(version), Location: locationOf(adminPrefix+n.path, id), Body: n.now(ctx, value)}, nil
}

// findEntity gives an entity and its version.
func findEntity[T any](cat Catalog, e entity[T], id string) (value T, version uint64, found bool) {
	cat.Read(func(c *catalog.Catalog) {
		value, found = e.get(c, id)
		version = c.Version(e.kind, id)
	})
	return value, version, found
}

// create records a new entity; the caller shows it.
func create[T, S, V any](ctx context.Context, a *API, n noun[T, S, V], by author, s S) (T, *entityOutput[V], error) {
	var none T
	id := n.chosen(s)
	if id == "" {
		id = a.drawID(n.draw)
	}
	if !events.ValidToken(id) {
		return none, nil, faultsError(faults{{Field: "id", Rule: policy.RuleToken}})
	}
	next, err := n.prepare(ctx, id, s)
	if err != nil {
		return none, nil, err
	}
	value, version, err := defineEntity(ctx, a.writer, n.entity, id, created, by, next)
	if err != nil {
		return none, nil, err
	}
	return value, &entityOutput[V]{ETag: etag(version), Location: locationOf(adminPrefix+n.path, id)}, nil
}

func replace[T, S, V any](ctx context.Context, a *API, n noun[T, S, V], id, ifMatch, reason string, s S) (*entityOutput[V], error) {
	by, err := authorOf(ctx, reason)
	if err != nil {
		return nil, err
	}
	want := matching(ifMatch, true)
	if _, version, exists := findEntity(a.ports.Catalog, n.entity, id); exists { // before anything is sealed for it
		if err := want(version, exists); events.CodeOf(err) == CodePreconditionRequired {
			return nil, err
		}
	}
	if given := n.chosen(s); given != "" && given != id {
		return nil, faultsError(faults{{Field: "id", Rule: policy.RuleFixed}})
	}
	if !events.ValidToken(id) {
		return nil, errNoEntity()
	}
	next, err := n.prepare(ctx, id, s)
	if err != nil {
		return nil, err
	}
	value, version, err := defineEntity(ctx, a.writer, n.entity, id, want, by, next)
	if err != nil {
		return nil, err
	}
	return &entityOutput[V]{ETag: etag(version), Location: locationOf(adminPrefix+n.path, id), Body: n.view(value)}, nil
}

// act changes an existing entity by an action, whatever its version unless If-Match names one.
func act[T, S, V any](ctx context.Context, a *API, n noun[T, S, V], id, ifMatch, reason string, change func(old T) (T, error)) (*entityOutput[V], error) {
	by, err := authorOf(ctx, reason)
	if err != nil {
		return nil, err
	}
	if !events.ValidToken(id) {
		return nil, errNoEntity()
	}
	value, version, err := defineEntity(ctx, a.writer, n.entity, id, matching(ifMatch, false), by, func(old *T) (T, error) { return change(*old) })
	if err != nil {
		return nil, err
	}
	return &entityOutput[V]{ETag: etag(version), Location: locationOf(adminPrefix+n.path, id), Body: n.view(value)}, nil
}

func history[T, S, V any](ctx context.Context, a *API, n noun[T, S, V], in *historyInput) (*historyOutput[V], error) {
	version := uint64(0)
	a.ports.Catalog.Read(func(c *catalog.Catalog) { version = c.Version(n.kind, in.ID) })
	if version == 0 {
		return nil, errNoEntity()
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	recs, err := a.ports.Control.History(ctx, n.kind, in.ID, in.After, in.Limit)
	if err != nil {
		return nil, unavailable(err, "The history cannot be read right now.")
	}
	out := &historyOutput[V]{Body: changes[V]{Data: []Change[V]{}}}
	for _, rec := range recs {
		c := Change[V]{Version: rec.Position.Sequence, Time: stamp(rec.Stored)}
		switch b := rec.Body.(type) {
		case *events.Defined[T]:
			shown := n.view(b.Value)
			c.By, c.Reason, c.Value = b.By, b.Reason, &shown
		case *events.Removed:
			c.By, c.Reason, c.Removed = b.By, b.Reason, true
		default: // of a newer release
		}
		out.Body.Data = append(out.Body.Data, c)
	}
	return out, nil
}

// drawID makes an id that nobody chose: 62 random bits of a UUID.
func (a *API) drawID(prefix string) string {
	return prefix + "-" + hexID(a.ports.NewID())[16:]
}

// hexID is a UUID as 32 hex digits.
func hexID(id uuid.UUID) string { return strings.ReplaceAll(id.String(), "-", "") }

// timeOf reads an optional time of a request.
func timeOf(f *faults, field, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		f.add(field, ruleDateTime)
	}
	return at.UTC().Truncate(time.Millisecond)
}
