package receipts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/failpoint"
	"pilotstatus.dev/services/control"
)

// SecretHeader carries the secret that a gateway must present beside the path token.
const SecretHeader = "X-Pilot-Secret"

// Path is where gateways post, followed by the path token of an instance.
const Path = "/receipts/"

// Catalog is the control plane as this process knows it.
type Catalog interface {
	Read(use func(*catalog.Catalog))
	Current() error
}

// Ingresses opens what the catalog keeps sealed about the webhook of an instance.
type Ingresses interface {
	Ingress(ctx context.Context, in events.Instance) (control.Ingress, error)
}

// Hasher gives the keyed hash under which something personal may be stored.
type Hasher interface {
	Hash(ctx context.Context, tenant, purpose string, data []byte) (string, error)
}

// PurposeJID separates hashes of jids from all others.
const PurposeJID = "jid"

// Appender stores events outside the fenced group.
type Appender interface {
	Append(ctx context.Context, ev events.Event) (eventlog.Ack, error)
}

// IngestSettings tune an Ingest. Zero values take the defaults.
type IngestSettings struct {
	MaxBody     int64         // bytes of a webhook that are read; 1 MiB
	AppendLimit time.Duration // for storing one webhook, of the 30 s a gateway waits; 10 s
	RetryAfter  time.Duration // told to the gateway when nothing was stored; 5 s
	// Control records the opt-ins that contacts write to the shared number; nil records none.
	Control control.Appender
	// CatchUp waits until the catalog has all that CONTROL holds: a gateway may know of a new secret before this process does. nil: the
	// catalog always has.
	CatchUp func(ctx context.Context) error
	Logger  zerolog.Logger
	Metrics *Metrics
}

// Ingest is the handler of gateways' webhooks, for POST /receipts/{token} and POST /receipts/{token}/{event}.
//
// It answers 404 to an unknown token, 401 to a wrong secret, 503 while it cannot look up or store, and 2xx to everything else:
// a gateway that hears any other 4xx gives the event up for good.
type Ingest struct {
	mux       *http.ServeMux
	catalog   Catalog
	ingresses Ingresses
	hasher    Hasher
	log       Appender
	settings  IngestSettings
}

// NewIngest makes the handler.
func NewIngest(c Catalog, i Ingresses, h Hasher, log Appender, s IngestSettings) *Ingest {
	if s.MaxBody <= 0 {
		s.MaxBody = 1 << 20
	}
	if s.AppendLimit <= 0 {
		s.AppendLimit = 10 * time.Second
	}
	if s.RetryAfter <= 0 {
		s.RetryAfter = 5 * time.Second
	}
	if s.Metrics == nil {
		s.Metrics = NewMetrics(nil)
	}
	in := &Ingest{mux: http.NewServeMux(), catalog: c, ingresses: i, hasher: h, log: log, settings: s}
	in.mux.HandleFunc("POST "+Path+"{token}", in.receive)
	in.mux.HandleFunc("POST "+Path+"{token}/{event}", in.receive)
	return in
}

// ServeHTTP implements http.Handler.
func (in *Ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) { in.mux.ServeHTTP(w, r) }

func (in *Ingest) receive(w http.ResponseWriter, r *http.Request) {
	received := time.Now().UTC()
	ctx, cancel := context.WithTimeout(r.Context(), in.settings.AppendLimit)
	defer cancel()
	instance, partitions, known := in.instance(r.PathValue("token"))
	if !known {
		if err := in.catalog.Current(); err != nil {
			in.unavailable(w, "", err)
			return
		}
		in.answer(w, http.StatusNotFound, "unknown")
		return
	}
	admitted, err := in.admits(ctx, instance, r)
	if err != nil {
		in.unavailable(w, instance.ID, err)
		return
	}
	if !admitted {
		in.answer(w, http.StatusUnauthorized, "forged")
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, in.settings.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		in.answer(w, http.StatusOK, "oversize")
		return
	}
	if err != nil {
		in.unavailable(w, instance.ID, fmt.Errorf("read webhook: %w", err))
		return
	}
	result, err := in.optIn(ctx, instance, raw, received)
	if result == "" && err == nil {
		result, err = in.store(ctx, instance, events.PartitionOf(instance.ID, partitions), raw, received)
	}
	if err != nil {
		in.unavailable(w, instance.ID, err)
		return
	}
	failpoint.Hit("ingest.before_answer")
	in.answer(w, http.StatusOK, result)
}

