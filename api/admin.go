package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/template"
)

const (
	adminPrefix        = "/v1/admin/"
	operatorScheme     = "operatorKey"
	operatorPrefix     = "ps_oper_"
	descriptionOfAdmin = "Of operators. Unknown fields are refused. Every change is an event with its author and reason (header X-Reason)."
)

type operatorKey struct{}

// operator finds whose operator's key a raw key is. With a catalog that may lack a revocation nobody is one.
func (a *API) operator(raw string) (events.Operator, error) {
	if a.ports.Catalog.Behind() > a.cfg.MaxBehind {
		return events.Operator{}, unavailable(nil, "Keys cannot be checked right now.")
	}
	digest := sha256.Sum256([]byte(raw))
	public := ""
	if rest, ok := strings.CutPrefix(raw, operatorPrefix); ok && len(rest) >= publicLength && len(raw) <= maxKeyLength {
		public = rest[:publicLength]
	}
	var o events.Operator
	known := false
	a.ports.Catalog.Read(func(c *catalog.Catalog) { o, known = c.OperatorByPublicID(public) })
	want, err := hex.DecodeString(o.SHA256)
	if err != nil || len(want) != sha256.Size {
		want, known = make([]byte, sha256.Size), false
	}
	now := a.ports.Now()
	over := !o.RevokedAt.IsZero() || !o.ExpiresAt.IsZero() && !now.Before(o.ExpiresAt)
	if subtle.ConstantTimeCompare(want, digest[:]) != 1 || !known || over {
		return events.Operator{}, events.Errorf(events.CodeUnauthorized, "The header x-api-key must hold a valid operator's key.")
	}
	return o, nil
}

// operatorOf is the operator who makes the request.
func operatorOf(ctx context.Context) events.Operator {
	o, _ := ctx.Value(operatorKey{}).(events.Operator)
	return o
}

// authorOf is the operator who makes the request, with the reason given.
func authorOf(ctx context.Context, reason string) (author, error) {
	if template.Blank(reason) || !utf8.ValidString(reason) || strings.IndexFunc(reason, unicode.IsControl) >= 0 {
		return author{}, faultsError(faults{{Field: "header.X-Reason", Rule: ruleRequired}})
	}
	return author{by: "operator:" + operatorOf(ctx).Name, reason: reason}, nil
}

// adminOperation describes an operation of operators.
func (a *API) adminOperation(method, path, verb, name, tag, scope string, more ...events.Code) huma.Operation {
	codes := append([]events.Code{
		events.CodeValidation, events.CodeUnauthorized, CodeInsufficientScope, events.CodeInternal, events.CodeUnavailable,
	}, more...)
	if method != http.MethodGet {
		codes = append(codes, events.CodeConflict, CodeRequestTimeout, events.CodeTooLarge, CodeEncodingNotSupported)
	}
	slices.Sort(codes)
	return huma.Operation{
		OperationID: verb + strings.ToUpper(name[:1]) + name[1:], Method: method, Path: path, Tags: []string{"admin " + tag},
		Summary: strings.ToUpper(verb[:1]) + verb[1:] + " " + words(name), Description: descriptionOfAdmin + " Scope: " + scope + ".",
		Security: []map[string][]string{{operatorScheme: {scope}}}, Responses: a.problemResponses(slices.Compact(codes)...),
		MaxBodyBytes: a.cfg.BodyLimit, BodyReadTimeout: a.cfg.BodyTimeout,
	}
}

// words writes an operation's name as people do: profileNumber is "profile number".
func words(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// registerAdmin registers every route of operators.
func (a *API) registerAdmin() {
	a.registerAdminTenants()
	a.registerAdminNumbers()
	a.registerAdminProjects()
	a.registerAdminKeys()
	a.registerAdminOperators()
	a.registerAdminTemplates()
	a.registerAdminInstances()
	a.registerAdminIngress()
	a.registerAdminMessages()
	a.registerAdminEndpoints()
	a.registerAdminDeliveries()
	a.registerAdminPlans()
	a.registerAdminConsents()
	a.registerAdminPlatform()
}

// err is faultsError, nil without faults.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return faultsError(f)
}
