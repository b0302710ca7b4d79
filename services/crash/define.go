package crash

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/apikey"
	"pilotstatus.dev/services/control"
)

const (
	instances = 4
	tenant    = "crash"
	project   = "crash-project"
	endpoint  = "crash-hook"
	simKey    = "sim-key" // of the simulated gateway
)

func instanceID(i int) string { return fmt.Sprintf("crash-%d", i) }

// calls is how many calls an instance may make at once: the second half of them three.
func calls(i int) int {
	if i >= instances/2 {
		return 3
	}
	return 1
}

// allowed gives the calls at once of an instance by its id.
func allowed(instance string) int {
	for i := range instances {
		if instanceID(i) == instance {
			return calls(i)
		}
	}
	return 1
}

// callsInAll is how many calls may be under way at a time, over all instances.
func callsInAll() (n int) {
	for i := range instances {
		n += calls(i)
	}
	return n
}

// define writes the tenant, its endpoint, and unpaced instances with a key each.
func (d *deployment) define(ctx context.Context) error {
	c := d.platform.Control()
	author := control.Author{By: "operator:crash", Reason: "first data"}
	last, err := control.Define(ctx, c.Log, events.KindTenant, tenant, events.Tenant{ID: tenant, Name: tenant}, author, 0)
	if err != nil {
		return fmt.Errorf("define tenant: %w", err)
	}
	if _, err := control.Define(ctx, c.Log, events.KindProject, project, events.Project{
		ID: project, TenantID: tenant, Name: project, ProductionApproved: true, RetentionDays: 30,
	}, author, 0); err != nil {
		return fmt.Errorf("define project: %w", err)
	}
	secret, err := apikey.WebhookSecret(rand.Reader, 32)
	if err != nil {
		return err
	}
	sealed, err := c.Secrets.Seal(ctx, endpoint, []byte(secret))
	if err != nil {
		return err
	}
	d.receiver.Trust(secret)
	if _, err := control.Define(ctx, c.Log, events.KindEndpoint, endpoint, events.Endpoint{
		ID: endpoint, TenantID: tenant, Name: endpoint, URL: d.receiver.URL(), Environment: events.Live, Active: true,
		Events: []string{"*"}, Secrets: []events.Sealed{sealed}, CreatedAt: time.Now().UTC(),
	}, author, 0); err != nil {
		return fmt.Errorf("define endpoint: %w", err)
	}
	key, err := control.Bootstrap(ctx, d.platform.Events(), "crash", false)
	if err != nil {
		return fmt.Errorf("define operator: %w", err)
	}
	d.operator = key.Reveal()
	for i := range instances {
		if last, err = d.defineInstance(ctx, c.Log, c.Secrets, author, i); err != nil {
			return fmt.Errorf("define instance %d: %w", i, err)
		}
	}
	return c.Feed.Await(ctx, last)
}

func (d *deployment) defineInstance(ctx context.Context, log control.Appender, secrets control.Secrets, author control.Author, i int) (uint64, error) {
	id := instanceID(i)
	inst := events.Instance{
		ID: id, TenantID: tenant, Name: id, DisplayName: id, Number: fmt.Sprintf("551190000%04d", i), GatewayURL: d.front.URL(), Concurrency: calls(i), MaxConcurrency: calls(i),
	}
	var err error
	if inst, err = secrets.SealNew(ctx, inst, simKey); err != nil {
		return 0, err
	}
	if _, err := control.Define(ctx, log, events.KindInstance, id, inst, author, 0); err != nil {
		return 0, err
	}
	k, raw, err := control.NewKey(events.Key{ID: "key-" + id, TenantID: tenant, ProjectID: project, Environment: events.Live, Name: id, InstanceID: id})
	if err != nil {
		return 0, err
	}
	d.keys = append(d.keys, raw)
	return control.Define(ctx, log, events.KindKey, k.ID, k, author, 0)
}
