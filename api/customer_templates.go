package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/events/template"
)

// TemplateItem is a template as customers see it in lists: its newest wording.
type TemplateItem struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID              string   `json:"id" example:"tpl-8d1f0a9b8c7d6e5f"`
	Name            string   `json:"name" example:"order_ready"`
	Category        string   `json:"category" enum:"OTP,UTILITY,MARKETING"`
	Body            string   `json:"body" example:"Your order {{number}} is ready." doc:"Text of the body in the newest version."`
	Variables       []string `json:"variables" nullable:"false" doc:"Placeholders of the newest version, buttons included."`
	Source          string   `json:"source" enum:"PILOT_STATUS"`
	MetaStatus      *string  `json:"metaStatus" doc:"Always null: not a template of Meta."`
	MetaLanguage    *string  `json:"metaLanguage" doc:"Always null."`
	Sendable        bool     `json:"sendable" doc:"A send with this key finds a version that it may use."`
	Version         int      `json:"version" doc:"The newest version, from 1."`
	Status          string   `json:"status" enum:"draft,submitted,approved,rejected" doc:"Of the newest version."`
	SendableVersion *int     `json:"sendableVersion" doc:"The version that a send with this key uses; null for none."`
}

// TemplateDetail is a template with its newest wording.
type TemplateDetail struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	TemplateItem
	Structure any `json:"structure" doc:"The newest version: {header?, body, footer?, buttons?}."`
}

// TemplateWords are what customers set of a template.
type TemplateWords struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Name      *string `json:"name,omitempty" example:"order_ready" doc:"Letters, digits, '_' and '-'; blanks and other separators become '_'. Unique in the project, whatever its case."`
	Category  *string `json:"category,omitempty" doc:"OTP, UTILITY or MARKETING. Never changes."`
	Structure any     `json:"structure,omitempty" doc:"{header?, body, footer?, buttons?}, the same as a JSON string, or plain text."`
	Body      any     `json:"body,omitempty" doc:"The same as structure; one of both is given."`
}

func errNoTemplate() error {
	return events.Errorf(events.CodeTemplateNotFound, "There is no template of this id or name.")
}

// templateOf finds a template of the caller's project by id or name.
func (a *API) templateOf(k events.Key, idOrName string) (t events.Template, err error) {
	found := false
	a.ports.Catalog.Read(func(c *catalog.Catalog) { t, found = c.Template(k.ProjectID, idOrName) })
	if !found || t.TenantID != k.TenantID {
		return events.Template{}, errNoTemplate()
	}
	return t, nil
}

// viewTemplateOf shows a template to who would send it in an environment.
func viewTemplateOf(t events.Template, env events.Environment) TemplateDetail {
	out := TemplateDetail{TemplateItem: TemplateItem{
		ID: t.ID, Name: t.Name, Category: string(t.Category), Source: "PILOT_STATUS", Variables: []string{}, Status: events.TemplateDraft,
	}}
	if n := len(t.Versions); n > 0 {
		newest := t.Versions[n-1]
		out.Version, out.Status = newest.Version, newest.State
		if s, err := template.Parse(newest.Structure); err == nil {
			out.Body, out.Variables, out.Structure = s.Body.Text, template.Variables(s), s
		}
	}
	if v, ok := catalog.LatestApproved(t, env == events.Live); ok {
		out.Sendable, out.SendableVersion = true, &v.Version
	}
	return out
}

// wording gives what was set as the wording, nil when nothing was.
func (w TemplateWords) wording() (json.RawMessage, error) {
	given := w.Structure
	switch {
	case w.Structure != nil && w.Body != nil:
		return nil, faultsError(faults{{Field: "structure", Rule: ruleExactlyOne}})
	case w.Structure == nil && w.Body == nil:
		return nil, nil
	case w.Structure == nil:
		given = w.Body
	}
	raw, err := json.Marshal(given)
	if err != nil {
		return nil, internal(errors.New("encode a wording"))
	}
	return raw, nil
}

// friendlyName makes of separators what names take.
func friendlyName(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune("./:,;|+", r) {
			return '_'
		}
		return r
	}, strings.TrimSpace(s))
}

// worded gives the template with a wording as its newest version, handed in: TEST may send it, LIVE once operators have approved
// it for production. A wording that is the newest already, and was not rejected, makes no version.
func worded(t events.Template, raw json.RawMessage) (events.Template, error) {
	if f := policy.WordingFaults("structure", raw); len(f) > 0 {
		return t, f.Err()
	}
	t.Versions = slices.Clone(t.Versions)
	n := len(t.Versions)
	if n == 0 || !bytes.Equal(t.Versions[n-1].Structure, raw) || t.Versions[n-1].State == events.TemplateRejected {
		t.Versions = append(t.Versions, events.TemplateVersion{Version: n + 1, Structure: raw, State: events.TemplateDraft})
		n++
	}
	if v, ok := policy.Advance(t.Versions[n-1], policy.Submit); ok {
		t.Versions[n-1] = v
	}
	return t, nil
}

// nameTaken turns the fault of a name that another template has into the documented conflict.
func nameTaken(err error) error {
	var coded *events.Error
	if !errors.As(err, &coded) || coded.Code != events.CodeValidation {
		return err
	}
	told, _ := coded.Details["errors"].([]events.FieldError)
	if slices.Contains(told, events.FieldError{Field: "name", Rule: policy.RuleTaken}) {
		return events.Errorf(CodeAlreadyExists, "There is a template of this name.")
	}
	return err
}

