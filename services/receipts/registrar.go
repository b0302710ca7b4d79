package receipts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/services/control"
)

// Subscribed are the gateway's events that we want of an instance. SEND_MESSAGE is none of them: it repeats texts and tells nothing
// new. What contacts write is wanted of the shared number only, for their opt-ins.
func Subscribed(in events.Instance) []string {
	wanted := []string{"MESSAGES_UPDATE", "CONNECTION_UPDATE", "STATUS_INSTANCE", "LOGOUT_INSTANCE"}
	if in.Shared {
		wanted = append(wanted, "MESSAGES_UPSERT")
	}
	return wanted
}

// Webhooks sets the webhook of an instance at its gateway.
type Webhooks interface {
	SetWebhook(ctx context.Context, in events.Instance, w evolution.Webhook) error
}

// Watched is a catalog that tells of its changes.
type Watched interface {
	Read(use func(*catalog.Catalog))
	Watch() (changed <-chan struct{}, stop func())
	Ready() <-chan struct{}
}

// RegistrarSettings tune a Registrar. Zero values take the defaults; BaseURL has none.
type RegistrarSettings struct {
	BaseURL    string        // where gateways reach the ingest, e.g. "https://in.example"; Path and token are appended
	Again      time.Duration // a registration is repeated after: a gateway set up anew has lost it; 1 h
	BackoffMin time.Duration // wait after a failure, doubled by each further one, half of it random; 1 s
	BackoffMax time.Duration // 1 min
	CallLimit  time.Duration // for one registration; 15 s
	Parallel   int           // registrations at once, at most 8 at one gateway; 32
	// Control records that a gateway was told of a new secret; nil records nothing, and no secret is retired without force.
	Control control.Appender
	Logger  zerolog.Logger
	Metrics *Metrics
}

// Registrar keeps our webhook registered at the gateway of each instance.
type Registrar struct {
	catalog   Watched
	ingresses Ingresses
	webhooks  Webhooks
	settings  RegistrarSettings
}

// NewRegistrar makes a registrar.
func NewRegistrar(c Watched, i Ingresses, w Webhooks, s RegistrarSettings) *Registrar {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&s.Again, time.Hour}, {&s.BackoffMin, time.Second}, {&s.BackoffMax, time.Minute}, {&s.CallLimit, 15 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if s.Parallel <= 0 {
		s.Parallel = 32
	}
	if s.Metrics == nil {
		s.Metrics = NewMetrics(nil)
	}
	s.BaseURL = strings.TrimRight(s.BaseURL, "/")
	return &Registrar{catalog: c, ingresses: i, webhooks: w, settings: s}
}

// Run registers on start, on each change of an instance, after failures and from time to time, until ctx ends. Nothing waits for a call at
// another gateway.
func (r *Registrar) Run(ctx context.Context) error {
	changed, stop := r.catalog.Watch()
	defer stop()
	if !await.Closed(ctx, r.catalog.Ready()) {
		return ctx.Err()
	}
	results := make(chan result, r.settings.Parallel)
	var running sync.WaitGroup
	defer running.Wait()
	known := newRegistrations(r.settings)
	r.look(known)
	for {
		now := time.Now()
		for in, ok := known.take(now); ok; in, ok = known.take(now) {
			running.Go(func() { results <- r.register(ctx, in) })
		}
		timer := time.NewTimer(known.wake(now).Sub(now))
		select {
		case <-timer.C:
		case <-changed:
			r.look(known)
		case res := <-results:
			known.done(res, time.Now())
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (r *Registrar) look(known *registrations) {
	var instances []events.Instance
	r.catalog.Read(func(c *catalog.Catalog) { instances = c.Instances() })
	known.look(instances)
}

func (r *Registrar) register(ctx context.Context, in events.Instance) result {
	bounded, cancel := context.WithTimeout(ctx, r.settings.CallLimit)
	defer cancel()
	ingress, err := r.ingresses.Ingress(bounded, in)
	if err == nil {
		err = r.webhooks.SetWebhook(bounded, in, evolution.Webhook{
			URL: r.settings.BaseURL + Path + ingress.Token, Headers: map[string]string{SecretHeader: ingress.Secret}, Events: Subscribed(in),
		})
	}
	if err == nil && ingress.Previous != "" {
		err = r.told(bounded, in)
	}
	switch {
	case err == nil:
		r.settings.Metrics.registered.WithLabelValues("done").Inc()
	case ctx.Err() == nil:
		r.settings.Metrics.registered.WithLabelValues("failed").Inc()
		r.settings.Logger.Warn().Err(err).Str("instance", in.ID).Msg("webhook was not registered")
	}
	return result{instance: in, err: err, gateway: ofGateway(err)}
}

// told records, once after a rotation, that the gateway presents the new secret: the one before may be retired some time after that.
func (r *Registrar) told(ctx context.Context, in events.Instance) error {
	var known events.Instance
	var version uint64
	var there bool
	r.catalog.Read(func(c *catalog.Catalog) {
		known, there = c.Instance(in.ID)
		version = c.Version(events.KindInstance, in.ID)
	})
	if _, recorded := known.PreviousUnused(); r.settings.Control == nil || !there || recorded || known.IngressDigest() != in.IngressDigest() {
		return nil
	}
	known.IngressTold = &events.IngressTold{Digest: known.IngressDigest(), At: time.Now().UTC().Truncate(time.Millisecond)}
	if _, err := control.Define(ctx, r.settings.Control, events.KindInstance, known.ID, known,
		control.Author{By: "registrar", Reason: "the gateway was told of the new ingress secret"}, version); err != nil {
		return fmt.Errorf("record that the gateway was told: %w", err)
	}
	return nil
}

// ofGateway reports whether a failure holds for all instances of the gateway: it gave no answer, or one that is not about the instance.
func ofGateway(err error) bool {
	if f := (*evolution.Failure)(nil); errors.As(err, &f) {
		return f.Status == 0 || f.Status > http.StatusInternalServerError || f.Verdict.Scope == evolution.ScopeGateway
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// Gateways reaches the gateway of an instance with the key that CONTROL keeps sealed.
type Gateways struct {
	Secrets control.Secrets
	Config  evolution.Config // limits and dialer; BaseURL and APIKey are those of the instance
}

// SetWebhook implements Webhooks.
func (g Gateways) SetWebhook(ctx context.Context, in events.Instance, w evolution.Webhook) error {
	client, err := g.client(ctx, in)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.SetWebhook(ctx, in.Name, w); err != nil {
		return fmt.Errorf("register webhook: %w", err)
	}
	return nil
}
