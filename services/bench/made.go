package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/services/app"
)

// ackLimit bounds the wait for acknowledgements of what was made up.
const ackLimit = time.Minute

// made is a deployment whose log is made up, not sent: in this process its server, and where wanted Postgres and a projector.
type made struct {
	cfg     app.Config
	log     zerolog.Logger
	app     *app.App
	pg      *postgres.Managed
	tellers []*teller
	pens    []*pen
}

// newMade makes the deployment in dir, with so many instances. Postgres runs until close.
func newMade(ctx context.Context, dir string, instances int, withPostgres bool, log zerolog.Logger) (_ *made, err error) {
	m := &made{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close(ctx))
		}
	}()
	if m.cfg, err = app.Defaults(); err != nil {
		return nil, err
	}
	m.cfg.Local(dir)
	if withPostgres {
		if m.pg, err = postgres.Start(ctx, postgres.ManagedConfig{DataDir: filepath.Join(dir, "postgres"), Logger: log}); err != nil {
			return nil, err
		}
		m.cfg.PostgresURL = m.pg.URL()
	}
	byPartition := make([][]string, m.cfg.Partitions)
	for i := range instances {
		id := instanceID(i)
		p := events.PartitionOf(id, m.cfg.Partitions)
		byPartition[p] = append(byPartition[p], id)
	}
	for i, ids := range byPartition {
		if len(ids) == 0 {
			return nil, fmt.Errorf("make up a log: no instance of %d is in partition %d", instances, i)
		}
		w := &pen{}
		m.pens = append(m.pens, w)
		m.tellers = append(m.tellers, newTeller(events.Partition(i), ids, w.write))
	}
	return m, nil
}

// up starts the server with a policy of when it syncs, and roles on it.
func (m *made) up(ctx context.Context, sync natsserver.Sync, roles ...app.Role) error {
	cfg := m.cfg
	cfg.NATSSync = string(sync)
	var err error
	if m.app, err = app.Start(ctx, cfg, roles, m.log); err != nil {
		return err
	}
	for _, w := range m.pens {
		if err := w.open(ctx, m.app.URLs().NATS); err != nil {
			return err
		}
	}
	return nil
}

// down stops the server and its roles.
func (m *made) down(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var err error
	for _, w := range m.pens {
		err = errors.Join(err, w.close(bounded))
	}
	if m.app != nil {
		err = errors.Join(err, m.app.Stop(bounded))
		m.app = nil
	}
	return err
}

func (m *made) close(ctx context.Context) error {
	err := m.down(ctx)
	if m.pg != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, m.pg.Stop(bounded))
	}
	return err
}

// fill lets every partition tell until the log has n events, and waits until all are stored. The server syncs later: nothing
// here needs to survive a power cut.
func (m *made) fill(ctx context.Context, n int, tell func(*teller) error) (err error) {
	if err := m.up(ctx, natsserver.SyncDefault); err != nil {
		return errors.Join(err, m.down(ctx))
	}
	defer func() { err = errors.Join(err, m.down(ctx)) }()
	g, gctx := errgroup.WithContext(ctx)
	for i, t := range m.tellers {
		g.Go(func() error {
			for t.seq < uint64(n/len(m.tellers)) {
				if err := gctx.Err(); err != nil {
					return err
				}
				if err := tell(t); err != nil {
					return err
				}
			}
			return m.pens[i].flush(gctx)
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("make up a log: %w", err)
	}
	for i, t := range m.tellers {
		last, err := m.app.Events().LastSequence(ctx, events.EventsStream(events.Partition(i)))
		if err != nil || last != t.seq {
			return errors.Join(fmt.Errorf("make up a log: partition %d ends at %d, not at %d", i, last, t.seq), err)
		}
	}
	return nil
}

// stored is how many events the log has.
func (m *made) stored() uint64 {
	var n uint64
	for _, t := range m.tellers {
		n += t.seq
	}
	return n
}

// keepTelling appends about rate events a second, until ctx ends.
func (m *made) keepTelling(ctx context.Context, rate int) error {
	const every = 50 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	began, first := time.Now(), m.stored()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for i := 0; float64(m.stored()-first) < time.Since(began).Seconds()*float64(rate); i++ {
			if err := m.tellers[i%len(m.tellers)].step(); err != nil {
				return err
			}
		}
	}
}

// pen writes to the log of a partition as the library can fastest: without waiting for each acknowledgement. The headers are
// those of real appends, except that the deduplication ids are left out: the server remembers each for ten minutes, and most events of a real
// log are older.
type pen struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	failed atomic.Pointer[error]
}

func (w *pen) open(ctx context.Context, url string) error {
	nc, err := natsserver.Connect(ctx, url, natsserver.Client{Name: "pilot bench"})
	if err != nil {
		return err
	}
	w.nc = nc
	w.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2000),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { w.failed.CompareAndSwap(nil, &err) }))
	if err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	return nil
}

func (w *pen) write(e events.Event) error {
	wire, err := events.Standard.Encode(e)
	if err != nil {
		return err
	}
	header := nats.Header(maps.Clone(wire.Header))
	delete(header, events.HeaderMsgID)
	if addr, err := events.ParseEventSubject(wire.Subject); err == nil && addr.Group == events.GroupDispatch {
		header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(e.Prev, 10)}
		header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{events.DispatchFilter(addr.Partition, addr.Instance)}
	}
	if _, err := w.js.PublishMsgAsync(&nats.Msg{Subject: wire.Subject, Header: header, Data: wire.Data}, jetstream.WithStallWait(ackLimit)); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if failed := w.failed.Load(); failed != nil {
		return fmt.Errorf("publish: %w", *failed)
	}
	return nil
}

// flush waits for the acknowledgement of everything.
func (w *pen) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ackLimit)
	defer cancel()
	select {
	case <-w.js.PublishAsyncComplete():
	case <-ctx.Done():
		return fmt.Errorf("wait for acknowledgements: %w", context.Cause(ctx))
	}
	if failed := w.failed.Load(); failed != nil {
		return fmt.Errorf("publish: %w", *failed)
	}
	return nil
}

func (w *pen) close(ctx context.Context) error {
	if w.nc == nil {
		return nil
	}
	err := natsserver.Drain(ctx, w.nc)
	w.nc = nil
	return err
}