func (a *API) registerTemplates() {
	const path, one, tag, scope = "/v1/templates", "/v1/templates/{id}", "templates", events.ScopeTemplates
	list := a.customerOperation(http.MethodGet, path, "listProjectTemplates", "List templates", tag, scope)
	list.Description = "Those of the key's project."
	huma.Register(a.huma, list, func(ctx context.Context, _ *struct{}) (*listed[TemplateItem], error) {
		caller, _ := callerOf(ctx)
		var all []events.Template
		a.ports.Catalog.Read(func(c *catalog.Catalog) { all = c.Templates(caller.Key.ProjectID) })
		return &listed[TemplateItem]{Body: mapped(all, func(t events.Template) TemplateItem {
			return viewTemplateOf(t, caller.Key.Environment).TemplateItem
		})}, nil
	})
	create := a.customerOperation(http.MethodPost, path, "createProjectTemplate", "Create a template", tag, scope, CodeAlreadyExists)
	create.DefaultStatus = http.StatusCreated
	create.Description = "TEST keys may send it at once, LIVE keys once the platform has approved it for production."
	huma.Register(a.huma, create, a.makeTemplate)
	get := a.customerOperation(http.MethodGet, one, "getProjectTemplate", "Read a template", tag, scope, events.CodeTemplateNotFound)
	get.Description = "By id or name."
	huma.Register(a.huma, get, func(ctx context.Context, in *pathInput) (*bodyOf[TemplateDetail], error) {
		caller, _ := callerOf(ctx)
		t, err := a.templateOf(caller.Key, in.ID)
		if err != nil {
			return nil, err
		}
		return &bodyOf[TemplateDetail]{Body: viewTemplateOf(t, caller.Key.Environment)}, nil
	})
	change := a.customerOperation(http.MethodPut, one, "changeProjectTemplate", "Change a template", tag, scope, events.CodeTemplateNotFound, CodeAlreadyExists)
	change.Description = "A new wording is a new version, as at creation; until it may be sent the version before is. The category cannot change."
	huma.Register(a.huma, change, a.changeTemplate)
	remove := a.customerOperation(http.MethodDelete, one, "deleteProjectTemplate", "Delete a template", tag, scope, events.CodeTemplateNotFound)
	remove.Description = "Messages that were accepted with it go out all the same."
	huma.Register(a.huma, remove, func(ctx context.Context, in *pathInput) (*bodyOf[Deleted], error) {
		caller, by := callerOf(ctx)
		t, err := a.templateOf(caller.Key, in.ID)
		if err != nil {
			return nil, err
		}
		if err := removeEntity(ctx, a.writer, templateEntity(), t.ID, existing, by); err != nil {
			return nil, gone(err, errNoTemplate())
		}
		return &bodyOf[Deleted]{Body: Deleted{ID: t.ID, Deleted: true}}, nil
	})
}

// gone turns what was removed by another meanwhile into what it is for this route.
func gone(err, as error) error {
	if events.CodeOf(err) == events.CodeNotFound {
		return as
	}
	return err
}

func (a *API) makeTemplate(ctx context.Context, in *bodyInput[TemplateWords]) (*bodyOf[TemplateDetail], error) {
	caller, by := callerOf(ctx)
	k := caller.Key
	raw, err := in.Body.wording()
	if err != nil {
		return nil, err
	}
	t := events.Template{ID: a.drawID("tpl"), TenantID: k.TenantID, ProjectID: k.ProjectID}
	if in.Body.Name != nil {
		t.Name = friendlyName(*in.Body.Name)
	}
	if in.Body.Category != nil {
		t.Category = events.Category(*in.Body.Category)
	}
	t.Versions = []events.TemplateVersion{{Version: 1, Structure: raw, State: events.TemplateSubmitted}}
	limited := within(templateEntity(), "templates", maxTemplates, func(c *catalog.Catalog) int { return len(c.Templates(k.ProjectID)) })
	check := limited.check
	limited.check = func(c *catalog.Catalog, t events.Template, before *events.Template) policy.Faults {
		f := check(c, t, before)
		for i := range f { // what is a version to us is the wording to who makes a template
			f[i].Field = strings.TrimPrefix(f[i].Field, "versions[0].")
		}
		return f
	}
	t, _, err = defineEntity(ctx, a.writer, limited, t.ID, created, by, func(*events.Template) (events.Template, error) { return t, nil })
	if err != nil {
		return nil, nameTaken(err)
	}
	return &bodyOf[TemplateDetail]{Body: viewTemplateOf(t, k.Environment)}, nil
}

func (a *API) changeTemplate(ctx context.Context, in *changeInput[TemplateWords]) (*bodyOf[TemplateDetail], error) {
	caller, by := callerOf(ctx)
	found, err := a.templateOf(caller.Key, in.ID)
	if err != nil {
		return nil, err
	}
	raw, err := in.Body.wording()
	if err != nil {
		return nil, err
	}
	if raw == nil && in.Body.Name == nil {
		return nil, faultsError(faults{{Field: "structure", Rule: ruleRequired}})
	}
	t, _, err := defineEntity(ctx, a.writer, templateEntity(), found.ID, existing, by, func(old *events.Template) (events.Template, error) {
		t := *old
		if in.Body.Name != nil {
			t.Name = friendlyName(*in.Body.Name)
		}
		if in.Body.Category != nil {
			t.Category = events.Category(*in.Body.Category)
		}
		if raw == nil {
			return t, nil
		}
		return worded(t, raw)
	})
	if err != nil {
		return nil, nameTaken(gone(err, errNoTemplate()))
	}
	return &bodyOf[TemplateDetail]{Body: viewTemplateOf(t, caller.Key.Environment)}, nil
}
