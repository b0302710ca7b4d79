package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"time"
	"weak"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/control"
)

// A large control plane: for each tenant a project, and so many of these.
const (
	keysOfTenant      = 10
	templatesOfTenant = 2
)

// catalogStart measures how long a process reads CONTROL until its catalog is whole, what that costs in CPU, the server's part in it
// included, and what the catalog holds of memory.
func catalogStart(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) (err error) {
	cfg, err := app.Defaults()
	if err != nil {
		return err
	}
	cfg.Local(dir)
	cfg.NATSSync = string(natsserver.SyncDefault) // nothing here needs to survive a power cut
	a, err := app.Start(ctx, cfg, nil, log)
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, a.Stop(bounded))
	}()
	if err := fillControl(ctx, a.URLs().NATS, s.Tenants); err != nil {
		return err
	}
	figures, err := startCatalog(ctx, a.Events(), s.Tenants)
	if err != nil {
		return err
	}
	return say(figures...)
}

// fillControl makes up a control plane.
func fillControl(ctx context.Context, url string, tenants int) (err error) {
	var w pen
	if err := w.open(ctx, url); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	add := func(kind, id string, body any) {
		if err == nil {
			err = w.write(events.Event{
				Envelope: events.Envelope{ID: kind + "-" + id, Type: events.DefinedType(kind), Source: "pilot/bench", Time: time.Now()},
				Address:  events.ControlSubject(kind, id), Body: body,
			})
		}
	}
	structure := json.RawMessage(`{"body":{"text":"Hello {{name}}, your order {{order}} is ready since {{day}}. ` + strings.Repeat("More of it. ", 12) + `"}}`)
	for i := range tenants {
		id := fmt.Sprint("t-", i)
		add(events.KindTenant, id, &events.Defined[events.Tenant]{By: "bench", Value: events.Tenant{ID: id, Name: "Tenant " + id, TimeZone: "America/Sao_Paulo", PlanID: "pro"}})
		add(events.KindProject, "p-"+id, &events.Defined[events.Project]{By: "bench", Value: events.Project{ID: "p-" + id, TenantID: id, Name: "Project", ProductionApproved: true, RetentionDays: 30}})
		for n := range keysOfTenant {
			add(events.KindKey, fmt.Sprint("k-", i, "-", n), &events.Defined[events.Key]{By: "bench", Value: events.Key{
				ID: fmt.Sprint("k-", i, "-", n), TenantID: id, ProjectID: "p-" + id, Environment: events.Live, Name: fmt.Sprint("key ", n),
				PublicID: fmt.Sprintf("%07d%d", i, n), SHA256: strings.Repeat("ab", 32), CreatedAt: time.Now(),
			}})
		}
		for n := range templatesOfTenant {
			add(events.KindTemplate, fmt.Sprint("m-", i, "-", n), &events.Defined[events.Template]{By: "bench", Value: events.Template{
				ID: fmt.Sprint("m-", i, "-", n), TenantID: id, ProjectID: "p-" + id, Name: fmt.Sprint("template_", n), Category: events.Utility,
				Versions: []events.TemplateVersion{{Version: 1, Structure: structure, State: events.TemplateApproved, ApprovedForProduction: true}},
			}})
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return w.flush(ctx)
}

// startCatalog reads CONTROL into a catalog of its own.
func startCatalog(ctx context.Context, log *eventlog.Log, tenants int) ([]Figure, error) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	feed, done := control.NewFeed(log, control.Settings{}), make(chan struct{})
	begun, spent := time.Now(), cpuTime()
	go func() {
		defer close(done)
		_ = feed.Run(running) // ends with its context
	}()
	select {
	case <-feed.Ready():
	case <-done:
		return nil, errors.New("read the control plane: the log cannot be read")
	}
	took, cpu, whole := time.Since(begun), cpuTime()-spent, false
	feed.Read(func(c *catalog.Catalog) {
		k, ok := c.KeyByPublicID(fmt.Sprintf("%07d%d", tenants-1, keysOfTenant-1))
		whole = ok && k.TenantID == fmt.Sprint("t-", tenants-1) && len(c.Tenants()) == tenants
	})
	if cancel(); !whole {
		return nil, errors.New("read the control plane: the catalog is not whole")
	}
	<-done
	with, ref := heap(), weak.Make(feed)
	runtime.KeepAlive(feed)
	feed = nil
	// The connection lets go of what read from it only after a while.
	without := with
	if !await.Until(ctx, 30*time.Second, 200*time.Millisecond, func() bool { without = heap(); return ref.Value() == nil }) {
		return nil, errors.New("measure the catalog: it is still held")
	}
	held := (with - min(without, heap())) / (1 << 20)
	return []Figure{{"catalog_start", took.Seconds(), "s"}, {"catalog_start_cpu", cpu.Seconds(), "s"}, {"catalog_memory", held, "MiB"}}, nil
}

// heap is what is held after a collection, in bytes.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
