// Package bench measures a deployment of its own, with fsync before each 202, and prints figures as JSON lines.
package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/services/app"
)

// What can be measured.
const (
	Accept    = "accept"    // how many messages are accepted, and how long a 202 takes
	Idle      = "idle"      // from the POST to the gateway, one message at a time
	Delivered = "delivered" // the whole way to the receipt in the log
	Thousand  = "thousand"  // the same over a thousand instances
	Slow      = "slow"      // both with a gateway that takes its time for each message
	Catalog   = "catalog"   // a process that reads a large control plane
	Start     = "start"     // a dispatcher that starts with a large log of pending messages
	Scheduled = "scheduled" // the same with messages scheduled over the whole horizon
	Rebuild   = "rebuild"   // making the views of a large log, and replacing live ones
	Audit     = "audit"     // auditing a large log with its views
)

// Settings of a run.
type Settings struct {
	Figures   []string      // what is measured
	Clients   int           // parallel clients
	Instances int           // of the delivered figure, all unpaced
	Messages  int           // of the delivered figures
	Accept    time.Duration // how long acceptance is measured
	Idle      int           // messages of the idle figure, one after the other
	Backlog   int           // messages of MARKETING that an OTP overtakes
	OTPs      int           // of each latency
	SendTime  time.Duration // how long the gateway is busy with a message
	Tenants   int           // of the catalog figure
	Events    int           // of a large log
	Scheduled int           // messages of the scheduled figure
	Resting   int           // instances of the resting figure
	Binary    string        // this program: what is measured in processes of its own is started from it
}

func (s Settings) wants(figures ...string) bool {
	return slices.ContainsFunc(figures, func(f string) bool { return slices.Contains(s.Figures, f) })
}

// Figure is one line of output.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Run measures in dir, which must be empty, and writes the figures to out as they come.
func Run(ctx context.Context, dir string, s Settings, out io.Writer, log zerolog.Logger) error {
	enc := json.NewEncoder(out)
	say := func(figures ...Figure) error {
		for _, f := range figures {
			if err := enc.Encode(f); err != nil {
				return fmt.Errorf("write figure: %w", err)
			}
		}
		return nil
	}
	fsync, err := fsyncTime(dir)
	if err != nil {
		return err
	}
	if err := say(Figure{"disk_append_fsync_p50", ms(fsync), "ms"}); err != nil {
		return err
	}
	for _, part := range []struct {
		dir     string
		measure func(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) error
		wanted  bool
	}{
		{"sent", sent, s.wants(Accept, Idle, Delivered)},
		{"catalog", catalogStart, s.wants(Catalog)},
		{"thousand", thousand, s.wants(Thousand)},
		{"slow", slow, s.wants(Slow)},
		{"fairness", fairness, s.wants(Fairness)},
		{"resting", resting, s.wants(Resting)},
		{"failover", failover, s.wants(Failover)},
		{"start", start, s.wants(Start)},
		{"scheduled", scheduled, s.wants(Scheduled)},
		{"views", views, s.wants(Rebuild, Audit)},
	} {
		if !part.wanted {
			continue
		}
		at := filepath.Join(dir, part.dir)
		if err := os.Mkdir(at, 0o711); err != nil { //nolint:gosec // the user of Postgres comes through
			return fmt.Errorf("make directory: %w", err)
		}
		if err := part.measure(ctx, at, s, say, log); err != nil {
			return err
		}
		if err := os.RemoveAll(at); err != nil { // a large log is some gigabytes with its views
			return fmt.Errorf("remove what was measured: %w", err)
		}
	}
	return nil
}

// sent measures what needs a gateway, over few instances.
func sent(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) error {
	r, err := newRig(ctx, dir, s, log)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	if s.wants(Accept) {
		// Acceptance alone first: without a dispatcher nothing else uses the disk.
		if err := r.start(ctx, app.RoleAPI); err != nil {
			return err
		}
		figures, err := r.accept(ctx, "accept", s)
		if err != nil {
			return err
		}
		if err := errors.Join(say(figures...), r.rules(ctx)); err != nil {
			return err
		}
		if figures, err = r.accept(ctx, "rules_accept", s); err != nil {
			return err
		}
		r.ruled = false // the keys of requests are used up
		if err := errors.Join(say(figures...), r.stop(ctx)); err != nil {
			return err
		}
	}
	if !s.wants(Idle, Delivered) {
		return nil
	}
	if err := r.start(ctx, app.Roles()...); err != nil {
		return err
	}
	if err := r.drain(ctx); err != nil {
		return err
	}
	if s.wants(Idle) {
		figures, err := r.idle(ctx, s)
		if err != nil {
			return err
		}
		if err := say(figures...); err != nil {
			return err
		}
	}
	if !s.wants(Delivered) {
		return nil
	}
	figures, err := r.delivered(ctx, s, "")
	if err != nil {
		return err
	}
	return say(figures...)
}

// manyInstances is how many the thousand are.
const manyInstances = 1000

// thousand measures delivery over a thousand instances.
func thousand(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) error {
	s.Instances = manyInstances
	return warmed(ctx, dir, s, "_1000", say, log)
}

// slowSend is how long the slow gateway is busy with a message of an instance: 20 messages/s are the most that one can send.
const slowSend = 50 * time.Millisecond

// slow measures delivery over few and over a thousand instances of a slow gateway.
func slow(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) error {
	s.SendTime = slowSend
	for _, n := range []int{s.Instances, manyInstances} {
		of, at := "_gateway_50ms", filepath.Join(dir, fmt.Sprint(n))
		if n == manyInstances {
			of = "_1000" + of
		}
		if err := os.Mkdir(at, 0o711); err != nil { //nolint:gosec // the user of Postgres comes through
			return fmt.Errorf("make directory: %w", err)
		}
		s.Instances = n
		if err := warmed(ctx, at, s, of, say, log); err != nil {
			return err
		}
	}
	return nil
}

// warmed measures delivery where each instance has sent one message before: by then the gateway was asked for its number, and its lane
// is open, as is so for instances that are in use. of ends the names of the figures.
func warmed(ctx context.Context, dir string, s Settings, of string, say func(...Figure) error, log zerolog.Logger) error {
	r, err := newRig(ctx, dir, s, log)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	if err := r.start(ctx, app.Roles()...); err != nil {
		return err
	}
	if err := r.warm(ctx, s.Clients); err != nil {
		return err
	}
	figures, err := r.delivered(ctx, s, of)
	if err != nil {
		return err
	}
	return say(figures...)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// quantiles gives p50 and p99 of a latency.
func quantiles(name string, all []time.Duration) []Figure {
	if len(all) == 0 {
		return nil
	}
	return []Figure{{name + "_p50", ms(quantile(all, 0.5)), "ms"}, {name + "_p99", ms(quantile(all, 0.99)), "ms"}}
}

// quantile of at least one value, which it sorts.
func quantile[T cmp.Ordered](all []T, q float64) T {
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}
