package api

import (
	"context"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// ProjectSettings are what an operator sets of a project.
type ProjectSettings struct {
	ID                 string `json:"id,omitempty" example:"acme-shop" doc:"Chosen at creation, drawn when absent. Never changes."`
	TenantID           string `json:"tenantId" doc:"Never changes."`
	Name               string `json:"name"`
	ProductionApproved bool   `json:"productionApproved,omitempty" doc:"LIVE keys of it may send."`
	RetentionDays      int    `json:"retentionDays" minimum:"0" maximum:"3650" doc:"Days that destination and content are to be readable; 0 until the message was sent or ended. Recorded, not carried out yet: no data key of a message is erased in this version. Below 4 webhooks carry neither."`
}

func projectEntity() entity[events.Project] {
	return entity[events.Project]{kind: events.KindProject, get: (*catalog.Catalog).Project, check: policy.Project}
}

func (a *API) projects() noun[events.Project, ProjectSettings, ProjectSettings] {
	return noun[events.Project, ProjectSettings, ProjectSettings]{
		entity: projectEntity(), path: "projects", name: "project", scope: events.OperatorWrite, draw: "prj", owned: true,
		list: func(c *catalog.Catalog, q ListQuery) []events.Project { return c.Projects(q.TenantID) },
		idOf: func(p events.Project) string { return p.ID }, chosen: func(s ProjectSettings) string { return s.ID },
		prepare: func(_ context.Context, id string, s ProjectSettings) (func(*events.Project) (events.Project, error), error) {
			s.ID = id
			return func(*events.Project) (events.Project, error) { return events.Project(s), nil }, nil
		},
		view: func(p events.Project) ProjectSettings { return ProjectSettings(p) },
	}
}

func (a *API) registerAdminProjects() {
	n := a.projects()
	readable(a, n)
	creatable(a, n)
	editable(a, n)
}
