package migrate

import (
	"strconv"
	"time"
)

// cells takes typed values out of a row and keeps what is wrong with them. A cell that is empty leaves the value as it was.
type cells struct {
	row
	faults *[]Fault
}

func (c cells) fault(field, rule string) {
	*c.faults = append(*c.faults, Fault{c.file, c.line, field, rule})
}

func (c cells) text(field string, into *string) {
	if v := c.cells[field]; v != "" {
		*into = v
	}
}

func (c cells) boolean(field string, into *bool) {
	switch c.cells[field] {
	case "":
	case "true", "t", "TRUE":
		*into = true
	case "false", "f", "FALSE":
		*into = false
	default:
		c.fault(field, RuleBoolean)
	}
}

func (c cells) number(field string, into *int) {
	if v := c.cells[field]; v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			c.fault(field, RuleNumber)
			return
		}
		*into = n
	}
}

func (c cells) time(field string, into *time.Time) {
	if v := c.cells[field]; v != "" {
		at, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			c.fault(field, RuleTime)
			return
		}
		*into = at.UTC()
	}
}
