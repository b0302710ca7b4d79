//go:build linux

package powercut

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/natsserver"
)

const (
	volumeSize = 2 << 30
	endLimit   = 3 * time.Minute // until every message that was accepted has ended
	readers    = 8
)

// Settings of a run.
type Settings struct {
	Pilot      string // the binary
	Dir        string // an empty directory
	Sync       string // --nats-sync
	Kinds      []FileSystem
	Cuts       int // in all, dealt out to the kinds
	Publishers int
	LoadMin    time.Duration // a cut comes after a time drawn between the two
	LoadMax    time.Duration
	Seed       uint64
}

// Result sums up a run.
type Result struct {
	Cuts       int `json:"cuts"`
	Acked      int `json:"acked"`      // 202s given before a cut
	Lost       int `json:"lost"`       // of them not in the log afterwards
	Duplicated int `json:"duplicated"` // calls at the gateway beyond the first of a message
}

// Cut tells of one.
type Cut struct {
	FileSystem FileSystem `json:"fs"`
	Sync       string     `json:"sync"`
	Keep       Keep       `json:"keep"`
	Loss
	Acked      int     `json:"acked"`
	Lost       int     `json:"lost"`
	Duplicated int     `json:"duplicated"`
	Unknown    int     `json:"unknown"` // attempts that the cut left without an outcome, so far
	StartSecs  float64 `json:"startSeconds"`
	EndSecs    float64 `json:"endSeconds"` // until all that was accepted had ended
	Failed     string  `json:"failed,omitempty"`
}

// Run cuts as often as asked and writes a line of JSON for each. The result stands also with an error: something that a cut
// must not do, beyond what the result counts.
func Run(ctx context.Context, s Settings, out io.Writer) (Result, error) {
	var sum Result
	for i, kind := range s.Kinds {
		n := (s.Cuts + len(s.Kinds) - 1 - i) / len(s.Kinds)
		if n == 0 {
			continue
		}
		if err := runKind(ctx, s, kind, n, out, &sum); err != nil {
			return sum, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return sum, nil
}

// site is one deployment on one volume, and the world around it, which keeps its power.
type site struct {
	set   Settings
	vol   *Volume
	sim   *evolutionsim.Server
	pilot *pilot
	cust  *customer
	draw  *rand.Rand

	partitions int
	doubled    int // found by earlier cuts
}

func runKind(ctx context.Context, s Settings, kind FileSystem, cuts int, out io.Writer, sum *Result) (err error) {
	dir := filepath.Join(s.Dir, string(kind))
	x := &site{set: s, draw: rand.New(rand.NewPCG(s.Seed, uint64(len(kind))))} //nolint:gosec // a repeatable choice
	if x.vol, err = NewVolume(ctx, dir, kind, volumeSize); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close(context.WithoutCancel(ctx))) }()
	if err := x.open(ctx, filepath.Join(dir, "pilot.log")); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	keeps := []Keep{KeepNone, KeepSome, KeepTorn}
	for n := range cuts {
		c, err := x.cut(ctx, keeps[n%len(keeps)])
		if err != nil {
			c.Failed = err.Error()
		}
		sum.Cuts++
		sum.Acked += c.Acked
		sum.Lost += c.Lost
		sum.Duplicated += c.Duplicated
		if err := errors.Join(err, enc.Encode(c)); err != nil {
			return err
		}
	}
	return nil
}

// open starts the gateway and pilot.
func (x *site) open(ctx context.Context, logFile string) (err error) {
	x.sim, err = evolutionsim.Start(ctx, evolutionsim.Options{
		Instances: []evolutionsim.Instance{{Name: "pilot-shared", Number: "5511900000001", State: "open"}, {Name: "acme", Number: "5511900000002", State: "open"}},
		SendTime:  time.Millisecond,
		Receipts:  evolutionsim.Receipts{ServerAck: 20 * time.Millisecond, DeliveryAck: 50 * time.Millisecond, Read: evolutionsim.Never},
		Webhooks:  evolutionsim.Webhooks{InitialDelay: 200 * time.Millisecond, MaxDelay: 2 * time.Second, MaxAttempts: 100},
	})
	if err != nil {
		return err
	}
	if x.pilot, err = newPilot(ctx, x.set.Pilot, x.vol.Mount, logFile, x.set.Sync, x.sim.URL(), x.sim.APIKey()); err != nil {
		return err
	}
	if err := x.pilot.start(ctx); err != nil {
		return err
	}
	if len(usersOf(x.vol.Mount)) == 0 {
		return errors.New("open the site: Postgres does not run on the volume, so a cut would spare it")
	}
	if x.cust, err = newCustomer(x.pilot.api.String(), x.pilot.data, x.set.Publishers); err != nil {
		return err
	}
	return withLog(ctx, x.pilot.natsURL(), func(l *eventlog.Log) error {
		x.partitions, err = unpace(ctx, l)
		return err
	})
}

func (x *site) close(ctx context.Context) error {
	var err error
	if x.pilot != nil {
		x.pilot.kill()
		err = x.pilot.gone(ctx)
	}
	err = errors.Join(err, x.vol.Close(ctx))
	if x.sim != nil {
		x.sim.Close()
	}
	return err
}

