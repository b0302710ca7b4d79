package api

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"pilotstatus.dev/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(complete{m}) }

// answered holds the codes of the problems that tests were answered with.
var answered struct {
	mu    sync.Mutex
	codes map[events.Code]bool
}

func noteAnswered(code events.Code) {
	answered.mu.Lock()
	defer answered.mu.Unlock()
	if answered.codes == nil {
		answered.codes = map[events.Code]bool{}
	}
	answered.codes[code] = true
}

// complete fails a run of all tests in which a documented code never occurred.
type complete struct{ m *testing.M }

func (c complete) Run() int {
	status := c.m.Run()
	for _, name := range []string{"test.run", "test.skip", "test.fuzz", "test.list"} {
		if f := flag.Lookup(name); status != 0 || testing.Short() || f != nil && f.Value.String() != "" {
			return status
		}
	}
	for _, code := range slices.Sorted(maps.Keys(problems)) {
		if !answered.codes[code] {
			fmt.Printf("no test was answered with %s\n", code)
			status = 1
		}
	}
	return status
}
