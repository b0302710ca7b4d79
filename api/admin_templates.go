package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/events/template"
)

// TemplateSettings are what is set of a template; its wordings are versions.
type TemplateSettings struct {
	ID        string `json:"id,omitempty" doc:"Chosen at creation, drawn when absent. Never changes."`
	TenantID  string `json:"tenantId" doc:"Never changes."`
	ProjectID string `json:"projectId" doc:"Of the tenant. Never changes."`
	Name      string `json:"name" example:"order_ready" doc:"Letters, digits, '_' and '-'; unique in its project, whatever its case."`
	Category  string `json:"category" enum:"OTP,UTILITY,MARKETING" doc:"Never changes."`
}

// Wording is one wording of a template.
type Wording struct {
	Structure any `json:"structure" doc:"{header?, body, footer?, buttons?}, the same as a JSON string, or plain text."`
}

// NewTemplate is a template with its first wording.
type NewTemplate struct {
	TemplateSettings
	Wording
}

// TemplateVersionView is one version of a template.
type TemplateVersionView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Version               int      `json:"version"`
	State                 string   `json:"state" enum:"draft,submitted,approved,rejected"`
	ApprovedForProduction bool     `json:"approvedForProduction" doc:"LIVE may send it."`
	Structure             any      `json:"structure"`
	Variables             []string `json:"variables"`
}

// TemplateView is a template with its versions.
type TemplateView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	TemplateSettings
	Versions []TemplateVersionView `json:"versions"`
}

type stepInput struct {
	Reasoned
	ID      string `path:"id" maxLength:"64"`
	Version int    `path:"version" minimum:"1"`
	Step    string `path:"step" enum:"submit,approve,reject,approve-for-production"`
	IfMatch string `header:"If-Match" doc:"Refuses the step when the template has another version."`
}

func templateEntity() entity[events.Template] {
	return entity[events.Template]{kind: events.KindTemplate, get: (*catalog.Catalog).TemplateByID, check: policy.Template}
}

func (a *API) templates() noun[events.Template, TemplateSettings, TemplateView] {
	return noun[events.Template, TemplateSettings, TemplateView]{
		entity: templateEntity(), path: "templates", name: "template", scope: events.OperatorWrite, draw: "tpl", owned: true,
		list: func(c *catalog.Catalog, q ListQuery) (all []events.Template) {
			for _, p := range c.Projects(q.TenantID) {
				if q.ProjectID == "" || p.ID == q.ProjectID {
					all = append(all, c.Templates(p.ID)...)
				}
			}
			slices.SortFunc(all, func(x, y events.Template) int { return strings.Compare(x.ID, y.ID) })
			return all
		},
		idOf: func(t events.Template) string { return t.ID }, chosen: func(s TemplateSettings) string { return s.ID },
		prepare: func(_ context.Context, id string, s TemplateSettings) (func(*events.Template) (events.Template, error), error) {
			return func(old *events.Template) (events.Template, error) {
				t := events.Template{ID: id, TenantID: s.TenantID, ProjectID: s.ProjectID, Name: s.Name, Category: events.Category(s.Category)}
				if old != nil {
					t.Versions = old.Versions
				}
				return t, nil
			}, nil
		},
		view: viewTemplate,
	}
}

func viewTemplate(t events.Template) TemplateView {
	out := TemplateView{
		TemplateSettings: TemplateSettings{ID: t.ID, TenantID: t.TenantID, ProjectID: t.ProjectID, Name: t.Name, Category: string(t.Category)},
		Versions:         []TemplateVersionView{},
	}
	for _, v := range t.Versions {
		shown := TemplateVersionView{Version: v.Version, State: v.State, ApprovedForProduction: v.ApprovedForProduction, Variables: []string{}}
		if err := json.Unmarshal(v.Structure, &shown.Structure); err != nil {
			shown.Structure = nil
		}
		if s, err := template.Parse(v.Structure); err == nil {
			shown.Variables = template.Variables(s)
		}
		out.Versions = append(out.Versions, shown)
	}
	return out
}

// draftOf is a new version with a wording.
func draftOf(t events.Template, w Wording) (events.Template, error) {
	raw, err := json.Marshal(w.Structure)
	if err != nil {
		return t, internal(err)
	}
	if f := policy.WordingFaults("structure", raw); len(f) > 0 {
		return t, f.Err()
	}
	t.Versions = append(slices.Clone(t.Versions), events.TemplateVersion{Version: len(t.Versions) + 1, Structure: raw, State: events.TemplateDraft})
	return t, nil
}

func (a *API) registerAdminTemplates() {
	n := a.templates()
	readable(a, n)
	editable(a, n)
	op := a.adminOperation(http.MethodPost, adminPrefix+n.path, "create", n.name, n.path, n.scope, CodeAlreadyExists)
	op.DefaultStatus = http.StatusCreated
	op.Description += " Its first version is a draft."
	huma.Register(a.huma, op, func(ctx context.Context, in *createInput[NewTemplate]) (*entityOutput[TemplateView], error) {
		by, err := authorOf(ctx, in.Reason)
		if err != nil {
			return nil, err
		}
		return a.createTemplate(ctx, in.Body, by)
	})
	add := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/versions", "create", "templateVersion", n.path, n.scope, events.CodeNotFound)
	add.DefaultStatus = http.StatusCreated
	add.Description += " A new wording is a new version, a draft; the ones before stay as they are."
	huma.Register(a.huma, add, func(ctx context.Context, in *actInput[Wording]) (*entityOutput[TemplateView], error) {
		return act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(t events.Template) (events.Template, error) { return draftOf(t, in.Body) })
	})
	step := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/versions/{version}/{step}", "advance", "templateVersion", n.path, n.scope, events.CodeNotFound)
	step.Description += " draft → submit → submitted (TEST may send it) → approve or reject → approved → approve-for-production (LIVE may send it)."
	huma.Register(a.huma, step, func(ctx context.Context, in *stepInput) (*entityOutput[TemplateView], error) {
		return act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(t events.Template) (events.Template, error) {
			return advance(t, in.Version, policy.Step(in.Step))
		})
	})
}

func advance(t events.Template, version int, step policy.Step) (events.Template, error) {
	if version > len(t.Versions) {
		return t, errNoEntity()
	}
	next, ok := policy.Advance(t.Versions[version-1], step)
	if !ok {
		return t, events.Errorf(events.CodeConflict, "The version is not where this step begins.").WithDetails("state", t.Versions[version-1].State)
	}
	t.Versions = slices.Clone(t.Versions)
	t.Versions[version-1] = next
	return t, nil
}

// createTemplate makes a template with a draft. Routes of customers use it too.
func (a *API) createTemplate(ctx context.Context, s NewTemplate, by author) (*entityOutput[TemplateView], error) {
	n := a.templates()
	prepared := n.prepare
	n.prepare = func(ctx context.Context, id string, settings TemplateSettings) (func(*events.Template) (events.Template, error), error) {
		next, err := prepared(ctx, id, settings)
		if err != nil {
			return nil, err
		}
		return func(old *events.Template) (events.Template, error) {
			t, err := next(old)
			if err != nil {
				return t, err
			}
			return draftOf(t, s.Wording)
		}, nil
	}
	value, out, err := create(ctx, a, n, by, s.TemplateSettings)
	if err != nil {
		return nil, err
	}
	out.Body = n.view(value)
	return out, nil
}
