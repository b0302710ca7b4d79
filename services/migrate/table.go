// Package migrate brings what an older system knows of its customers into the control plane: all of it, or nothing when one row
// cannot be taken.
package migrate

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"pilotstatus.dev/events/policy"
)

// The tables, in the order in which one needs another.
const (
	tableTenants   = "tenants"
	tableProjects  = "projects"
	tableKeys      = "keys"
	tableTemplates = "templates"
	tableOptIns    = "optins"
)

// Rules of a file; those of its fields are the words of package policy.
const (
	RuleLine    = "line"          // the line is no CSV record or no JSON object, or too long
	RuleColumn  = "unknown_field" // there is no such column
	RuleTwice   = "twice"         // an earlier row has it
	RuleNumber  = "number"        // no whole number
	RuleBoolean = "boolean"       // neither true nor false
	RuleTime    = "date_time"     // no ISO 8601 time with zone
	RuleRemoved = "removed"       // it was here before, and was removed: its id is not used again
)

// MaxLine is the most bytes of an NDJSON line.
const MaxLine = 1 << 20

// Fault is one reason why a row is refused. It never holds a value of the row.
type Fault struct {
	File  string `json:"file"`
	Line  int    `json:"line"` // from 1; a CSV record that spans lines is at its first
	Field string `json:"field"`
	Rule  string `json:"rule"`
}

// columns of each table; the first ones must be there.
var columns = map[string]struct {
	required, optional []string
}{
	tableTenants:   {[]string{"id", "name"}, []string{"timeZone", "suspended", "planId"}},
	tableProjects:  {[]string{"id", "tenantId", "name"}, []string{"productionApproved", "retentionDays"}},
	tableKeys:      {[]string{"id", "tenantId", "projectId", "environment", "name", "sha256"}, []string{"secretIdHash", "instanceId", "retentionDays", "expiresAt", "revokedAt", "createdAt"}},
	tableTemplates: {[]string{"id", "tenantId", "projectId", "name", "category", "version", "structure", "state"}, []string{"approvedForProduction"}},
	tableOptIns:    {[]string{"projectId", "number", "firstAt"}, []string{"lastAt"}},
}

// row is one row of a table: its cells as text, empty ones left out.
type row struct {
	file  string
	line  int
	cells map[string]string
}

// export is what the files hold.
type export struct {
	tables map[string][]row
	rows   int
	faults []Fault
}

// readExport reads the tables of a directory: <table>.csv or <table>.ndjson, each of which may be missing.
func readExport(dir fs.FS) (*export, error) {
	e := &export{tables: map[string][]row{}}
	found := false
	for _, table := range []string{tableTenants, tableProjects, tableKeys, tableTemplates, tableOptIns} {
		var files []string
		for _, ext := range []string{".csv", ".ndjson"} {
			if _, err := fs.Stat(dir, table+ext); err == nil {
				files = append(files, table+ext)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("look for %s: %w", table+ext, err)
			}
		}
		if len(files) > 1 {
			return nil, fmt.Errorf("there are both %s and %s: leave one", files[0], files[1])
		}
		for _, name := range files {
			found = true
			if err := e.read(dir, table, name); err != nil {
				return nil, err
			}
		}
	}
	if !found {
		return nil, errors.New("there is none of tenants, projects, keys, templates and optins, as .csv or .ndjson")
	}
	return e, nil
}

func (e *export) read(dir fs.FS, table, name string) error {
	f, err := dir.Open(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	read := e.readCSV
	if strings.HasSuffix(name, ".ndjson") {
		read = e.readNDJSON
	}
	if err := read(f, table, name); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

func (e *export) fault(file string, line int, field, rule string) {
	e.faults = append(e.faults, Fault{file, line, field, rule})
}

// known reports whether a table has a column.
func known(table, column string) bool {
	c := columns[table]
	return slices.Contains(c.required, column) || slices.Contains(c.optional, column)
}

// add takes a row, unless it lacks what every row must have.
func (e *export) add(table string, r row) {
	whole := true
	for _, c := range columns[table].required {
		if r.cells[c] == "" {
			e.fault(r.file, r.line, c, policy.RuleRequired)
			whole = false
		}
	}
	if whole {
		e.tables[table] = append(e.tables[table], r)
	}
	e.rows++
}

func (e *export) readCSV(in io.Reader, table, name string) error {
	buffered := bufio.NewReader(in)
	if mark, err := buffered.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = buffered.Discard(3) // was peeked
	}
	r := csv.NewReader(buffered)
	header, err := r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		e.fault(name, 1, "", RuleLine)
		return nil //nolint:nilerr // what is wrong with a file is told with all else that is
	}
	for i, c := range header {
		if !known(table, c) {
			e.fault(name, 1, fmt.Sprintf("column %d", i+1), RuleColumn)
		} else if slices.Contains(header[:i], c) {
			e.fault(name, 1, c, RuleTwice)
		}
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			e.fault(name, bad.StartLine, "", RuleLine)
			if !errors.Is(err, csv.ErrFieldCount) {
				return nil // where the next record begins is not known
			}
			continue
		}
		if err != nil {
			return err
		}
		line, _ := r.FieldPos(0)
		cells := map[string]string{}
		for i, cell := range record {
			if cell != "" {
				cells[header[i]] = cell
			}
		}
		e.add(table, row{name, line, cells})
	}
}

func (e *export) readNDJSON(in io.Reader, table, name string) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), MaxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(lines.Bytes(), &members) != nil || members == nil {
			e.fault(name, n, "", RuleLine)
			continue
		}
		cells := map[string]string{}
		for member, raw := range members {
			if !known(table, member) {
				e.fault(name, n, "member", RuleColumn)
				continue
			}
			if text := cell(raw); text != "" {
				cells[member] = text
			}
		}
		e.add(table, row{name, n, cells})
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		e.fault(name, 0, "", RuleLine)
		return nil
	}
	return lines.Err()
}

// cell is a JSON value as a cell of a table: null is empty, a string its text, everything else its JSON.
func cell(raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	if text == nil {
		return ""
	}
	return *text
}
