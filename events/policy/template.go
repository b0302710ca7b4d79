package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/template"
)

// Template is the rules of templates: those of their wording are WordingFaults.
func Template(c *catalog.Catalog, t events.Template, before *events.Template) (f Faults) {
	old, isNew := orZero(before), before == nil
	f.id(t.ID)
	f.owner(c, isNew, old.TenantID, t.TenantID)
	f.project(c, t.TenantID, isNew, old.ProjectID, t.ProjectID)
	f.when(!friendly(t.Name), "name", RuleForm)
	other, taken := c.Template(t.ProjectID, t.Name)
	f.when(taken && other.ID != t.ID, "name", RuleTaken)
	// An id is looked up before a name: one that is the name of another template would hide it.
	other, taken = c.Template(t.ProjectID, t.ID)
	f.when(taken && other.ID != t.ID, "id", RuleTaken)
	f.when(!t.Category.Valid(), "category", RuleValue)
	fixed(&f, isNew, "category", old.Category, t.Category)
	f.when(len(t.Versions) > MaxVersions, "versions", RuleTooMany)
	f.versions(old.Versions, t.Versions)
	return f
}

var states = []string{events.TemplateDraft, events.TemplateSubmitted, events.TemplateApproved, events.TemplateRejected}

// versions checks that versions are counted on from 1, that none is gone, and that none but a draft has another wording.
func (f *Faults) versions(before, after []events.TemplateVersion) {
	f.when(len(after) < len(before), "versions", RuleFixed)
	for i, v := range after {
		at := fmt.Sprintf("versions[%d]", i)
		f.when(v.Version != i+1, at+".version", RuleOrder)
		f.when(!slices.Contains(states, v.State), at+".state", RuleValue)
		f.when(v.ApprovedForProduction && v.State != events.TemplateApproved, at+".approvedForProduction", RuleValue)
		if i < len(before) && before[i].State != events.TemplateDraft {
			f.when(!bytes.Equal(before[i].Structure, v.Structure), at+".structure", RuleFixed)
			continue
		}
		*f = append(*f, WordingFaults(at+".structure", v.Structure)...)
	}
}

// WordingFaults are the faults of one wording, below the name of its field.
func WordingFaults(field string, structure []byte) (f Faults) {
	parsed, err := template.Parse(structure)
	var broken template.Faults
	switch {
	case len(structure) == 0:
		f.add(field, RuleRequired)
	case err == nil:
		broken = template.Validate(parsed)
	case !errors.As(err, &broken):
		f.add(field, RuleForm)
	}
	for _, b := range broken {
		at := field
		if b.Field != "structure" {
			at += "." + b.Field
		}
		f.add(at, string(b.Rule))
	}
	return f
}

// friendly tells whether a name can be used as one: it stands in a path and in requests.
func friendly(name string) bool {
	return name != "" && len(name) <= MaxName &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// Step is what is done to a version of a template.
type Step string

// The steps. A new wording is a new version, which begins as a draft.
const (
	Submit               Step = "submit"                 // draft → submitted: from now on TEST may send it
	Approve              Step = "approve"                // submitted → approved
	Reject               Step = "reject"                 // submitted → rejected
	ApproveForProduction Step = "approve-for-production" // approved → approved for production: LIVE may send it
)

// Advance takes a step with a version. ok is false when the version is not where the step begins; one that was taken already is so.
func Advance(v events.TemplateVersion, step Step) (_ events.TemplateVersion, ok bool) {
	from := map[Step]string{
		Submit: events.TemplateDraft, Approve: events.TemplateSubmitted, Reject: events.TemplateSubmitted,
		ApproveForProduction: events.TemplateApproved,
	}
	if begin, known := from[step]; !known || v.State != begin || v.ApprovedForProduction {
		return v, false
	}
	switch step {
	case Submit:
		v.State = events.TemplateSubmitted
	case Approve:
		v.State = events.TemplateApproved
	case Reject:
		v.State = events.TemplateRejected
	case ApproveForProduction:
		v.ApprovedForProduction = true
	}
	return v, true
}
