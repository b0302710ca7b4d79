package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"pilotstatus.dev/projections/deliveries"
	"pilotstatus.dev/projections/rebuild"
	"pilotstatus.dev/services/bench"
)

type projectionsCmd struct {
	Rebuild rebuildCmd `cmd:"" help:"Make the views anew from the log, beside the live ones, and put them in their place while everything runs."`
}

type rebuildCmd struct {
	stores   `embed:""`
	Clean    bool          `help:"First remove what interrupted rebuilds left behind."`
	NoVerify bool          `help:"Do not compare with the live rows: after a correction of the fold they are meant to differ."`
	KeepOld  bool          `help:"Keep the replaced schema under its new name."`
	Hold     time.Duration `help:"How long the switch may keep projectors waiting; then nothing has changed." default:"30s"`
}

// Run rebuilds, and prints how far it is, and last a line of JSON.
func (c *rebuildCmd) Run(s *session) (err error) {
	log := logger(c.LogLevel, "console", s.stderr)
	l, parts, open, err := c.openLog(s.ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close(s.ctx)) }()
	url, more, err := c.openPostgres(s.ctx, log)
	if err != nil {
		return err
	}
	open = append(open, more...)
	if c.Clean {
		gone, err := rebuild.Clean(s.ctx, url, c.Schema)
		if err != nil {
			return err
		}
		for _, name := range gone {
			fmt.Fprintf(s.stderr, "removed schema %s\n", name)
		}
	}
	res, err := rebuild.Run(s.ctx, rebuild.Config{
		URL: url, Schema: c.Schema, Partitions: parts, Source: rebuild.Streams{Log: l}, Deliveries: deliveries.Stream{Log: l},
		NoVerify: c.NoVerify, KeepOld: c.KeepOld, HoldLimit: c.Hold, Logger: log,
		OnProgress: func(p rebuild.Progress) { fmt.Fprintln(s.stderr, progressLine(p)) },
	})
	if errors.Is(err, rebuild.ErrLeftover) {
		return fmt.Errorf("%w (--clean removes it)", err)
	}
	if err != nil {
		return err
	}
	c.remind(s, url)
	_, peak := bench.Memory("self")
	line, err := json.Marshal(struct {
		Events   uint64  `json:"events"`
		Seconds  float64 `json:"seconds"`
		Rate     float64 `json:"eventsPerSecond"`
		HeldMS   int64   `json:"heldMs"`
		Verified bool    `json:"verified"`
		Old      string  `json:"old,omitempty"`
		PeakMiB  float64 `json:"peakMiB"`
	}{res.Events, res.Elapsed.Seconds(), res.Rate, res.Held.Milliseconds(), res.Verified, res.Old, peak})
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	_, err = fmt.Fprintf(s.stdout, "%s\n", line)
	return err
}

// remind names the replaced schemas that were kept: they cost as much disk as the live one.
func (c *rebuildCmd) remind(s *session, url string) {
	ctx, cancel := context.WithTimeout(s.ctx, openStores)
	defer cancel()
	found, err := rebuild.Leftovers(ctx, url, c.Schema)
	if err != nil {
		fmt.Fprintf(s.stderr, "replaced schemas could not be listed: %v\n", err)
		return
	}
	for _, name := range found.Old {
		fmt.Fprintf(s.stderr, "kept: schema %s\n", name)
	}
}

// progressLine is one report: share, rate, and each partition.
func progressLine(p rebuild.Progress) string {
	parts := make([]string, len(p.Partitions))
	for i, pp := range p.Partitions {
		parts[i] = fmt.Sprintf("%s:%d/%d", pp.Partition, pp.At, pp.Head)
	}
	return fmt.Sprintf("%5.1f%%  %d of %d events  %.0f events/s  %s", p.Percent(), p.Events, p.Of, p.Rate, strings.Join(parts, " "))
}
