package api

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/events/retry"
)

// Codes of the HTTP edge itself; the others are in package events.
const (
	CodeProjectNotApproved     events.Code = "PROJECT_NOT_APPROVED"           // a LIVE key of a project not approved for production
	CodeTenantSuspended        events.Code = "TENANT_SUSPENDED"               // the platform suspended the tenant
	CodeGroupNotSupported      events.Code = "GROUP_NOT_SUPPORTED"            // groups are no destination
	CodeNewsletterNotSupported events.Code = "NEWSLETTER_NOT_SUPPORTED"       // newsletters are no destination
	CodeMediaNotSupported      events.Code = "MEDIA_NOT_SUPPORTED"            // media is not sent
	CodeCannotDeliverInTime    events.Code = "CANNOT_DELIVER_IN_TIME"         // rejectIfLate, and the message would wait too long
	CodeMethodNotAllowed       events.Code = "METHOD_NOT_ALLOWED"             // the route exists with another method
	CodeEncodingNotSupported   events.Code = "CONTENT_ENCODING_NOT_SUPPORTED" // the body is compressed
	CodeRequestTimeout         events.Code = "REQUEST_TIMEOUT"                // the body did not arrive in time
	CodeInsufficientScope      events.Code = "INSUFFICIENT_SCOPE"             // the key is valid and may not do this
	CodePreconditionRequired   events.Code = "PRECONDITION_REQUIRED"          // a change must name the version that it changes
	CodePreconditionFailed     events.Code = "PRECONDITION_FAILED"            // the entity has another version
	CodeAlreadyExists          events.Code = "ALREADY_EXISTS"                 // the id has, or had, an entity
	CodeInUse                  events.Code = "IN_USE"                         // others need the entity; details.kinds
	CodeIngressInUse           events.Code = "INGRESS_SECRET_IN_USE"          // the gateway may still present the secret that is to end
)

type kind struct {
	status int
	title  string // fixed per code (RFC 9457 §3.1.3)
}

// problems is the only map from codes to HTTP. A code that is not here is shown as INTERNAL. docs/reference/errors.md
// lists the same codes; a test compares them.
var problems = map[events.Code]kind{
	events.CodeValidation:         {http.StatusBadRequest, "The request breaks a rule"},
	events.CodeMissingVariables:   {http.StatusBadRequest, "Template variables are missing"},
	events.CodeInvalidVariable:    {http.StatusBadRequest, "Template variables cannot be used"},
	CodeGroupNotSupported:         {http.StatusBadRequest, "Groups are not supported"},
	CodeNewsletterNotSupported:    {http.StatusBadRequest, "Newsletters are not supported"},
	CodeMediaNotSupported:         {http.StatusBadRequest, "Media is not supported"},
	events.CodeUnauthorized:       {http.StatusUnauthorized, "No valid API key"},
	CodeTenantSuspended:           {http.StatusForbidden, "Tenant suspended"},
	CodeProjectNotApproved:        {http.StatusForbidden, "Project not approved for production"},
	CodeNotInTestList:             {http.StatusForbidden, "Destination not allowed in TEST"},
	CodeOptedOut:                  {http.StatusForbidden, "Recipient opted out"},
	CodeOptInRequired:             {http.StatusForbidden, "Opt-in required"},
	CodeInstanceClosed:            {http.StatusConflict, "Number not connected"},
	CodePlanLimit:                 {http.StatusTooManyRequests, "Limit of the plan reached"},
	CodeRecipientLimit:            {http.StatusTooManyRequests, "Too many messages to one recipient"},
	CodeSendingStopped:            {http.StatusServiceUnavailable, "Sending is stopped"},
	events.CodeMarketingOwnNumber: {http.StatusForbidden, "MARKETING needs a number of your own"},
	events.CodeFreeTextOwnNumber:  {http.StatusForbidden, "Free text needs a number of your own"},
	events.CodeTemplateNotFound:   {http.StatusNotFound, "Template not found"},
	events.CodeNotApproved:        {http.StatusNotFound, "Template has no approved version"},
	events.CodeNotForProduction:   {http.StatusNotFound, "Template not approved for production"},
	events.CodeOtherProject:       {http.StatusNotFound, "Template of another project"},
	events.CodeNotFound:           {http.StatusNotFound, "Not found"},
	CodeWebhookNotFound:           {http.StatusNotFound, "Webhook not found"},
	CodeNumberNotFound:            {http.StatusNotFound, "Number not found"},
	CodeInsufficientScope:         {http.StatusForbidden, "The key lacks a scope"},
	events.CodeConflict:           {http.StatusConflict, "Not possible as it is now"},
	retry.CodeSending:             {http.StatusConflict, "The message is being sent"},
	retry.CodeUnconfirmed:         {http.StatusConflict, "The message may have left"},
	retry.CodeSent:                {http.StatusConflict, "The message left"},
	retry.CodeMayHave:             {http.StatusConflict, "The message may have arrived"},
	retry.CodeEnding:              {http.StatusConflict, "The message is about to end"},
	CodeCancelRefused:             {http.StatusConflict, "The message is not canceled"},
	presence.CodePaused:           {http.StatusConflict, "The instance is paused"},
	CodeAlreadyExists:             {http.StatusConflict, "Already exists"},
	CodeContentErased:             {http.StatusConflict, "Number and content are erased"},
	CodeInUse:                     {http.StatusConflict, "Used by others"},
	CodeIngressInUse:              {http.StatusConflict, "The gateway may still present the secret"},
	CodePreconditionFailed:        {http.StatusPreconditionFailed, "Changed since it was read"},
	CodePreconditionRequired:      {http.StatusPreconditionRequired, "A version must be named"},
	CodeCannotDeliverInTime:       {http.StatusConflict, "The message cannot leave in time"},
	CodeMethodNotAllowed:          {http.StatusMethodNotAllowed, "Method not allowed"},
	CodeEncodingNotSupported:      {http.StatusUnsupportedMediaType, "Compressed bodies are not supported"},
	CodeRequestTimeout:            {http.StatusRequestTimeout, "Request body too slow"},
	CodeInProgress:                {http.StatusConflict, "The first request is not answered yet"},
	CodeRateLimited:               {http.StatusTooManyRequests, "Too many requests"},
	CodeKeyReused:                 {http.StatusUnprocessableEntity, "Idempotency-Key used for another request"},
	events.CodeTooLarge:           {http.StatusRequestEntityTooLarge, "Request body too large"},
	events.CodeNoInstance:         {http.StatusInternalServerError, "No instance configured"},
	events.CodeInternal:           {http.StatusInternalServerError, "Internal error"},
	events.CodeUnavailable:        {http.StatusServiceUnavailable, "Try again"},
}

