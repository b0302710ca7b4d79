package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/apicall"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/control"
)

const (
	tenant  = "bench"
	project = "bench-project"
	tplName = "bench-template"
)

// rig is the deployment that is measured, its gateway, and a key per instance.
type rig struct {
	cfg    app.Config
	log    zerolog.Logger
	sim    *evolutionsim.Server
	app    *app.App
	keys   []string
	client *http.Client
	set    bool
	n      int

	accepted int64 // while nothing was dispatched
	ruled    bool  // requests carry a key of their own
	otp      int   // OTPs sent so far
}

func newRig(ctx context.Context, dir string, s Settings, log zerolog.Logger) (*rig, error) {
	cfg, err := app.Defaults()
	if err != nil {
		return nil, err
	}
	cfg.Local(dir)
	opts := evolutionsim.Options{
		SendTime: s.SendTime,
		Receipts: evolutionsim.Receipts{ServerAck: evolutionsim.Never, DeliveryAck: 0, Read: evolutionsim.Never},
	}
	for i := range s.Instances {
		opts.Instances = append(opts.Instances, evolutionsim.Instance{Name: instanceID(i), Number: fmt.Sprintf("551190000%04d", i), State: "open"})
	}
	sim, err := evolutionsim.Start(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("start simulated gateway: %w", err)
	}
	return &rig{
		cfg: cfg, log: log, sim: sim, n: s.Instances,
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4 * s.Clients}},
	}, nil
}

func instanceID(i int) string { return fmt.Sprintf("bench-%d", i) }

func (r *rig) start(ctx context.Context, roles ...app.Role) error {
	a, err := app.Start(ctx, r.cfg, roles, r.log)
	if err != nil {
		return err
	}
	r.app = a
	if r.set {
		return nil
	}
	r.set = true
	return r.define(ctx)
}

func (r *rig) stop(ctx context.Context) error {
	if r.app == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.StopWithin)
	defer cancel()
	err := r.app.Stop(bounded)
	r.app = nil
	return err
}

func (r *rig) close(ctx context.Context) {
	if err := r.stop(ctx); err != nil {
		r.log.Error().Err(err).Msg("stop")
	}
	r.client.CloseIdleConnections()
	r.sim.Close()
}

// define writes the tenant, a template, and an unpaced instance with a key of its own, as often as asked.
func (r *rig) define(ctx context.Context) error {
	c := r.app.Control()
	author := control.Author{By: "operator:bench"}
	var last uint64
	var err error
	set := func(seq uint64, e error) {
		last, err = max(last, seq), errors.Join(err, e)
	}
	set(control.Define(ctx, c.Log, events.KindTenant, tenant, events.Tenant{ID: tenant, Name: tenant}, author, 0))
	set(control.Define(ctx, c.Log, events.KindProject, project, events.Project{
		ID: project, TenantID: tenant, Name: project, ProductionApproved: true, RetentionDays: 30,
	}, author, 0))
	set(control.Define(ctx, c.Log, events.KindTemplate, tplName, events.Template{
		ID: tplName, TenantID: tenant, ProjectID: project, Name: tplName, Category: events.Utility,
		Versions: []events.TemplateVersion{{
			Version: 1, Structure: json.RawMessage(`{"body":{"text":"Order {{n}} is on its way to you."}}`),
			State: events.TemplateApproved, ApprovedForProduction: true,
		}},
	}, author, 0))
	for i := range r.n {
		if err != nil {
			return fmt.Errorf("define: %w", err)
		}
		id := instanceID(i)
		inst := events.Instance{
			ID: id, TenantID: tenant, Name: id, DisplayName: id, GatewayURL: r.sim.URL(), Concurrency: 1, MaxConcurrency: 1,
		}
		if inst, err = c.Secrets.SealNew(ctx, inst, r.sim.APIKey()); err != nil {
			return err
		}
		set(control.Define(ctx, c.Log, events.KindInstance, id, inst, author, 0))
		k, raw, e := control.NewKey(events.Key{ID: "key-" + id, TenantID: tenant, ProjectID: project, Environment: events.Live, Name: id, InstanceID: id})
		if e != nil {
			return e
		}
		set(control.Define(ctx, c.Log, events.KindKey, k.ID, k, author, 0))
		r.keys = append(r.keys, raw)
	}
	if err != nil {
		return fmt.Errorf("define: %w", err)
	}
	return c.Feed.Await(ctx, last)
}

// rules gives every rule of a send something to look at: a plan with limits of the month and the day, a limit of each recipient, opt-ins
// asked for, and with them an Idempotency-Key in each request. None of them refuses.
func (r *rig) rules(ctx context.Context) error {
	const plenty = 1 << 30
	c := r.app.Control()
	author := control.Author{By: "operator:bench"}
	version := uint64(0)
	c.Feed.Read(func(cat *catalog.Catalog) { version = cat.Version(events.KindTenant, tenant) })
	_, err := control.Define(ctx, c.Log, events.KindPlan, "plenty", events.Plan{ID: "plenty", Month: plenty, Day: plenty}, author, 0)
	if err == nil {
		_, err = control.Define(ctx, c.Log, events.KindPlatform, events.PlatformID, events.Platform{OptInRequired: true, RecipientLimit: plenty}, author, 0)
	}
	var last uint64
	if err == nil {
		last, err = control.Define(ctx, c.Log, events.KindTenant, tenant, events.Tenant{ID: tenant, Name: tenant, PlanID: "plenty"}, author, version)
	}
	if err != nil {
		return fmt.Errorf("define rules: %w", err)
	}
	r.ruled = true
	return c.Feed.Await(ctx, last)
}

// post sends one message from an instance.
func (r *rig) post(ctx context.Context, instance, n int) error {
	var header []string
	if r.ruled {
		header = []string{"Idempotency-Key", fmt.Sprintf("bench-%d", n)}
	}
	return r.send(ctx, r.keys[instance], map[string]any{"templateId": tplName}, n, header...)
}

// send sends message n, to a recipient and with a text of its number; more says what is sent.
func (r *rig) send(ctx context.Context, key string, more map[string]any, n int, header ...string) error {
	body := map[string]any{"destinationNumber": fmt.Sprintf("+55119%08d", 70000000+n%20), "variables": map[string]string{"n": fmt.Sprint(n)}}
	maps.Copy(body, more)
	status, raw, err := apicall.Do(ctx, r.client, http.MethodPost, r.app.URLs().API+"/v1/messages/send", key, body, header...)
	if err != nil {
		return err
	}
	if status != http.StatusAccepted {
		return fmt.Errorf("send answered %d: %s", status, raw)
	}
	return nil
}
