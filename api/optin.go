package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/recipient"
)

// Reasons why a destination is not authorized.
const (
	reasonNoOptIn  = "NO_OPT_IN"
	reasonOptedOut = "OPTED_OUT"
)

// OptInState says whether a destination may be written to with the caller's key, as far as consent decides it.
type OptInState struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Authorized   bool    `json:"authorized" doc:"UTILITY may be sent. OTP needs no opt-in."`
	Required     bool    `json:"required" doc:"An opt-in is asked for: LIVE, from the shared number, while the platform validates opt-ins."`
	Enabled      bool    `json:"enabled" doc:"The platform validates opt-ins."`
	Reason       *string `json:"reason" doc:"NO_OPT_IN or OPTED_OUT, why it is not authorized; null when it is."`
	FirstOptInAt *string `json:"firstOptInAt" format:"date-time"`
	LastSeenAt   *string `json:"lastSeenAt" format:"date-time" doc:"The last time the contact opted in, to the day."`
}

type optInInput struct {
	DestinationNumber string `query:"destinationNumber" required:"true" example:"+5511999990000" doc:"As in a send; a plus sign is %2B in a URL."`
}

type optInOutput struct{ Body OptInState }

func (a *API) registerOptIn() {
	huma.Register(a.huma, huma.Operation{
		OperationID: "checkOptIn", Method: http.MethodGet, Path: "/v1/messages/opt-in",
		Summary: "Check an opt-in", Tags: []string{"messages"}, Security: keySecurity(events.ScopeSend),
		Description: "Whether the contact wrote \"… ps optin <project id>\" to the shared number, and whether that is asked for.",
		Responses: a.problemResponses(events.CodeValidation, events.CodeUnauthorized, CodeInsufficientScope, CodeTenantSuspended,
			events.CodeInternal, events.CodeUnavailable),
	}, a.optIn)
}

func (a *API) optIn(ctx context.Context, in *optInInput) (*optInOutput, error) {
	to, err := recipient.Parse(unescaped(in.DestinationNumber))
	if err != nil {
		return nil, faultsError(faults{{Field: "destinationNumber", Rule: string(recipient.RuleOf(err))}})
	}
	if a.ports.Catalog.Behind() > a.cfg.MaxBehind {
		return nil, unavailable(nil, "The configuration is being read.")
	}
	caller, _ := ctx.Value(callerKey{}).(Caller)
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	hash, err := a.ports.Hasher.Hash(ctx, caller.Key.TenantID, purposeRecipient, []byte(to.Canonical()))
	if err != nil {
		return nil, outage(err, "Opt-ins cannot be looked up.")
	}
	var out OptInState
	a.ports.Catalog.Read(func(c *catalog.Catalog) {
		own, _ := c.Instance(caller.Key.InstanceID)
		out.Enabled = c.Platform().OptInRequired
		out.Required = out.Enabled && caller.Key.Environment == events.Live && (caller.Key.InstanceID == "" || own.Shared)
		opted, in := c.OptIn(caller.Key.ProjectID, hash)
		if in {
			out.FirstOptInAt, out.LastSeenAt = stampOrNull(opted.FirstAt), stampOrNull(opted.LastAt)
		}
		switch {
		case c.OptedOut(caller.Key.TenantID, hash):
			out.Reason = orNull(reasonOptedOut)
		case out.Required && !in:
			out.Reason = orNull(reasonNoOptIn)
		default:
			out.Authorized = true
		}
	})
	return &optInOutput{Body: out}, nil
}
