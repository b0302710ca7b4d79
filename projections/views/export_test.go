package views

// Query gives the statement of a list.
func Query(f Filter, s Scope, after Place, limit int) (sql string, args []any) {
	return f.query(s, after, limit)
}

// SelectUndelivered is the question that Undelivered asks.
var SelectUndelivered = selectUndelivered
