package receipts

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	Parallel   int           // registrations at once; 8
	Logger     zerolog.Logger
	Metrics    *Metrics
}

// Registrar keeps our webhook registered at the gateway of each instance.
type Registrar struct {
	catalog   Watched
	ingresses Ingresses
	webhooks  Webhooks
	settings  RegistrarSettings
	done      map[string]registration // by instance; owned by Run
}

// registration is what is known of the webhook of an instance.
type registration struct {
	wanted   string // what was, or is to be, registered
	failures int
	next     time.Time
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
		s.Parallel = 8
	}
	if s.Metrics == nil {
		s.Metrics = NewMetrics(nil)
	}
	s.BaseURL = strings.TrimRight(s.BaseURL, "/")
	return &Registrar{catalog: c, ingresses: i, webhooks: w, settings: s, done: map[string]registration{}}
}

// Run registers on start, on each change of an instance, after failures and from time to time, until ctx ends.
func (r *Registrar) Run(ctx context.Context) error {
	changed, stop := r.catalog.Watch()
	defer stop()
	if !await.Closed(ctx, r.catalog.Ready()) {
		return ctx.Err()
	}
	for {
		next := r.round(ctx, time.Now())
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// round registers what is due and gives the time of the next round.
func (r *Registrar) round(ctx context.Context, now time.Time) time.Time {
	var instances []events.Instance
	r.catalog.Read(func(c *catalog.Catalog) { instances = c.Instances() })
	next := now.Add(r.settings.Again)
	known := make(map[string]registration, len(instances))
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, r.settings.Parallel)
	for _, in := range instances {
		last := r.done[in.ID]
		wanted := strings.Join([]string{in.GatewayURL, in.Name, in.IngressHash, string(in.Ingress.Blob), string(in.GatewayKey.Blob)}, "\x00")
		if last.wanted == wanted && now.Before(last.next) {
			mu.Lock()
			known[in.ID] = last
			mu.Unlock()
			continue
		}
		if last.wanted != wanted {
			last = registration{wanted: wanted}
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			last = r.after(last, r.register(ctx, in))
			mu.Lock()
			defer mu.Unlock()
			known[in.ID] = last
		})
	}
	running.Wait()
	r.done = known
	for _, k := range known {
		if k.next.Before(next) {
			next = k.next
		}
	}
	return next
}

// after says when the next try is due.
func (r *Registrar) after(last registration, ok bool) registration {
	if ok {
		r.settings.Metrics.registered.WithLabelValues("done").Inc()
		return registration{wanted: last.wanted, next: time.Now().Add(r.settings.Again)}
	}
	r.settings.Metrics.registered.WithLabelValues("failed").Inc()
	wait := min(r.settings.BackoffMin<<min(last.failures, 20), r.settings.BackoffMax)
	last.failures++
	last.next = time.Now().Add(wait/2 + rand.N(wait/2+1)) //nolint:gosec // spreads load, keeps no secret
	return last
}

func (r *Registrar) register(ctx context.Context, in events.Instance) bool {
	ctx, cancel := context.WithTimeout(ctx, r.settings.CallLimit)
	defer cancel()
	ingress, err := r.ingresses.Ingress(ctx, in)
	if err == nil {
		err = r.webhooks.SetWebhook(ctx, in, evolution.Webhook{
			URL: r.settings.BaseURL + Path + ingress.Token, Headers: map[string]string{SecretHeader: ingress.Secret}, Events: Subscribed(in),
		})
	}
	if err != nil && ctx.Err() == nil {
		r.settings.Logger.Warn().Err(err).Str("instance", in.ID).Msg("webhook was not registered")
	}
	return err == nil
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
