package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/streamtest"
	"pilotstatus.dev/services/control"
)

// Sizes of a large control plane.
const (
	manyTenants   = 10_000
	manyKeys      = 100_000
	manyTemplates = 20_000
)

// BenchmarkCatalog starts a feed on a large CONTROL and tells how long it takes until the catalog is whole, and what the catalog
// holds of memory (docs/architecture.md):
//
//	go test -run '^$' -bench Catalog -benchtime 3x ./control
func BenchmarkCatalog(b *testing.B) {
	r := streamtest.New(b, 1, eventlog.Options{})
	n := 0
	add := func(kind, id string, body any) {
		wire, err := events.Standard.Encode(events.Event{
			Envelope: events.Envelope{ID: fmt.Sprint(kind, "-", id), Type: events.DefinedType(kind), Source: "bench", Time: time.Now()},
			Address:  events.ControlSubject(kind, id), Body: body,
		})
		if err != nil {
			b.Fatal(err)
		}
		delete(wire.Header, events.HeaderMsgID)
		if _, err := r.JetStream.PublishMsgAsync(&nats.Msg{Subject: wire.Subject, Header: wire.Header, Data: wire.Data}); err != nil {
			b.Fatal(err)
		}
		if n++; n%2000 == 0 {
			<-r.JetStream.PublishAsyncComplete()
		}
	}
	for i := range manyTenants {
		id := fmt.Sprint("t-", i)
		add(events.KindTenant, id, &events.Defined[events.Tenant]{By: "bench", Value: events.Tenant{ID: id, Name: "Tenant " + id, TimeZone: "America/Sao_Paulo", PlanID: "pro"}})
		add(events.KindProject, "p-"+id, &events.Defined[events.Project]{By: "bench", Value: events.Project{ID: "p-" + id, TenantID: id, Name: "Project", ProductionApproved: true, RetentionDays: 30}})
	}
	for i := range manyKeys {
		id, tenant := fmt.Sprint("k-", i), fmt.Sprint("t-", i%manyTenants)
		add(events.KindKey, id, &events.Defined[events.Key]{By: "bench", Value: events.Key{
			ID: id, TenantID: tenant, ProjectID: "p-" + tenant, Environment: events.Live, Name: "key " + id, PublicID: fmt.Sprintf("%08d", i),
			SHA256: strings.Repeat("ab", 32), CreatedAt: time.Now(),
		}})
	}
	structure := json.RawMessage(`{"body":{"text":"Hello {{name}}, your order {{order}} is ready since {{day}}. ` + strings.Repeat("More of it. ", 12) + `"}}`)
	for i := range manyTemplates {
		id, tenant := fmt.Sprint("m-", i), fmt.Sprint("t-", i%manyTenants)
		add(events.KindTemplate, id, &events.Defined[events.Template]{By: "bench", Value: events.Template{
			ID: id, TenantID: tenant, ProjectID: "p-" + tenant, Name: "template_" + id, Category: events.Utility,
			Versions: []events.TemplateVersion{{Version: 1, Structure: structure, State: events.TemplateApproved, ApprovedForProduction: true}},
		}})
	}
	<-r.JetStream.PublishAsyncComplete()
	var held, spent float64
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		f, done := control.NewFeed(r.Events, control.Settings{}), make(chan struct{})
		begun := time.Now()
		go func() {
			defer close(done)
			_ = f.Run(ctx) // ends with its context
		}()
		<-f.Ready()
		spent += time.Since(begun).Seconds()
		f.Read(func(c *catalog.Catalog) {
			if got, ok := c.KeyByPublicID("00099999"); !ok || got.TenantID != "t-9999" || len(c.Tenants()) != manyTenants {
				b.Error("the catalog is not whole")
			}
		})
		cancel()
		<-done
		with := heap()
		runtime.KeepAlive(f)
		f = nil
		held += with - heap()
	}
	b.ReportMetric(spent/float64(b.N), "s/start")
	b.ReportMetric(held/float64(b.N)/(1<<20), "MiB/catalog")
}

// heap is what is held after a collection, in bytes.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
