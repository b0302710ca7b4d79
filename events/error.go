package events

import (
	"errors"
	"fmt"
)

// Code names a failure for machines. Codes that leave the API are listed in docs/reference/errors.md; a code never changes meaning.
type Code string

// Codes of failures that are not specific to one route. Routes add their own documented codes (docs/reference/errors.md).
const (
	CodeValidation         Code = "VALIDATION_ERROR"                // the request breaks a rule; details.errors lists field and rule
	CodeMissingVariables   Code = "MISSING_TEMPLATE_VARIABLES"      // details.missingKeys
	CodeInvalidVariable    Code = "INVALID_TEMPLATE_VARIABLE_VALUE" // details.invalidKeys
	CodeUnauthorized       Code = "UNAUTHORIZED"                    // no valid API key
	CodeForbidden          Code = "FORBIDDEN"                       // the key may not do this
	CodeNotFound           Code = "NOT_FOUND"                       // nothing with this id in the caller's scope
	CodeConflict           Code = "CONFLICT"                        // the entity changed since it was read
	CodeTooLarge           Code = "BODY_TOO_LARGE"                  // the request body is over the limit
	CodeUnavailable        Code = "UNAVAILABLE"                     // try again; nothing was done, or the result is unknown
	CodeInternal           Code = "INTERNAL"                        // a fault of ours; the text says nothing about it
	CodeFenced             Code = "FENCED"                          // an append was refused because the fenced group has moved
	CodeMalformed          Code = "MALFORMED_EVENT"                 // stored bytes that do not decode as the event they claim to be
	CodeLogGap             Code = "LOG_GAP"                         // a sequence is missing from a log that never deletes
	CodeInvalidSubject     Code = "INVALID_SUBJECT"                 // a subject or token that this package did not build
	CodeNotPermitted       Code = "NOT_PERMITTED"                   // the fold does not allow this start or end
	CodeTemplateNotFound   Code = "TEMPLATE_NOT_FOUND"              // no template of this id or name in the caller's scope
	CodeNotApproved        Code = "TEMPLATE_NOT_APPROVED"           // the template has no approved version
	CodeNotForProduction   Code = "TEMPLATE_NOT_APPROVED_FOR_PRODUCTION"
	CodeOtherProject       Code = "TEMPLATE_OF_ANOTHER_PROJECT" // the id is of a template in another project of the tenant
	CodeNoInstance         Code = "NO_INSTANCE_CONFIGURED"      // neither a bound nor a shared instance exists
	CodeMarketingOwnNumber Code = "TEMPLATE_CATEGORY_MARKETING_REQUIRES_OWN_NUMBER"
	CodeFreeTextOwnNumber  Code = "FREE_TEXT_REQUIRES_OWN_NUMBER"
)

// FieldError names one field of an input and the rule it breaks. It never carries the value.
type FieldError struct {
	Field string `json:"field"` // JSON path in the body, header or query name
	Rule  string `json:"rule"`  // what must hold, in words for a person
}

// Error is the one typed error of Pilot. Message is safe to show to a customer: it never contains a value from the input.
// An error without a Code anywhere in its chain is a fault of ours and is shown as CodeInternal only.
type Error struct {
	Code    Code
	Message string
	Details map[string]any
	Cause   error // for logs; never shown
}

// Errorf makes an Error with a formatted, user-safe message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithDetails returns e with the detail set under key.
func (e *Error) WithDetails(key string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[key] = value
	return e
}

// WithCause returns e with the underlying error kept for logs.
func (e *Error) WithCause(err error) *Error {
	e.Cause = err
	return e
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is an Error of the same code, so that errors.Is(err, &events.Error{Code: c}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf gives the code of the first Error in err's chain, CodeInternal when there is none, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