// admits reports whether the secret is right. A wrong one is told so only by all that CONTROL holds: who hears 401 gives the event up.
func (in *Ingest) admits(ctx context.Context, instance events.Instance, r *http.Request) (bool, error) {
	secret := r.Header.Get(SecretHeader)
	secrets, err := in.ingresses.Ingress(ctx, instance)
	if err != nil || secrets.Admits(secret) || in.settings.CatchUp == nil {
		return err == nil && secrets.Admits(secret), err
	}
	if err := in.settings.CatchUp(ctx); err != nil {
		return false, fmt.Errorf("look for a new secret: %w", err)
	}
	now, _, known := in.instance(r.PathValue("token"))
	if !known {
		return false, nil
	}
	secrets, err = in.ingresses.Ingress(ctx, now)
	return err == nil && secrets.Admits(secret), err
}

// instance finds whose path token it is. Only its hash is known, so the look-up takes the same time for any token.
func (in *Ingest) instance(token string) (found events.Instance, partitions int, ok bool) {
	hash := control.HashToken(token)
	in.catalog.Read(func(c *catalog.Catalog) {
		found, ok = c.InstanceByIngress(hash)
		partitions = c.Deployment.Partitions
	})
	return found, partitions, ok && partitions > 0
}

// store appends what a webhook says; the same webhook again is stored once.
func (in *Ingest) store(ctx context.Context, instance events.Instance, p events.Partition, raw []byte, received time.Time) (string, error) {
	observations, kind := Observe(raw)
	switch {
	case kind == KindUnreadable:
		return "unreadable", nil
	case len(observations) == 0:
		return "ignored", nil
	}
	result := "duplicate"
	for i, o := range observations {
		body := o.Body
		body.ReceivedAt = received
		if o.JID != "" {
			hash, err := in.hasher.Hash(ctx, instance.TenantID, PurposeJID, []byte(o.JID))
			if err != nil {
				return "", fmt.Errorf("hash jid: %w", err)
			}
			body.JIDHash = hash
		}
		ack, err := in.log.Append(ctx, events.Event{
			Envelope: events.Envelope{ID: observationID(instance.ID, body, raw, i), Type: events.TypeGatewayObserved, Source: "pilot/ingest", Time: received},
			Address:  events.ReceiptSubject(p, instance.ID, body.Event),
			Body:     &body,
		})
		if err != nil {
			return "", fmt.Errorf("store observation: %w", err)
		}
		if !ack.Duplicate {
			result = "kept"
		}
	}
	return result, nil
}

// observationID is the same for every retry of one webhook by the gateway.
func observationID(instance string, o events.GatewayObserved, raw []byte, index int) string {
	body := sha256.Sum256(raw)
	sum := sha256.Sum256([]byte(strings.Join([]string{
		instance, o.Event, o.KeyID, o.Status, o.State, o.At.Format(time.RFC3339Nano), hex.EncodeToString(body[:]), strconv.Itoa(index),
	}, "|")))
	return "obs-" + hex.EncodeToString(sum[:16])
}

func (in *Ingest) answer(w http.ResponseWriter, status int, result string) {
	in.settings.Metrics.ingested.WithLabelValues(result).Inc()
	w.WriteHeader(status)
}

func (in *Ingest) unavailable(w http.ResponseWriter, instance string, err error) {
	in.settings.Logger.Warn().Err(err).Str("instance", instance).Msg("webhook of a gateway was not stored")
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(in.settings.RetryAfter.Seconds()))))
	in.answer(w, http.StatusServiceUnavailable, "unavailable")
}