// cut loads pilot, takes the power away at a moment nobody chose, brings it back, and looks.
func (x *site) cut(ctx context.Context, keep Keep) (Cut, error) {
	c := Cut{FileSystem: x.vol.Kind, Sync: x.set.Sync, Keep: keep}
	power := make(chan struct{})
	var said *answers
	var load errgroup.Group
	load.Go(func() error {
		said = x.cust.publish(ctx, x.set.Publishers, power)
		return nil
	})
	moment := time.NewTimer(x.set.LoadMin + rand.N(max(x.set.LoadMax-x.set.LoadMin, 1))) //nolint:gosec // any moment will do
	defer moment.Stop()
	select {
	case <-moment.C:
	case <-ctx.Done():
	}
	loss, err := x.vol.Cut(ctx, keep, x.draw, func() {
		close(power)
		x.pilot.kill()
	})
	c.Loss = loss
	err = errors.Join(err, load.Wait(), x.pilot.gone(ctx))
	c.Acked = len(said.acked)
	switch {
	case err != nil:
		return c, err
	case c.Acked == 0:
		return c, fmt.Errorf("nothing was accepted: %s", said.first)
	}
	began := time.Now()
	if err := x.pilot.start(ctx); err != nil {
		var read error
		c.Lost, read = x.lost(ctx, said.acked)
		return c, errors.Join(err, read)
	}
	c.StartSecs = time.Since(began).Seconds()
	return c, x.look(ctx, &c, said.acked)
}

// lost reads the log without pilot, which did not start on what the cut left.
func (x *site) lost(ctx context.Context, acked []string) (_ int, err error) {
	x.pilot.kill()
	if err := x.pilot.gone(ctx); err != nil {
		return 0, err
	}
	srv, err := natsserver.Start(ctx, natsserver.Config{
		StoreDir: x.pilot.store(), Port: natsserver.RandomPort, Sync: natsserver.SyncDefault, Logger: zerolog.Nop(),
	})
	if err != nil {
		return 0, fmt.Errorf("read the log without pilot: %w", err)
	}
	defer func() { err = errors.Join(err, srv.Stop(context.WithoutCancel(ctx))) }()
	ids, err := acceptedIn(ctx, srv.ClientURL(), x.partitions)
	if err != nil {
		return 0, err
	}
	s := &story{accepted: ids}
	lost, _ := s.missing(acked)
	return len(lost), nil
}

// look compares what was promised with the log, the views and the gateway's ledger.
func (x *site) look(ctx context.Context, c *Cut, acked []string) error {
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	s := &story{accepted: map[string]bool{}, ended: map[string]bool{}}
	began := time.Now()
	err := withLog(ctx, x.pilot.natsURL(), func(l *eventlog.Log) error {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		caughtUp := make(chan struct{})
		var g errgroup.Group
		g.Go(func() error {
			defer stop()
			return follow(reading, l, x.partitions, s, func() { close(caughtUp) })
		})
		select {
		case <-caughtUp:
		case <-reading.Done():
		}
		lost, _ := s.missing(acked)
		c.Lost = len(lost)
		open := 0
		ended := await.Until(reading, endLimit, pollEvery, func() bool {
			_, open = s.missing(acked)
			return open == 0
		})
		stop()
		if err := g.Wait(); err != nil {
			return err
		}
		if !ended {
			return fmt.Errorf("%d of %d accepted messages have not ended after %s", open, len(acked), endLimit)
		}
		return nil
	})
	c.EndSecs, c.Unknown = time.Since(began).Seconds(), s.unknown
	c.Duplicated = x.doubles()
	if err != nil || c.Lost > 0 {
		return err
	}
	return x.views(ctx, acked)
}

// doubles counts the calls of this cut that repeat an earlier one.
func (x *site) doubles() int {
	seen, all := map[string]bool{}, 0
	for _, e := range x.sim.Ledger(evolutionsim.Filter{}).Entries {
		if seen[e.Text] {
			all++
		}
		seen[e.Text] = true
	}
	fresh := all - x.doubled
	x.doubled = all
	return fresh
}

// views reads every message from Postgres, whose power was cut with the log's.
func (x *site) views(ctx context.Context, ids []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for _, id := range ids {
		g.Go(func() error {
			var last error
			if !await.Until(ctx, 30*time.Second, pollEvery, func() bool {
				stage, err := x.cust.stage(ctx, id)
				if last = err; err == nil && stage != "DELIVERED" && stage != "READ" && stage != "FAILED" {
					last = fmt.Errorf("it is %s", stage)
				}
				return last == nil
			}) {
				return fmt.Errorf("view of an accepted message: %w", last)
			}
			return nil
		})
	}
	return g.Wait()
}

// Scratch makes a directory for a run that the user Postgres runs as can pass through.
func Scratch() (string, error) {
	dir, err := os.MkdirTemp("", "pilot-powercut-")
	if err != nil {
		return "", fmt.Errorf("make a directory: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // others may pass through, not look
		return "", fmt.Errorf("open the directory: %w", err)
	}
	return dir, nil
}
