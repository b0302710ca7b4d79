package api

import (
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events/idempotency"
)

// Config settings of the API. A zero field means its default.
type Config struct {
	Version string // of the document; default "1.0.0"
	Log     zerolog.Logger

	BodyLimit     int64         // bytes of a request body; default 64 KiB
	BodyDepth     int           // nesting of a request body; default 32
	BodyTimeout   time.Duration // until a body has arrived; default 5 s
	MaxBehind     time.Duration // of the catalog, above it nothing is accepted; default 5 s
	AcceptTimeout time.Duration // of sealing and appending together; default 20 s, as clients give up after 20-30 s
	ClaimWait     time.Duration // age of a pending claim from which a repeat resolves it; default 10 s
	ClaimReappend time.Duration // age of a pending claim from which it is looked for, not appended; default 9 min
	SettleTimeout time.Duration // of what is written behind an append; default 2 s
	BurstRate     float64       // requests a second that a key may make for long; default 50, below 0 any number
	Burst         int           // requests that a key may make at once after a pause; default 100
	ReadTimeout   time.Duration // of reading the views; default 5 s
	Young         time.Duration // age of an id under which a miss waits for the view; default 10 s
	ViewWait      time.Duration // how long it waits; default 2 s
	NumberTimeout time.Duration // of asking the gateway of a number; default 5 s
	CheckTimeout  time.Duration // of each check of readiness; default 800 ms, since a prober may wait a second
	RetryAfter    time.Duration // told with 503, whole seconds; default 2 s

	// Only leaves the routes of customers (OnlyAdmin) or of operators (OnlyCustomers) out; empty serves both.
	Only Audience
	// AllowLoopback lets endpoints be on this machine and use plain http: for demonstrations and tests.
	AllowLoopback bool
}

// Audience is whom routes are for.
type Audience string

// The audiences that can be served alone, each on a listener of its own.
const (
	OnlyCustomers Audience = "customers"
	OnlyAdmin     Audience = "admin"
)

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if c.Version == "" {
		c.Version = "1.0.0"
	}
	if c.BodyLimit <= 0 {
		c.BodyLimit = 64 << 10
	}
	if c.BodyDepth <= 0 {
		c.BodyDepth = 32
	}
	set(&c.BodyTimeout, 5*time.Second)
	set(&c.MaxBehind, 5*time.Second)
	set(&c.AcceptTimeout, 20*time.Second)
	set(&c.ClaimWait, idempotency.DefaultRules().Wait)
	set(&c.ClaimReappend, idempotency.DefaultRules().Reappend)
	set(&c.SettleTimeout, 2*time.Second)
	if c.BurstRate == 0 {
		c.BurstRate = 50
	}
	if c.Burst <= 0 {
		c.Burst = 100
	}
	set(&c.ReadTimeout, 5*time.Second)
	set(&c.Young, 10*time.Second)
	set(&c.ViewWait, 2*time.Second)
	set(&c.NumberTimeout, 5*time.Second)
	set(&c.CheckTimeout, 800*time.Millisecond)
	set(&c.RetryAfter, 2*time.Second)
	return c
}

// API serves the customer routes, health, and its own documentation. It is safe for concurrent use and starts nothing
// that outlives a request.
type API struct {
	cfg      Config
	ports    Ports
	huma     huma.API
	acceptor *acceptor
	bursts   *bursts
	canceler *canceler
	writer   *writer // nil without Ports.Control
	handler  http.Handler
}

// New builds the API. It panics when a required port is missing: that is a programming error.
func New(cfg Config, ports Ports) *API {
	if ports.Catalog == nil || ports.Log == nil || ports.Keyring == nil || ports.Hasher == nil || ports.AAD == nil ||
		ports.Views == nil || ports.Heads == nil || ports.Records == nil || ports.Fence == nil || ports.Finder == nil ||
		ports.Claims == nil || ports.Recall == nil {
		panic("api: a required port is missing")
	}
	if ports.Now == nil {
		ports.Now = time.Now
	}
	if ports.NewID == nil {
		ports.NewID = func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	}
	a := &API{cfg: cfg.withDefaults(), ports: ports}
	a.bursts = newBursts(max(a.cfg.BurstRate, 0), a.cfg.Burst)
	a.acceptor = &acceptor{
		presence: ports.Presence, quota: ports.Quota,
		catalog: ports.Catalog, log: ports.Log, keyring: ports.Keyring, hasher: ports.Hasher, aad: ports.AAD,
		now: ports.Now, newID: ports.NewID, maxBehind: a.cfg.MaxBehind, maxDepth: a.cfg.BodyDepth, timeout: a.cfg.AcceptTimeout,
		repeats: repeats{
			claims: ports.Claims, recall: ports.Recall, finder: ports.Finder, settle: a.cfg.SettleTimeout,
			rules: idempotency.Rules{Wait: a.cfg.ClaimWait, Reappend: a.cfg.ClaimReappend},
		},
	}
	a.acceptor.loads = ports.Loads
	a.canceler = &canceler{
		catalog: ports.Catalog, records: ports.Records, fence: ports.Fence, finder: ports.Finder, views: ports.Views, catchUp: a.catchUp,
		now: ports.Now, newID: ports.NewID, log: a.cfg.Log, timeout: a.cfg.AcceptTimeout, wait: a.cfg.ViewWait,
		readers: make(chan struct{}, cancelParallel),
	}
	mux := http.NewServeMux()
	a.huma = humago.New(mux, document(a.cfg))
	a.huma.UseMiddleware(a.authenticate, a.limitBurst, a.plainBody)
	if ports.Control != nil {
		a.writer = newWriter(ports.Control, ports.Catalog, a.cfg.AcceptTimeout, a.cfg.MaxBehind)
	}
	if a.cfg.Only != OnlyAdmin {
		a.registerReads()
		a.registerSend()
		a.registerBatch()
		a.registerMessage()
		a.registerOptIn()
		a.registerCancel()
		if a.writer != nil {
			a.registerCustomers()
		}
		addWebhooks(a.huma.OpenAPI())
	}
	if a.writer != nil && a.cfg.Only != OnlyCustomers {
		a.registerAdmin()
	}
	a.registerHealth()
	documentLimits(a.huma.OpenAPI())
	a.serveDocs(mux)

	h := normalize(routed(mux))
	h = recoverPanics(a.cfg.Log, h)
	h = secure(h)
	h = limited(h)
	a.handler = identify(&a.cfg, ports.NewID, h)
	return a
}

// ServeHTTP serves one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }
