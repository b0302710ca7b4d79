package app

import (
	"errors"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
)

// policies reads the categories of which an attempt may follow one that was found absent.
func policies(after []string) (map[events.Category]queue.Policy, error) {
	out := map[events.Category]queue.Policy{}
	if len(after) == 1 && (after[0] == "none" || after[0] == "") {
		return out, nil
	}
	for _, name := range after {
		c := events.Category(name)
		if !c.Valid() {
			return nil, errors.New("--after-absence names OTP, UTILITY or MARKETING, or none")
		}
		out[c] = queue.AfterAbsence
	}
	return out, nil
}
