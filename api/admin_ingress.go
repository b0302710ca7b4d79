package api

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
)

// IngressOrder is how a secret is rotated or retired.
type IngressOrder struct {
	Force bool `json:"force,omitempty" doc:"Do it although the gateway may still present the secret before: what it hands in with it is lost."`
}

// ingressInput has a body that may be left out.
type ingressInput struct {
	Reasoned
	ID      string `path:"id" maxLength:"64"`
	IfMatch string `header:"If-Match" doc:"Refuses the action when the entity has another version."`
	Body    *IngressOrder
}

const aboutIngress = " The secret before is admitted beside the newest one. What presents another is answered 401, and a gateway gives that up for good." +
	" So a secret before is ended, by either of the two, only 30 minutes after the gateway was told of the newest one: what it tries again presents" +
	" the secret that it had first. Until then: 409 INGRESS_SECRET_IN_USE, with retireFrom once the gateway was told; force ends it all the same, for a secret that leaked."

// registerAdminIngress registers the rotation of what the gateway of an instance must present to hand in receipts. Nobody needs to see it:
// it is set at the gateway by itself.
func (a *API) registerAdminIngress() {
	n := a.instances()
	for verb, c := range map[string]struct {
		about string
		next  func(events.IngressSecret) events.IngressSecret
	}{
		"rotate": {
			" A new secret is set at the gateway within seconds, or as soon as it answers.",
			func(s events.IngressSecret) events.IngressSecret {
				return events.IngressSecret{Token: s.Token, Secret: secretText(), Previous: s.Secret}
			},
		},
		"retire": {
			" Only the newest secret is admitted from now on.",
			func(s events.IngressSecret) events.IngressSecret {
				return events.IngressSecret{Token: s.Token, Secret: s.Secret}
			},
		},
	} {
		op := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/"+verb+"-ingress-secret", verb, n.name+"IngressSecret", n.path, n.scope,
			events.CodeNotFound, CodePreconditionFailed, CodeIngressInUse)
		op.Description += c.about + aboutIngress
		huma.Register(a.huma, op, func(ctx context.Context, in *ingressInput) (*entityOutput[InstanceView], error) {
			was, _, found := findEntity(a.ports.Catalog, n.entity, in.ID)
			if !found {
				return nil, errNoEntity()
			}
			sealed, inUse, err := a.resealIngress(ctx, was, c.next)
			if err != nil {
				return nil, err
			}
			return act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(i events.Instance) (events.Instance, error) {
				switch {
				case !bytes.Equal(i.Ingress.Blob, was.Ingress.Blob):
					return i, events.Errorf(events.CodeConflict, "Somebody else is changing the secret; nothing was changed.")
				case inUse && (in.Body == nil || !in.Body.Force):
					if err := unusedIngress(i, a.ports.Now()); err != nil {
						return i, err
					}
				}
				i.Ingress, i.IngressHash = sealed.Ingress, sealed.IngressHash
				return i, nil
			})
		})
	}
}

// unusedIngress refuses to end the secret before the last rotation while the gateway may present it.
func unusedIngress(i events.Instance, now time.Time) error {
	from, told := i.PreviousUnused()
	switch {
	case !told:
		return events.Errorf(CodeIngressInUse, "The gateway was not told of the newest secret yet; nothing was changed.").WithDetails("forceable", true)
	case now.Before(from):
		return events.Errorf(CodeIngressInUse, "The gateway may still try again what it began with the secret before; nothing was changed.").
			WithDetails("forceable", true).WithDetails("retireFrom", stamp(from))
	}
	return nil
}

// resealIngress seals what next makes of what the gateway of an instance must present, and reports whether that ends a secret before it.
func (a *API) resealIngress(ctx context.Context, in events.Instance, next func(events.IngressSecret) events.IngressSecret) (_ events.Instance, ends bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	secret, err := a.ports.Secrets.Ingress(ctx, in)
	if err == nil {
		in, err = a.ports.Secrets.SealIngress(ctx, in, next(secret))
	}
	if err != nil {
		return in, false, outage(err, "Nothing was changed; try again.")
	}
	return in, secret.Previous != "", nil
}
