// Package crash kills and stops real processes of Pilot at every failpoint while messages are on their way. It promises that a run
// without a violation has seen every accepted message end, none lost, none sent twice, no two calls at once on an instance, and
// each customer event told under one id.
package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pilotstatus.dev/infra/failpoint"
)

// Settings say what is run.
type Settings struct {
	Binary   string // a pilot
	Dir      string // a directory for data and logs, which the user Postgres runs as can reach
	Seeds    int    // how many seeds
	First    uint64 // the first seed
	Points   []string
	Messages int // accepted around each fault, at least
}

// Result is what was counted. A run is one fault: one point, one action, one seed. Illegal and Events are violations too, of the
// order of the log (an effect without an intent, two starts at once, an end after an end, a row that is not the fold) and of the
// customer events.
type Result struct {
	Runs       int `json:"runs"`
	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
	Overlaps   int `json:"overlaps"`
	Unended    int `json:"unended"`
	Illegal    int `json:"illegal,omitempty"`
	Events     int `json:"events,omitempty"`
}

// Good reports that nothing was violated.
func (r Result) Good() bool {
	return r.Lost == 0 && r.Duplicated == 0 && r.Overlaps == 0 && r.Unended == 0 && r.Illegal == 0 && r.Events == 0
}

func (r *Result) add(o Result) {
	r.Runs += o.Runs
	r.Lost += o.Lost
	r.Duplicated += o.Duplicated
	r.Overlaps += o.Overlaps
	r.Unended += o.Unended
	r.Illegal += o.Illegal
	r.Events += o.Events
}

// ErrViolated says that a promise did not hold.
var ErrViolated = errors.New("a promise did not hold")

// Run runs every point with every seed, one deployment a seed, and prints what happens; the last line is the Result as JSON.
// Data and logs of a seed without a violation are removed.
func Run(ctx context.Context, s Settings, out io.Writer) error {
	points, err := choose(s.Points)
	if err != nil {
		return err
	}
	var total Result
	var failed []error
	for n := range s.Seeds {
		seed := s.First + uint64(n)
		dir := filepath.Join(s.Dir, "seed-"+strconv.FormatUint(seed, 10))
		if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // others may pass through, not look
			return fmt.Errorf("make directory of seed %d: %w", seed, err)
		}
		r, err := runSeed(ctx, s, seed, dir, points, out)
		total.add(r)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("seed %d (logs in %s): %w", seed, dir, err))
		case !r.Good():
			failed = append(failed, fmt.Errorf("seed %d (logs in %s): %w", seed, dir, ErrViolated))
		default:
			failed = append(failed, os.RemoveAll(dir))
		}
		if ctx.Err() != nil {
			break
		}
	}
	line, err := json.Marshal(total)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	fmt.Fprintf(out, "%s\n", line)
	return errors.Join(failed...)
}

// choose gives the wanted places, all when none is named.
func choose(want []string) ([]string, error) {
	var all []string
	for _, p := range failpoint.Points() {
		all = append(all, p.Name)
	}
	if len(want) == 0 {
		return all, nil
	}
	for _, name := range want {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no failpoint %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	return want, nil
}

// actions are what is done at each point.
var actions = []string{"kill", "stop"}

func runSeed(ctx context.Context, s Settings, seed uint64, dir string, points []string, out io.Writer) (r Result, err error) {
	began := time.Now()
	d, err := deploy(ctx, s.Binary, dir)
	if err != nil {
		return r, err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, d.close(bounded))
	}()
	if err := d.warmUp(ctx); err != nil {
		return r, err
	}
	fmt.Fprintf(out, "seed %d: %d processes up after %s\n", seed, len(d.procs), time.Since(began).Round(100*time.Millisecond))
	for _, point := range points {
		for _, action := range actions {
			t := newTrial(d, seed, point, action, s.Messages)
			if err := t.run(ctx); err != nil {
				return r, fmt.Errorf("%s %s: %w", point, action, err)
			}
			r.Runs++
			fmt.Fprintf(out, "seed %d: %-32s %-4s at pass %-2d  %s\n", seed, point, action, t.pass, t.summary())
		}
	}
	v, err := d.judge(ctx, r.Runs)
	if err != nil {
		return r, err
	}
	for _, text := range v.said {
		fmt.Fprintf(out, "seed %d: VIOLATED: %s\n", seed, text)
	}
	r.add(v.Result)
	fmt.Fprintf(out, "seed %d: %s, %s\n", seed, v.facts, time.Since(began).Round(100*time.Millisecond))
	return r, nil
}
