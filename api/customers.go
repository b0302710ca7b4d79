package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// Codes of what customers address by its id. What is another's is as if it was not there.
const (
	CodeWebhookNotFound events.Code = "WEBHOOK_NOT_FOUND"
	CodeNumberNotFound  events.Code = "NUMBER_NOT_FOUND"
)

// Most of each that customers make by themselves: the control plane keeps for ever what it is told. Operators are not held to it.
const (
	maxWebhooks  = 50   // of a project
	maxKeys      = 200  // of a project
	maxTemplates = 1000 // of a project
)

// registerCustomers registers the routes by which customers set up what is theirs.
func (a *API) registerCustomers() {
	a.registerWebhooks()
	a.registerAPIKeys()
	a.registerTemplates()
	a.registerNumbers()
}

// customerOperation describes an operation of customers on the control plane.
func (a *API) customerOperation(method, path, id, summary, tag, scope string, more ...events.Code) huma.Operation {
	codes := append([]events.Code{
		events.CodeUnauthorized, CodeInsufficientScope, CodeTenantSuspended, events.CodeValidation, events.CodeInternal, events.CodeUnavailable,
	}, more...)
	if method != http.MethodGet {
		codes = append(codes, events.CodeConflict, CodeRequestTimeout, events.CodeTooLarge, CodeEncodingNotSupported)
	}
	slices.Sort(codes)
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{tag}, Security: keySecurity(scope),
		Responses: a.problemResponses(slices.Compact(codes)...), MaxBodyBytes: a.cfg.BodyLimit, BodyReadTimeout: a.cfg.BodyTimeout,
	}
}

// callerOf is the customer's key that makes the request, and the customer as an author.
func callerOf(ctx context.Context) (Caller, author) {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c, author{by: "key:" + c.Key.ID, reason: "asked for by the customer"}
}

// Deleted says what is gone.
type Deleted struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID      string `json:"id"`
	Deleted bool   `json:"deleted" doc:"Always true."`
}

type (
	listed[V any]    struct{ Body []V }
	bodyOf[V any]    struct{ Body V }
	bodyInput[S any] struct{ Body S }
	pathInput        struct {
		ID string `path:"id" maxLength:"100"`
	}
	changeInput[S any] struct {
		ID   string `path:"id" maxLength:"100"`
		Body S
	}
)

// within holds customers to a number of entities: more than most of them are refused.
func within[T any](e entity[T], field string, most int, have func(*catalog.Catalog) int) entity[T] {
	check := e.check
	e.check = func(c *catalog.Catalog, v T, before *T) policy.Faults {
		f := check(c, v, before)
		if before == nil && have(c) >= most {
			f = append(f, events.FieldError{Field: field, Rule: policy.RuleTooMany})
		}
		return f
	}
	return e
}

// mapped gives the views of entities, never nil.
func mapped[T, V any](all []T, view func(T) V) []V {
	out := make([]V, 0, len(all))
	for _, v := range all {
		out = append(out, view(v))
	}
	return out
}
