package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// Caller is who a valid API key stands for, and what it sends with.
type Caller struct {
	Key     events.Key
	Project events.Project
}

// Scope is what the caller may see.
func (c Caller) Scope() Scope {
	return Scope{Tenant: c.Key.TenantID, Project: c.Key.ProjectID, Environment: c.Key.Environment}
}

// retentionDays of what the caller sends: the key's own, else the project's.
func (c Caller) retentionDays() int {
	if c.Key.RetentionDays != nil {
		return *c.Key.RetentionDays
	}
	return c.Project.RetentionDays
}

type callerKey struct{}

const (
	schemeName = "apiKey"
	headerName = "x-api-key"

	idSchemeName = "apiKeyId"
	idHeaderName = "x-api-key-id"

	publicLength = 8
	maxKeyLength = 200
)

// authenticate enforces what an operation declares: the document and the enforcement cannot drift.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	if len(ctx.Operation().Security) == 0 {
		next(ctx)
		return
	}
	ctx, err := a.admit(ctx, credentialsOf(ctx))
	if err != nil {
		_ = huma.WriteErr(a.huma, ctx, 0, "", err) // the caller went away
		return
	}
	next(ctx)
}

// credentials are what a request presents.
type credentials struct {
	raw string // API key
	id  string // secret id of one; empty when there is the header of a key
}

// credentialsOf reads the headers. Of a header that is there twice nothing is taken: which one is meant would be a guess.
func credentialsOf(ctx huma.Context) credentials {
	var raw, ids []string
	ctx.EachHeader(func(name, value string) {
		switch {
		case strings.EqualFold(name, headerName):
			raw = append(raw, value)
		case strings.EqualFold(name, idHeaderName):
			ids = append(ids, value)
		}
	})
	switch {
	case len(raw) == 1:
		return credentials{raw: raw[0]}
	case len(raw) == 0 && len(ids) == 1:
		return credentials{id: ids[0]}
	default:
		return credentials{}
	}
}

// admit finds who credentials stand for, of those the operation is for, and whether it has the operation's scopes.
func (a *API) admit(ctx huma.Context, given credentials) (huma.Context, error) {
	if scopes, of := needs(ctx, operatorScheme); of {
		o, err := a.operator(given.raw)
		if err != nil {
			return ctx, err
		}
		return huma.WithValue(ctx, operatorKey{}, o), scoped(scopes, func(s string) bool { return slices.Contains(o.Scopes, s) })
	}
	caller, err := a.caller(given)
	if err != nil {
		return ctx, err
	}
	scopes, _ := needs(ctx, schemeName)
	return huma.WithValue(ctx, callerKey{}, caller), scoped(scopes, caller.Key.May)
}

// needs gives the scopes that the operation of a request declares under a scheme.
func needs(ctx huma.Context, scheme string) (scopes []string, declared bool) {
	for _, s := range ctx.Operation().Security {
		if scopes, declared = s[scheme]; declared {
			return scopes, true
		}
	}
	return nil, false
}

func scoped(scopes []string, may func(string) bool) error {
	for _, s := range scopes {
		if !may(s) {
			return events.Errorf(CodeInsufficientScope, "The key lacks the scope %s.", s).WithDetails("scope", s)
		}
	}
	return nil
}

// caller finds whom credentials stand for.
func (a *API) caller(given credentials) (Caller, error) {
	digest := sha256.Sum256([]byte(given.raw))
	var c Caller
	var tenant events.Tenant
	known := false
	a.ports.Catalog.Read(func(cat *catalog.Catalog) {
		if given.id != "" {
			c.Key, known = findByID(cat, given.id)
		} else {
			c.Key, known = findKey(cat, given.raw, digest)
		}
		if !known {
			return
		}
		var hasTenant, hasProject bool
		tenant, hasTenant = cat.Tenant(c.Key.TenantID)
		c.Project, hasProject = cat.Project(c.Key.ProjectID)
		known = hasTenant && hasProject && c.Project.TenantID == c.Key.TenantID
	})
	switch {
	case !known && given != (credentials{}) && a.ports.Catalog.Behind() > a.cfg.MaxBehind:
		// The key may be one that this process has not heard of yet.
		return Caller{}, unavailable(nil, "Keys cannot be checked right now.")
	case !known, revoked(c.Key, a.ports.Now()):
		return Caller{}, events.Errorf(events.CodeUnauthorized, "The header x-api-key must hold a valid API key.")
	case tenant.Suspended:
		return Caller{}, events.Errorf(CodeTenantSuspended, "This account is suspended.")
	}
	return c, nil
}

func revoked(k events.Key, now time.Time) bool {
	return !k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}

// findKey looks a raw key up by its public id and compares the digest of the whole key in constant time. A miss costs
// the same comparison.
func findKey(cat *catalog.Catalog, raw string, digest [sha256.Size]byte) (events.Key, bool) {
	if len(raw) > maxKeyLength {
		raw = ""
	}
	for _, public := range publicIDs(raw, digest) {
		k, ok := cat.KeyByPublicID(public)
		want, err := hex.DecodeString(k.SHA256)
		if !ok || err != nil || len(want) != sha256.Size {
			want, ok = make([]byte, sha256.Size), false
		}
		if subtle.ConstantTimeCompare(want, digest[:]) == 1 && ok {
			return k, true
		}
	}
	return events.Key{}, false
}

// findByID looks a secret id up by its digest: the time of that tells nothing of the ids that there are.
func findByID(cat *catalog.Catalog, id string) (events.Key, bool) {
	if len(id) < minSecretID || len(id) > maxKeyLength {
		return events.Key{}, false
	}
	digest := sha256.Sum256([]byte(id))
	return cat.KeyBySecretID(hex.EncodeToString(digest[:]))
}

// minSecretID is the fewest characters that hold 128 bits as hex digits; ids made here have as many, imported ones may be longer.
const minSecretID = 32

// publicIDs gives the ids under which a raw key may be known. They are two for every key, so that the time tells nothing.
func publicIDs(raw string, digest [sha256.Size]byte) [2]string {
	ids := [2]string{1: hex.EncodeToString(digest[:publicLength/2])}
	for _, prefix := range []string{"ps_live_", "ps_test_"} {
		if rest, ok := strings.CutPrefix(raw, prefix); ok && len(rest) >= publicLength {
			ids[0] = rest[:publicLength]
		}
	}
	return ids
}

// ImportedPublicID is the public id to record for a key of the old system whose raw form carries none ("ps_…"): the
// first eight hex digits of the key's SHA-256.
func ImportedPublicID(raw string) string {
	return publicIDs("", sha256.Sum256([]byte(raw)))[1]
}
