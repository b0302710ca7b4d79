package forecast

import (
	"encoding/json"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
)

// Report is what a dispatcher sees of those instances of a partition that it works for.
type Report struct {
	At         time.Time `json:"at"` // by the dispatcher's clock
	Dispatcher string    `json:"dispatcher"`
	// Serving lists who works in the partition, as the dispatcher knows it: each reports of its own instances.
	Serving   []string        `json:"serving"`
	Instances map[string]Load `json:"instances"`
	More      bool            `json:"more,omitempty"` // there was no room for all: one that is not listed is not known
}

// MaxReport is the most instances of one report: with longer ids and figures than any, it fits a message of the broker.
const MaxReport = 2000

// Prefix begins the keys of the reports of a partition.
func Prefix(p events.Partition) string { return "load." + p.String() }

// Key is where a dispatcher notes its report of a partition.
func Key(p events.Partition, dispatcher string) string { return Prefix(p) + "." + dispatcher }

// Of gives the load of an instance of a partition by what its dispatchers report; false when that is not known. Who works for it is
// what the newest report says; one that another report lists was handed over meanwhile, and is not known.
func Of(reports []Report, instance string) (Load, bool) {
	var newest Report
	for _, r := range reports {
		if r.At.After(newest.At) {
			newest = r
		}
	}
	owner := roster.Owner(newest.Serving, instance)
	for _, r := range reports {
		if r.Dispatcher == owner && owner != "" {
			l, ok := r.Instances[instance]
			return l, ok || !r.More
		}
	}
	return Load{}, false
}

// Encode writes a report.
func (r Report) Encode() ([]byte, error) { return json.Marshal(r) }

// Decode reads what Encode wrote.
func Decode(raw []byte) (r Report, err error) {
	err = json.Unmarshal(raw, &r)
	return r, err
}
