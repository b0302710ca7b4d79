package projector

import (
	"strconv"
	"strings"
	"time"
)

// column is one column of a statement that writes many rows at once: each column travels as one array.
type column[R any] struct {
	name  string
	array string // type of the array's elements
	cast  string // type of the column, where it is another one
	pack  func([]R) any
}

func pack[R, V any](get func(*R) V) func([]R) any {
	return func(rows []R) any {
		out := make([]V, len(rows))
		for i := range rows {
			out[i] = get(&rows[i])
		}
		return out
	}
}

func textColumn[R any](name string, get func(*R) string) column[R] {
	return column[R]{name: name, array: "text", pack: pack(get)}
}

// nullTextColumn writes an empty text as NULL.
func nullTextColumn[R any](name string, get func(*R) string) column[R] {
	return column[R]{name: name, array: "text", pack: pack(func(r *R) *string {
		if s := get(r); s != "" {
			return &s
		}
		return nil
	})}
}

func boolColumn[R any](name string, get func(*R) bool) column[R] {
	return column[R]{name: name, array: "boolean", pack: pack(get)}
}

func intColumn[R any](name string, get func(*R) int) column[R] {
	return column[R]{name: name, array: "integer", pack: pack(func(r *R) int32 { return int32Of(get(r)) })}
}

// nullIntColumn writes 0 as NULL.
func nullIntColumn[R any](name string, get func(*R) int) column[R] {
	return column[R]{name: name, array: "integer", pack: pack(func(r *R) *int32 {
		if n := int32Of(get(r)); n != 0 {
			return &n
		}
		return nil
	})}
}

func seqColumn[R any](name string, get func(*R) uint64) column[R] {
	return column[R]{name: name, array: "bigint", pack: pack(func(r *R) int64 { return int64(get(r)) })}
}

// nullBigColumn writes 0 as NULL.
func nullBigColumn[R any](name string, get func(*R) int64) column[R] {
	return column[R]{name: name, array: "bigint", pack: pack(func(r *R) *int64 {
		if n := get(r); n != 0 {
			return &n
		}
		return nil
	})}
}

// timeColumn writes the zero time as NULL.
func timeColumn[R any](name string, get func(*R) time.Time) column[R] {
	return column[R]{name: name, array: "timestamptz", pack: pack(func(r *R) *time.Time {
		if t := get(r); !t.IsZero() {
			return &t
		}
		return nil
	})}
}

// statement is a text with its arrays.
type statement[R any] struct {
	text    string
	columns []column[R]
}

func (s statement[R]) args(partition int16, rows []R) []any {
	out := make([]any, 0, len(s.columns)+1)
	out = append(out, partition)
	for _, c := range s.columns {
		out = append(out, c.pack(rows))
	}
	return out
}

// insert makes "INSERT INTO table (partition, columns…) SELECT $1, … FROM unnest(arrays…) <tail>".
func insert[R any](table, tail string, columns ...column[R]) statement[R] {
	names, values := []string{"partition"}, []string{"$1::smallint"}
	for _, c := range columns {
		names = append(names, c.name)
		value := "u." + c.name
		if c.cast != "" {
			value += "::" + c.cast
		}
		values = append(values, value)
	}
	return statement[R]{
		text: "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") +
			" FROM " + unnest(columns) + " " + tail,
		columns: columns,
	}
}

// update makes "UPDATE table t SET columns… FROM unnest(arrays…) WHERE t.key = u.key and the partition is ours". The
// key is the first column; extra is one more assignment.
func update[R any](table, extra string, columns ...column[R]) statement[R] {
	key := columns[0].name
	sets := []string{extra}
	for _, c := range columns[1:] {
		sets = append(sets, c.name+" = u."+c.name)
	}
	return statement[R]{
		text: "UPDATE " + table + " t SET " + strings.Join(sets, ", ") + " FROM " + unnest(columns) +
			" WHERE t." + key + " = u." + key + " AND t.partition = $1",
		columns: columns,
	}
}

// assign makes "c = excluded.c, …": what a conflict updates.
func assign[R any](columns []column[R]) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.name + " = excluded." + c.name
	}
	return strings.Join(out, ", ")
}

func unnest[R any](columns []column[R]) string {
	arrays, names := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		arrays[i] = "$" + strconv.Itoa(i+2) + "::" + c.array + "[]"
		names[i] = c.name
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS u(" + strings.Join(names, ", ") + ")"
}
