package migrate

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/infra/timezone"
)

// publicLength is how much of a key's digest finds it: see api.ImportedPublicID.
const publicLength = 8

func (p *planner) tenants() {
	for _, r := range p.export.tables[tableTenants] {
		judge(p, kindOf[events.Tenant]{events.KindTenant, (*catalog.Catalog).Tenant, policy.Tenant(timezone.Known)}, r, r.cells["id"],
			func(t *events.Tenant, c cells) {
				t.ID = c.cells["id"]
				c.text("name", &t.Name)
				c.text("timeZone", &t.TimeZone)
				c.boolean("suspended", &t.Suspended)
				c.text("planId", &t.PlanID)
			})
	}
}

func (p *planner) projects() {
	for _, r := range p.export.tables[tableProjects] {
		judge(p, kindOf[events.Project]{events.KindProject, (*catalog.Catalog).Project, policy.Project}, r, r.cells["id"],
			func(v *events.Project, c cells) {
				v.ID = c.cells["id"]
				c.text("tenantId", &v.TenantID)
				c.text("name", &v.Name)
				c.boolean("productionApproved", &v.ProductionApproved)
				c.number("retentionDays", &v.RetentionDays)
			})
	}
}

func (p *planner) keys() {
	for _, r := range p.export.tables[tableKeys] {
		judge(p, kindOf[events.Key]{events.KindKey, (*catalog.Catalog).Key, policy.Key}, r, r.cells["id"], func(k *events.Key, c cells) {
			if k.ID == "" {
				k.CreatedAt = p.now
			}
			k.ID = c.cells["id"]
			c.text("tenantId", &k.TenantID)
			c.text("projectId", &k.ProjectID)
			c.text("environment", (*string)(&k.Environment))
			c.text("name", &k.Name)
			switch sum := strings.ToLower(c.cells["sha256"]); {
			case len(sum) != sha256.Size*2:
				c.fault("sha256", policy.RuleForm)
			case k.SHA256 == "":
				k.SHA256, k.PublicID = sum, sum[:publicLength]
			case k.SHA256 != sum: // another raw key is another key
				c.fault("sha256", policy.RuleFixed)
			}
			c.text("secretIdHash", &k.SecretIDHash)
			c.text("instanceId", &k.InstanceID)
			if c.cells["retentionDays"] != "" {
				k.RetentionDays = new(int)
				c.number("retentionDays", k.RetentionDays)
			}
			c.time("expiresAt", &k.ExpiresAt)
			c.time("revokedAt", &k.RevokedAt)
			c.time("createdAt", &k.CreatedAt)
		})
	}
}

// templates takes the rows of each template together: one row a version, counted from 1.
func (p *planner) templates() {
	var order []string
	versions := map[string][]row{}
	for _, r := range p.export.tables[tableTemplates] {
		id := r.cells["id"]
		if len(versions[id]) == 0 {
			order = append(order, id)
		}
		versions[id] = append(versions[id], r)
	}
	for _, id := range order {
		rows := versions[id]
		k := kindOf[events.Template]{events.KindTemplate, (*catalog.Catalog).TemplateByID, policy.Template}
		judge(p, k, rows[0], id, func(t *events.Template, c cells) {
			t.ID = id
			c.text("tenantId", &t.TenantID)
			c.text("projectId", &t.ProjectID)
			c.text("name", &t.Name)
			c.text("category", (*string)(&t.Category))
			t.Versions = append([]events.TemplateVersion(nil), t.Versions...)
			for i, r := range rows {
				p.version(t, i, cells{r, &p.faults})
			}
		}, rows...)
	}
}

// version takes one version over. One that is here keeps what was decided of it here: the old system's word only moves it on.
func (p *planner) version(t *events.Template, i int, c cells) {
	n := 0
	c.number("version", &n)
	if n != i+1 {
		c.fault("version", policy.RuleOrder)
		return
	}
	structure, err := template.Parse([]byte(c.cells["structure"]))
	if err != nil {
		for _, f := range policy.WordingFaults("structure", []byte(c.cells["structure"])) {
			c.fault(f.Field, f.Rule)
		}
		return
	}
	raw, err := json.Marshal(structure)
	if err != nil {
		c.fault("structure", policy.RuleForm)
		return
	}
	v := events.TemplateVersion{Version: n, Structure: raw, State: c.cells["state"]}
	c.boolean("approvedForProduction", &v.ApprovedForProduction)
	if i >= len(t.Versions) {
		t.Versions = append(t.Versions, v)
		return
	}
	have := &t.Versions[i]
	if old, err := template.Parse(have.Structure); err != nil || !reflect.DeepEqual(old, structure) {
		have.Structure = raw // refused by the rules unless it is a draft
	}
	if rank(v) > rank(*have) {
		have.State, have.ApprovedForProduction = v.State, v.ApprovedForProduction
	}
}

// rank is how far a version has come.
func rank(v events.TemplateVersion) int {
	if v.ApprovedForProduction {
		return 3
	}
	return map[string]int{events.TemplateSubmitted: 1, events.TemplateApproved: 2, events.TemplateRejected: 2}[v.State]
}

// place finds the row and the column that a rule of an entity is about.
func place(field string, rows []row) (row, string) {
	if field == "publicId" { // it is made from the digest
		field = "sha256"
	}
	rest, found := strings.CutPrefix(field, "versions[")
	var at int
	if _, err := fmt.Sscanf(rest, "%d]", &at); !found || err != nil || at >= len(rows) {
		return rows[0], field
	}
	_, column, _ := strings.Cut(rest, "].")
	return rows[at], column
}
