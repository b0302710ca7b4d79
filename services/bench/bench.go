// Package bench measures a deployment of its own, with fsync before each 202, and prints figures as JSON lines.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/services/app"
)

// Settings of a run.
type Settings struct {
	Clients   int           // parallel clients
	Instances int           // of the delivered figure, all unpaced
	Messages  int           // of the delivered figure
	Accept    time.Duration // how long acceptance is measured
	Idle      int           // messages of the idle figure, one after the other
}

// Figure is one line of output.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Run measures in dir, which must be empty, and writes the figures to out as they come.
func Run(ctx context.Context, dir string, s Settings, out io.Writer, log zerolog.Logger) error {
	cfg, err := app.Defaults()
	if err != nil {
		return err
	}
	cfg.Local(dir)
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
	r, err := newRig(ctx, cfg, s, log)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	// Acceptance alone first: without a dispatcher nothing else uses the disk.
	if err := r.start(ctx, app.RoleAPI); err != nil {
		return err
	}
	figures, err := r.accept(ctx, s)
	if err != nil {
		return err
	}
	if err := say(figures...); err != nil {
		return err
	}
	if err := r.stop(ctx); err != nil {
		return err
	}
	if err := r.start(ctx, app.Roles()...); err != nil {
		return err
	}
	if figures, err = r.idle(ctx, s); err != nil {
		return err
	}
	if err := say(figures...); err != nil {
		return err
	}
	if figures, err = r.delivered(ctx, s); err != nil {
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
	slices.Sort(all)
	at := func(q float64) float64 { return ms(all[min(len(all)-1, int(q*float64(len(all))))]) }
	return []Figure{{name + "_p50", at(0.5), "ms"}, {name + "_p99", at(0.99), "ms"}}
}
