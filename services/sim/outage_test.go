package sim

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/natsserver"
)

// The processes that have a way of their own to the log, beside the seats of dispatchers.
const (
	processAPI        = "api"
	processIngest     = "ingest"
	processFanout     = "fan-out "
	processCorrelator = "correlator "
	processWorker     = "worker"
	processReconciler = "reconciler"
)

var processes = func() []string {
	names := append(slices.Clone(seats), processAPI, processIngest, processWorker, processReconciler)
	for p := range events.Partition(partitions) {
		names = append(names, processFanout+p.String(), processCorrelator+p.String())
	}
	return names
}()

const (
	longestFault  = 2 * time.Minute
	longestOutage = 2 * time.Minute
	// One answer may be this late: far over the budget of an intent (2 s), the limit of a call (15 s) and of an append (20 s).
	latestAnswer = 40 * time.Second
)

// drawLog plans what happens to the log, its server and the ways to it.
func (p *plan) drawLog(r *rand.Rand) {
	hours := int(p.Length / time.Hour)
	for n := range 3 * (len(logFaults) + hours) {
		f, name := logFaults[n%len(logFaults)], processes[r.IntN(len(processes))]
		if r.IntN(2) == 0 {
			name = seats[r.IntN(len(seats))]
		}
		rate, length := 0.1+0.6*r.Float64(), within(r, time.Second, longestFault)
		delay := within(r, 100*time.Millisecond, latestAnswer)
		p.do(within(r, 0, p.Length), func(w *world) {
			w.wires[name].set(f, rate, delay, length)
			if slices.Contains(seats, name) {
				w.fleet.breakWay(name, length)
			}
		})
	}
	for range hours/8 + 1 {
		at, length := within(r, 0, p.Length), within(r, time.Second, longestOutage)
		p.do(at, func(w *world) { w.restart(length) })
	}
	for range hours/2 + 2 {
		all, one := r.IntN(4) == 0, r.IntN(1_000)
		p.do(within(r, 0, p.Length), func(w *world) { w.deleteConsumers(all, one) })
	}
}

// startServer starts the server of the log where the last one left its files.
func (w *world) startServer(ctx context.Context) error {
	s, err := natsserver.Start(ctx, natsserver.Config{
		StoreDir: filepath.Join(w.dir, "main"), DontListen: true, Sync: natsserver.SyncDefault, Logger: w.logger,
	})
	if err == nil {
		w.host.set(s)
	}
	return err
}

// restart takes the log's server away for a while. Leases and consumers in memory are gone with it.
func (w *world) restart(length time.Duration) {
	server := w.host.set(nil)
	if server == nil {
		return // it is down already
	}
	w.rec.hit("restarts of the log")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	// Its connections have broken before: while it tells its readers that it goes, it sleeps with a lock that their requests want,
	// and a bubble's clock stands still while anybody waits for a lock.
	pass(10 * time.Millisecond)
	if err := server.Stop(ctx); err != nil {
		w.rec.fail("stop the log", err)
	}
	w.fleet.away(began, time.Now().Add(length+takeover))
	w.fleet.stir(began, time.Now().Add(length+takeover))
	w.later(length, func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := w.startServer(ctx); err != nil {
			w.rec.fail("start the log again", err)
		}
	})
}

// deleteConsumers takes consumers of one stream away, whoever reads with them: one, or all.
func (w *world) deleteConsumers(all bool, one int) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	names := []string{events.StreamControl, events.EventsStream(0), events.EventsStream(0), events.EventsStream(1), events.ReceiptsStream(0), events.ReceiptsStream(1)}
	stream, err := w.js.Stream(ctx, names[one%len(names)])
	if err != nil {
		return // the server is down
	}
	var found []string
	for name := range stream.ConsumerNames(ctx).Name() {
		found = append(found, name)
	}
	for i, name := range found {
		if (all || i == one%len(found)) && stream.DeleteConsumer(ctx, name) == nil {
			w.rec.hit("consumers deleted")
		}
	}
}
