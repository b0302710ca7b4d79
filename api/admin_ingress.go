package api

import (
	"bytes"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
)

// registerAdminIngress registers the rotation of what the gateway of an instance must present to hand in receipts. Nobody needs to see it:
// it is set at the gateway by itself.
func (a *API) registerAdminIngress() {
	n := a.instances()
	for verb, c := range map[string]struct {
		about string
		next  func(events.IngressSecret) events.IngressSecret
	}{
		"rotate": {
			" A new secret is set at the gateway within seconds; the one before is admitted too until retire-ingress-secret is called.",
			func(s events.IngressSecret) events.IngressSecret {
				return events.IngressSecret{Token: s.Token, Secret: secretText(), Previous: s.Secret}
			},
		},
		"retire": {
			" Only the newest secret is admitted from now on. A gateway that was not told of it is answered 401, and repeats.",
			func(s events.IngressSecret) events.IngressSecret {
				return events.IngressSecret{Token: s.Token, Secret: s.Secret}
			},
		},
	} {
		op := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/"+verb+"-ingress-secret", verb, n.name+"IngressSecret", n.path, n.scope,
			events.CodeNotFound, CodePreconditionFailed)
		op.Description += c.about
		huma.Register(a.huma, op, func(ctx context.Context, in *bareInput) (*entityOutput[InstanceView], error) {
			was, _, found := findEntity(a.ports.Catalog, n.entity, in.ID)
			if !found {
				return nil, errNoEntity()
			}
			sealed, err := a.resealIngress(ctx, was, c.next)
			if err != nil {
				return nil, err
			}
			return act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(i events.Instance) (events.Instance, error) {
				if !bytes.Equal(i.Ingress.Blob, was.Ingress.Blob) {
					return i, events.Errorf(events.CodeConflict, "Somebody else is changing the secret; nothing was changed.")
				}
				i.Ingress, i.IngressHash = sealed.Ingress, sealed.IngressHash
				return i, nil
			})
		})
	}
}

// resealIngress seals what next makes of what the gateway of an instance must present.
func (a *API) resealIngress(ctx context.Context, in events.Instance, next func(events.IngressSecret) events.IngressSecret) (events.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	secret, err := a.ports.Secrets.Ingress(ctx, in)
	if err == nil {
		in, err = a.ports.Secrets.SealIngress(ctx, in, next(secret))
	}
	if err != nil {
		return in, outage(err, "Nothing was changed; try again.")
	}
	return in, nil
}