// Problem is the body of every error (RFC 9457), with the members error, code and details that customers' clients read.
type Problem struct {
	Type      string         `json:"type" format:"uri" example:"urn:pilot:problem:VALIDATION_ERROR" doc:"Names the kind of problem: urn:pilot:problem:<code>."`
	Title     string         `json:"title" example:"The request breaks a rule" doc:"The same for every problem of a code."`
	Status    int            `json:"status" example:"400" doc:"The HTTP status."`
	Detail    string         `json:"detail" example:"destinationNumber: country_code" doc:"What happened, for a person. Never holds a value of the request."`
	Instance  string         `json:"instance" format:"uri" example:"urn:pilot:request:0198c5d3a6a07c2b8d1f0a9b8c7d6e5f" doc:"Names the request."`
	ErrorText string         `json:"error" example:"destinationNumber: country_code" doc:"The same as detail."`
	Code      string         `json:"code" example:"VALIDATION_ERROR" doc:"For machines; a code never changes meaning."`
	Details   map[string]any `json:"details,omitempty" doc:"Depends on the code, e.g. errors[{field, rule}]."`
	RequestID string         `json:"requestId" example:"0198c5d3a6a07c2b8d1f0a9b8c7d6e5f" doc:"Also in X-Request-Id."`

	header http.Header
}

// Error is the detail: Problem is an error to huma.
func (p *Problem) Error() string { return p.Detail }

// GetStatus gives the HTTP status to huma.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type of RFC 9457.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// huma has one hook for errors in the whole process; every error it makes or is handed passes here.
func init() {
	huma.NewError = func(status int, _ string, errs ...error) huma.StatusError {
		return problemOf(context.Background(), translate(status, errs))
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, _ string, errs ...error) huma.StatusError {
		p := problemOf(ctx.Context(), translate(status, errs))
		for k, v := range p.header {
			ctx.SetHeader(k, v[0])
		}
		return p
	}
}

