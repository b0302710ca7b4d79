package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"pilotstatus.dev/services/bench"
)

type benchCmd struct {
	Figures   []string      `help:"What is measured: ${enum}. The last four work on a log of their own." enum:"accept,idle,delivered,fairness,catalog,thousand,slow,resting,failover,start,scheduled,rebuild,audit" default:"accept,idle,delivered,fairness,catalog"`
	Events    int           `help:"Events of the log that start, rebuild and audit work on: pending messages for start." default:"1000000"`
	Tenants   int           `help:"Tenants of the catalog figure, each with a project, ten keys and two templates." default:"10000"`
	Scheduled int           `help:"Messages of the scheduled figure, over 90 days." default:"100000"`
	Clients   int           `help:"Parallel clients." default:"32"`
	Instances int           `help:"Unpaced instances of accept, idle and delivered." default:"50"`
	Messages  int           `help:"Messages of the delivered figures." default:"10000"`
	Accept    time.Duration `help:"How long acceptance is measured." default:"5s"`
	Idle      int           `help:"Messages of the idle figure." default:"300"`
	Backlog   int           `help:"Messages of MARKETING that an OTP overtakes, in the fairness figures." default:"100000"`
	OTPs      int           `name:"otps" help:"OTPs of each latency of the fairness figures." default:"6000"`
	Resting   int           `help:"Instances of the resting figure." default:"10000"`
	Dir       string        `help:"Directory on the disk to measure; empty is a temporary one." type:"path"`
	Profile   string        `help:"File for a CPU profile of the run." type:"path"`
	LogLevel  string        `help:"Least level that is logged." enum:"debug,info,warn,error" default:"error" env:"PILOT_LOG_LEVEL"`
}

// Run measures and prints figures.
func (c *benchCmd) Run(s *session) (err error) {
	defer keepHeap(s.ctx)() // as the deployments that it measures inside this process would
	if c.Profile != "" {
		f, err := os.Create(c.Profile)
		if err != nil {
			return fmt.Errorf("make profile: %w", err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return errors.Join(fmt.Errorf("start profile: %w", err), f.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, f.Close())
		}()
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	dir := c.Dir
	if dir == "" {
		if dir, err = scratch("pilot-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	return bench.Run(s.ctx, dir, bench.Settings{
		Figures: c.Figures, Tenants: c.Tenants, Events: c.Events, Scheduled: c.Scheduled, Resting: c.Resting, Binary: binary, Clients: c.Clients, Instances: c.Instances, Messages: c.Messages, Accept: c.Accept, Idle: c.Idle,
		Backlog: c.Backlog, OTPs: c.OTPs,
	}, s.stdout, logger(c.LogLevel, "console", s.stderr))
}
