package views

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
)

// Filter narrows a list of messages; an empty field does not.
type Filter struct {
	Status        events.Status
	Stage         events.Stage
	Category      events.Category
	Instance      string
	Template      string // id
	RecipientHash string
	Label         string
	From, To      time.Time // accepted at or after From, and before To
}

// Place is where a message stands in the order of lists: newest first, by when it was accepted, then by id. Both come from
// the accepted event and never change, so a place means the same after a rebuild, and no page repeats or passes over a
// message that was there when the page before it was read.
type Place struct {
	CreatedAt time.Time
	ID        string
}

// Place gives the place of a message.
func (m Message) Place() Place { return Place{CreatedAt: m.CreatedAt, ID: m.ID} }

// List gives at most limit messages of a scope that pass the filter, newest first, those behind the place of the last one
// of the page before; the zero place begins. Each filter alone is one walk along an index; several together walk along one
// and pass over what the others exclude.
func (v *Views) List(ctx context.Context, s Scope, f Filter, after Place, limit int) ([]Message, error) {
	if !f.askable() || !askable(after.ID) && after.ID != "" {
		return nil, nil
	}
	sql, args := f.query(s, after, limit)
	rows, err := v.pool.Query(ctx, sql, append([]any{planned}, args...)...)
	if err != nil {
		return nil, coded("list messages", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Message, error) { return scanMessage(row) })
	if err != nil {
		return nil, coded("list messages", err)
	}
	return out, nil
}

// askable reports whether Postgres takes the filter's texts.
func (f Filter) askable() bool {
	for _, s := range []string{string(f.Status), string(f.Stage), string(f.Category), f.Instance, f.Template, f.RecipientHash, f.Label} {
		if s != "" && !askable(s) {
			return false
		}
	}
	return true
}

// query makes the statement. Only conditions that are wanted stand in it, so that each has the plan of its own index.
func (f Filter) query(s Scope, after Place, limit int) (string, []any) {
	var where []string
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	is := func(column, value string) {
		if value != "" {
			where = append(where, column+" = "+arg(value))
		}
	}
	where = append(where, "tenant_id = "+arg(s.Tenant), "project_id = "+arg(s.Project), "environment = "+arg(string(s.Environment)))
	if f.Status == "" && f.Stage != "" {
		f.Status = f.Stage.Status() // the index is of the status
	}
	is("status", string(f.Status))
	is("stage", string(f.Stage))
	is("category", string(f.Category))
	is("instance_id", f.Instance)
	is("template_id", f.Template)
	is("recipient_hash", f.RecipientHash)
	if f.Label != "" {
		where = append(where, "label_array(labels) @> ARRAY["+arg(f.Label)+"::text]")
	}
	if !f.From.IsZero() {
		where = append(where, "created_at >= "+arg(f.From))
	}
	if !f.To.IsZero() {
		where = append(where, "created_at < "+arg(f.To))
	}
	if after != (Place{}) {
		where = append(where, "(created_at, id) < ("+arg(after.CreatedAt)+", "+arg(after.ID)+")")
	}
	return "SELECT " + messageColumns + " FROM messages WHERE " + strings.Join(where, " AND ") +
		" ORDER BY created_at DESC, id DESC LIMIT " + arg(limit), args
}