// translate gives the coded error in errs, or one for what huma found by itself. Of huma's details only the place
// survives: the message and the value may repeat the input.
func translate(status int, errs []error) error {
	var faults []events.FieldError
	for _, err := range errs {
		var coded *events.Error
		if errors.As(err, &coded) {
			return err
		}
		var place huma.ErrorDetailer
		if errors.As(err, &place) {
			faults = append(faults, humaFault(place.ErrorDetail()))
		}
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType:
		return faultsError(faults)
	case http.StatusNotFound:
		return events.Errorf(events.CodeNotFound, "There is nothing here.")
	case http.StatusMethodNotAllowed:
		return events.Errorf(CodeMethodNotAllowed, "This route does not have this method.")
	case http.StatusRequestTimeout:
		return events.Errorf(CodeRequestTimeout, "The request body did not arrive in time.")
	case http.StatusRequestEntityTooLarge:
		return events.Errorf(events.CodeTooLarge, "The request body is too large.")
	default:
		return errors.Join(errs...)
	}
}

// humaFault takes place and rule of what huma found, and leaves its words and the value, which may repeat the input.
func humaFault(d *huma.ErrorDetail) events.FieldError {
	f := events.FieldError{Field: d.Location, Rule: ruleInvalid}
	before, after, _ := strings.Cut(validation.MsgExpectedRequiredProperty, "%s")
	if rest, ok := strings.CutPrefix(d.Message, before); ok && strings.HasSuffix(rest, after) {
		return events.FieldError{Field: d.Location + "." + strings.TrimSuffix(rest, after), Rule: ruleRequired}
	}
	for message, rule := range map[string]string{
		validation.MsgUnexpectedProperty: ruleUnknownField, validation.MsgExpectedString: ruleWrongType, validation.MsgExpectedObject: ruleWrongType,
		validation.MsgExpectedArray: ruleWrongType, validation.MsgExpectedBoolean: ruleWrongType, validation.MsgExpectedNumber: ruleWrongType,
		validation.MsgExpectedInteger: ruleWrongType, validation.MsgExpectedRFC3339DateTime: ruleDateTime,
	} {
		if d.Message == message {
			f.Rule = rule
		}
	}
	for message, rule := range map[string]string{
		validation.MsgExpectedOneOf: ruleUnknownValue, validation.MsgExpectedMinimumNumber: policy.RuleRange, validation.MsgExpectedMaximumNumber: policy.RuleRange,
		validation.MsgExpectedMaxLength: ruleTooLong, validation.MsgExpectedMaxItems: ruleTooMany, validation.MsgExpectedMinLength: ruleRequired,
	} {
		if begin, _, _ := strings.Cut(message, "%"); strings.HasPrefix(d.Message, begin) {
			f.Rule = rule
		}
	}
	return f
}

// problemOf turns err into the problem that is shown, and logs it once where it is a fault of ours.
func problemOf(ctx context.Context, err error) *Problem {
	code := events.CodeOf(err)
	k, known := problems[code]
	text := "An internal error occurred."
	var details map[string]any
	var coded *events.Error
	if known && errors.As(err, &coded) {
		text, details = coded.Message, coded.Details
	} else {
		code, k = events.CodeInternal, problems[events.CodeInternal]
	}
	req := requestOf(ctx)
	if k.status >= http.StatusInternalServerError && req.log != nil {
		level := zerolog.ErrorLevel
		if code == events.CodeUnavailable {
			level = zerolog.WarnLevel
		}
		req.log.WithLevel(level).Err(err).Str("request_id", req.id).Str("code", string(code)).Msg("request not served")
	}
	p := &Problem{
		Type: "urn:pilot:problem:" + string(code), Title: k.title, Status: k.status, Detail: text,
		Instance: "urn:pilot:request:" + req.id, ErrorText: text, Code: string(code), Details: details, RequestID: req.id,
		header: http.Header{},
	}
	switch k.status {
	case http.StatusUnauthorized:
		p.header.Set("WWW-Authenticate", `ApiKey realm="pilot"`)
	case http.StatusServiceUnavailable:
		p.header.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(req.retryAfter.Seconds())))))
	}
	if k.status == http.StatusTooManyRequests {
		p.header.Set("Retry-After", strconv.Itoa(seconds(req.limits.wait())))
	}
	if code == CodeInProgress { // most requests end in milliseconds
		p.header.Set("Retry-After", "1")
	}
	return p
}

// writeProblem answers outside of huma.
func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(r.Context(), err)
	for k, v := range p.header {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller went away
}

func unavailable(cause error, text string) error {
	return events.Errorf(events.CodeUnavailable, "%s", text).WithCause(cause)
}

func internal(cause error) error {
	return events.Errorf(events.CodeInternal, "An internal error occurred.").WithCause(cause)
}

// outage is the error of a port whose failures go away by trying again, unless it says otherwise by a code.
func outage(cause error, text string) error {
	var coded *events.Error
	if errors.As(cause, &coded) && coded.Code != events.CodeUnavailable {
		return internal(cause)
	}
	return unavailable(cause, text)
}
