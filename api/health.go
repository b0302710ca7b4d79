package api

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// Liveness is the body of /livez.
type Liveness struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Status string `json:"status" enum:"ok"`
}

// Readiness is the body of /readyz.
type Readiness struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Status   string        `json:"status" enum:"ready,degraded,not_ready" doc:"degraded: messages are accepted, what is named in degraded does not work."`
	Degraded []string      `json:"degraded" nullable:"false" example:"[\"reads\"]"`
	Checks   []CheckResult `json:"checks,omitempty" doc:"With ?verbose only."`
}

// CheckResult is one check of /readyz?verbose.
type CheckResult struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Name   string `json:"name" example:"log"`
	Status string `json:"status" enum:"ok,err"`
}

const (
	statusReady    = "ready"
	statusDegraded = "degraded"
	statusNotReady = "not_ready"
)

type livezOutput struct{ Body Liveness }

type readyzInput struct {
	Verbose string `query:"verbose" doc:"Present, with any value or none: lists the checks."`

	listed bool
}

// Resolve sees a parameter without a value, too.
func (in *readyzInput) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	in.listed = u.Query().Has("verbose")
	return nil
}

type readyzOutput struct {
	Status int
	Body   Readiness
}

func (a *API) registerHealth() {
	huma.Register(a.huma, huma.Operation{
		OperationID: "livez", Method: http.MethodGet, Path: "/livez", Summary: "Is the process alive",
		Description: "Depends on nothing outside of the process.", Tags: []string{"health"},
	}, func(context.Context, *struct{}) (*livezOutput, error) {
		return &livezOutput{Body: Liveness{Status: "ok"}}, nil
	})
	registry := a.huma.OpenAPI().Components.Schemas
	huma.Register(a.huma, huma.Operation{
		OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Summary: "Can messages be accepted",
		Description: "200 when messages are accepted, if with something degraded; 503 when not.", Tags: []string{"health"},
		Responses: map[string]*huma.Response{"503": {
			Description: "Not ready.",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: schemaOf[Readiness](registry)}},
		}},
	}, a.readyz)
}

func (a *API) readyz(ctx context.Context, in *readyzInput) (*readyzOutput, error) {
	errs := a.runChecks(ctx)
	out := &readyzOutput{Status: http.StatusOK, Body: Readiness{Status: statusReady, Degraded: []string{}}}
	for i, c := range a.ports.Checks {
		result := CheckResult{Name: c.Name, Status: "ok"}
		if errs[i] != nil {
			result.Status = "err"
			a.cfg.Log.Warn().Err(errs[i]).Str("check", c.Name).Msg("check of readiness does not hold")
			switch {
			case c.Degrades == "":
				out.Status, out.Body.Status = http.StatusServiceUnavailable, statusNotReady
			case !slices.Contains(out.Body.Degraded, c.Degrades):
				out.Body.Degraded = append(out.Body.Degraded, c.Degrades)
			}
		}
		if in.listed {
			out.Body.Checks = append(out.Body.Checks, result)
		}
	}
	if out.Body.Status == statusReady && len(out.Body.Degraded) > 0 {
		out.Body.Status = statusDegraded
	}
	return out, nil
}

// runChecks runs all checks side by side and waits for each.
func (a *API) runChecks(ctx context.Context) []error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CheckTimeout)
	defer cancel()
	errs := make([]error, len(a.ports.Checks))
	var all sync.WaitGroup
	for i, c := range a.ports.Checks {
		all.Go(func() { errs[i] = c.Run(ctx) })
	}
	all.Wait()
	return errs
}
