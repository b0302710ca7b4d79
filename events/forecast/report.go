package forecast

import (
	"encoding/json"
	"time"

	"pilotstatus.dev/events"
)

// Report is what a dispatcher sees of the instances of a partition.
type Report struct {
	At        time.Time       `json:"at"` // by the dispatcher's clock
	Instances map[string]Load `json:"instances"`
	More      bool            `json:"more,omitempty"` // there was no room for all: one that is not listed is not known
}

// MaxReport is the most instances of one report: with longer ids and figures than any, it fits a message of the broker.
const MaxReport = 2000

// Key is where the report of a partition is noted.
func Key(p events.Partition) string { return "load." + p.String() }

// Of gives the load of an instance; false when the report does not know it.
func (r Report) Of(instance string) (Load, bool) {
	l, ok := r.Instances[instance]
	return l, ok || !r.More
}

// Encode writes a report.
func (r Report) Encode() ([]byte, error) { return json.Marshal(r) }

// Decode reads what Encode wrote.
func Decode(raw []byte) (r Report, err error) {
	err = json.Unmarshal(raw, &r)
	return r, err
}
