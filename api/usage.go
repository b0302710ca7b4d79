package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/timezone"
)

// Usage is what the account has accepted of what its plan allows.
type Usage struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Data []UsageWindow `json:"data" nullable:"false" doc:"The windows that have a limit: month and day of LIVE, day of TEST."`
}

// UsageWindow is one stretch of time with a limit.
type UsageWindow struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Window   string `json:"window" enum:"month,day,testDay" doc:"month and day count LIVE messages, testDay TEST ones that do not go to a profile number."`
	Name     string `json:"name" example:"m-2026-11" doc:"The window itself, as in the error of a limit that is reached."`
	Used     int64  `json:"used" minimum:"0" doc:"Accepted in it; what provably had no effect is given back."`
	Limit    int64  `json:"limit" minimum:"1"`
	BeginsAt string `json:"beginsAt" format:"date-time"`
	ResetsAt string `json:"resetsAt" format:"date-time" doc:"When the next one begins, in the time zone of the account."`
}

type usageOutput struct{ Body Usage }

func (a *API) registerUsage() {
	huma.Register(a.huma, huma.Operation{
		OperationID: "getUsage", Method: http.MethodGet, Path: "/v1/usage", Summary: "Usage and limits of the account",
		Description: "Of the whole account, whatever project or environment the key is of.",
		Tags:        []string{"messages"}, Security: keySecurity(events.ScopeRead),
		Responses: a.problemResponses(events.CodeUnauthorized, CodeTenantSuspended, events.CodeInternal, events.CodeUnavailable),
	}, a.getUsage)
}

func (a *API) getUsage(ctx context.Context, _ *struct{}) (*usageOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	caller, _ := ctx.Value(callerKey{}).(Caller)
	out := &usageOutput{Body: Usage{Data: []UsageWindow{}}}
	if a.ports.Quota == nil { // plans limit nothing
		return out, nil
	}
	windows, err := a.windowsOfTenant(caller.Key.TenantID, a.ports.Now())
	if err != nil || len(windows) == 0 {
		return out, err
	}
	used, err := a.ports.Quota.Used(ctx, caller.Key.TenantID, windows)
	if err != nil {
		return nil, outage(err, "Usage cannot be read right now; sending goes on.")
	}
	for i, w := range windows {
		out.Body.Data = append(out.Body.Data, UsageWindow{
			Window: windowWords[w.Kind].name, Name: w.Name, Used: used[i], Limit: int64(w.Limit), BeginsAt: stamp(w.Begins), ResetsAt: stamp(w.Resets),
		})
	}
	return out, nil
}

// windowsOfTenant lists the windows with a limit in both environments.
func (a *API) windowsOfTenant(tenant string, now time.Time) (out []quota.Window, err error) {
	name := ""
	a.ports.Catalog.Read(func(c *catalog.Catalog) {
		t, _ := c.Tenant(tenant)
		name = t.TimeZone
	})
	zone := timezone.OfTenant(name)
	a.ports.Catalog.Read(func(c *catalog.Catalog) {
		for _, env := range []events.Environment{events.Live, events.Test} {
			ws, known := c.Windows(tenant, env, false, now, zone)
			if !known {
				err = errNoPlan()
				return
			}
			out = append(out, ws...)
		}
	})
	return out, err
}
