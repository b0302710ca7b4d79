package api

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/template"
)

// document is the OpenAPI document before the operations. The paths of huma's own pages are off: they are served from
// here, complete and without anything from elsewhere.
func document(cfg Config) huma.Config {
	c := huma.DefaultConfig("Pilot API", cfg.Version)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", "", nil
	// huma looks a problem's media type up by its suffix.
	c.Formats = map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat}
	c.Info.Description = "Sends WhatsApp messages and tells the truth about each one. Every path is also served under /api. " +
		"Errors are RFC 9457 problem documents. New fields may appear in any answer: ignore what you do not know."
	c.Servers = []*huma.Server{{URL: "/"}, {URL: "/api", Description: "The same, for /v1 paths."}}
	c.Tags = []*huma.Tag{{Name: "messages"}, {Name: "templates"}, {Name: "webhooks"}, {Name: "api-keys"}, {Name: "numbers"}, {Name: "health"}}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		schemeName:     {Type: "apiKey", In: "header", Name: headerName, Description: "ps_live_… or ps_test_…, with the scope of the operation."},
		idSchemeName:   {Type: "apiKey", In: "header", Name: idHeaderName, Description: "The secret id of a key, where an operator has given it one; a key beside it decides."},
		operatorScheme: {Type: "apiKey", In: "header", Name: headerName, Description: "ps_oper_…, with the scope of the operation."},
	}
	return c
}

// keySecurity needs a customer's key, or the secret id of one; with scopes one that has each of them.
func keySecurity(scopes ...string) []map[string][]string {
	scopes = append([]string{}, scopes...)
	return []map[string][]string{{schemeName: scopes}, {idSchemeName: scopes}}
}

func schemaOf[T any](r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, reflect.TypeFor[T]().Name())
}

// problemResponses documents the codes an operation answers with, by status.
func (a *API) problemResponses(codes ...events.Code) map[string]*huma.Response {
	byStatus := map[int][]string{}
	for _, c := range codes {
		byStatus[problems[c].status] = append(byStatus[problems[c].status], string(c))
	}
	out := map[string]*huma.Response{}
	for status, names := range byStatus {
		slices.Sort(names)
		r := &huma.Response{
			Description: http.StatusText(status) + ": " + strings.Join(names, ", "),
			Content:     map[string]*huma.MediaType{problemType: {Schema: schemaOf[Problem](a.huma.OpenAPI().Components.Schemas)}},
		}
		text := &huma.Schema{Type: huma.TypeString}
		switch status {
		case http.StatusUnauthorized:
			r.Headers = map[string]*huma.Param{"WWW-Authenticate": {Schema: text}}
		case http.StatusServiceUnavailable, http.StatusConflict:
			r.Headers = map[string]*huma.Param{"Retry-After": {Schema: text, Description: "Whole seconds."}}
		}
		out[strconv.Itoa(status)] = r
	}
	return out
}

// documentSend describes the body of a send, which huma does not read: the order of rules is ours.
func documentSend(doc *huma.OpenAPI) {
	doc.Paths["/v1/messages/send"].Post.RequestBody = &huma.RequestBody{
		Required: true,
		Content: map[string]*huma.MediaType{"application/json": {
			Schema: schemaOf[sendRequest](doc.Components.Schemas),
			Examples: map[string]*huma.Example{
				"template": {Summary: "A template", Value: map[string]any{
					"destinationNumber": "+5511987654321", "templateId": "generic_notification",
					"variables": map[string]any{"message": "Your order has left."},
				}},
				"scheduled": {Summary: "A template, later", Value: map[string]any{
					"destinationNumber": "+5511987654321", "templateId": "reminder", "variables": map[string]any{"name": "Ana"},
					"deliverAt": "2026-12-01T12:00:00Z", "deliverUntil": "2026-12-01T14:00:00Z",
				}},
				"text": {Summary: "Free text with buttons", Value: map[string]any{
					"destinationNumber": "+5511987654321", "text": "Did everything arrive?", "footer": "Pilot",
					"buttons": []any{map[string]any{"type": "QUICK_REPLY", "text": "Yes"}, map[string]any{"type": "QUICK_REPLY", "text": "No"}},
				}},
			},
		}},
	}
}

// TransformSchema describes the parts that are kept raw until they are parsed.
func (*sendRequest) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	text := &huma.Schema{Type: huma.TypeString}
	for _, name := range []string{"header", "footer"} {
		s.Properties[name] = &huma.Schema{
			Description: s.Properties[name].Description,
			OneOf:       []*huma.Schema{text, {Type: huma.TypeObject, Properties: map[string]*huma.Schema{"text": text}}},
		}
	}
	var types []any
	for _, t := range []template.ButtonType{template.QuickReply, template.URL, template.PhoneNumber, template.CopyCode} {
		types = append(types, string(t))
	}
	most := template.MaxFreeButtons
	s.Properties["buttons"] = &huma.Schema{
		Description: s.Properties["buttons"].Description, Type: huma.TypeArray, MaxItems: &most,
		Items: &huma.Schema{
			Type: huma.TypeObject, Required: []string{"type"},
			Properties: map[string]*huma.Schema{
				"type": {Type: huma.TypeString, Enum: types}, "text": text, "url": text, "phone_number": text, "example": text,
			},
		},
	}
	return s
}
