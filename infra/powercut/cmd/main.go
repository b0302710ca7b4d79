//go:build linux

// Command powercut cuts the power of a running Pilot and counts what was lost; `make powercut` runs it. It ends with 0 when
// nothing was lost or doubled, 1 when something was, 2 where the machine cannot do it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"pilotstatus.dev/infra/powercut"
)

func main() { os.Exit(run()) }

func run() int {
	var s powercut.Settings
	var kinds string
	var teeth bool
	flag.StringVar(&s.Pilot, "pilot", "bin/pilot", "the binary to cut")
	flag.StringVar(&s.Sync, "sync", "group", "--nats-sync of it: group, always or default")
	flag.StringVar(&kinds, "fs", "ext4,xfs", "kinds of file systems")
	flag.IntVar(&s.Cuts, "cuts", 6, "number of cuts")
	flag.IntVar(&s.Publishers, "publishers", 16, "clients at once")
	flag.DurationVar(&s.LoadMin, "load-min", time.Second, "earliest moment of a cut under load")
	flag.DurationVar(&s.LoadMax, "load-max", 3*time.Second, "latest moment")
	flag.Uint64Var(&s.Seed, "seed", uint64(time.Now().UnixNano()), "of what a cut keeps")
	flag.BoolVar(&teeth, "teeth", true, "first cut once without a sync: that must lose")
	flag.Parse()
	for k := range strings.SplitSeq(kinds, ",") {
		s.Kinds = append(s.Kinds, powercut.FileSystem(k))
		if k != string(powercut.Ext4) && k != string(powercut.XFS) {
			fmt.Fprintln(os.Stderr, "powercut: -fs is ext4, xfs or both")
			return 2
		}
	}
	if lacks := powercut.Missing(s.Kinds...); len(lacks) > 0 {
		fmt.Fprintln(os.Stderr, "powercut: missing here: "+strings.Join(lacks, ", "))
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if teeth && !bites(ctx, s) {
		return 1
	}
	sum, err := within(ctx, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "powercut:", err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(sum); err != nil || ctx.Err() != nil {
		return 1
	}
	if err != nil || sum.Lost > 0 || sum.Duplicated > 0 || sum.Cuts != s.Cuts {
		return 1
	}
	return 0
}

// bites cuts once under the server's own lazy sync: a test that loses nothing there proves nothing elsewhere.
func bites(ctx context.Context, s powercut.Settings) bool {
	s.Sync, s.Cuts, s.Kinds = "default", 1, s.Kinds[:1]
	sum, err := within(ctx, s)
	if sum.Lost == 0 {
		fmt.Fprintln(os.Stderr, "powercut: without a sync nothing was lost, so this proves nothing:", err)
	}
	return sum.Lost > 0
}

// within runs in a directory of its own, which stays when something went wrong.
func within(ctx context.Context, s powercut.Settings) (powercut.Result, error) {
	dir, err := powercut.Scratch()
	if err != nil {
		return powercut.Result{}, err
	}
	s.Dir = dir
	sum, err := powercut.Run(ctx, s, os.Stdout)
	if err == nil {
		err = os.RemoveAll(dir)
	}
	return sum, err
}
