package api

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events/policy"
	"pilotstatus.dev/events/template"
)

var (
	quotedWord = regexp.MustCompile("`([^`]+)`")
	routeWord  = regexp.MustCompile(`^(?:(GET|POST|PUT|PATCH|DELETE) ?)?((?:/|…/)[^ ]*)?$`)
)

// routesOf reads a cell of a table of routes: methods that stand alone belong to the next path, a path without a method has
// those of the one before, and "…/" stands for all but the last part of that one.
func routesOf(cell string) (routes []string) {
	var pending, methods []string
	last := ""
	for _, word := range quotedWord.FindAllStringSubmatch(cell, -1) {
		m := routeWord.FindStringSubmatch(word[1])
		if m == nil {
			continue
		}
		method, path := m[1], m[2]
		if method != "" {
			pending = append(pending, method)
		}
		if path == "" {
			continue
		}
		if len(pending) > 0 {
			methods, pending = pending, nil
		}
		if rest, ok := strings.CutPrefix(path, "…/"); ok {
			path = last[:strings.LastIndex(last, "/")+1] + rest
		}
		last, _, _ = strings.Cut(path, "?")
		for _, method := range methods {
			routes = append(routes, method+" "+last)
		}
	}
	return routes
}

func TestRoutesOfACell(t *testing.T) {
	t.Parallel()
	got := routesOf("`GET`, `POST /v1/a`; `GET`, `PUT /v1/a/{id}`; `POST /v1/a/{id}/x`, `…/y` | `GET /v1/b?c=`, `/v1/d`")
	want := []string{
		"GET /v1/a", "POST /v1/a", "GET /v1/a/{id}", "PUT /v1/a/{id}", "POST /v1/a/{id}/x", "POST /v1/a/{id}/y", "GET /v1/b", "GET /v1/d",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// rows gives the first cells of the tables of a page.
func rows(t *testing.T, page string) (cells []string) {
	t.Helper()
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, "| "); ok {
			cell, _, _ := strings.Cut(rest, " |")
			cells = append(cells, cell)
		}
	}
	return cells
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Every operation of the document is in a table of docs/reference: the customers' in api.md, the operators' in admin.md, where the
// rows of <noun> stand for those of each noun. And what the tables name is served.
func TestDocsHaveEveryRoute(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(readPage(t, "testdata/openapi.json")), &doc); err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for path, operations := range doc.Paths {
		for method := range operations {
			served[strings.ToUpper(method)+" "+path] = true
		}
	}
	customers, admin := readPage(t, "../docs/reference/api.md"), readPage(t, "../docs/reference/admin.md")
	described := map[string]bool{}
	for _, cell := range append(rows(t, customers), rows(t, admin)...) {
		for _, route := range routesOf(cell) {
			if _, path, _ := strings.Cut(route, " "); strings.HasPrefix(path, "/v1/") || strings.HasSuffix(path, "z") {
				described[route] = true
			}
		}
	}
	_, nouns, _ := strings.Cut(admin, "\n## Nouns\n")
	nouns, _, _ = strings.Cut(nouns, "\n|")
	named := map[string]bool{}
	for _, noun := range quotedWord.FindAllStringSubmatch(nouns, -1) {
		named[noun[1]] = true
	}
	general := regexp.MustCompile(`^(?:(?:GET|POST) /v1/admin/([a-z-]+)|(?:GET|PUT|DELETE) /v1/admin/([a-z-]+)/\{id\}|GET /v1/admin/([a-z-]+)/\{id\}/history)$`)
	for _, route := range slices.Sorted(maps.Keys(served)) {
		m := general.FindStringSubmatch(route)
		if !described[route] && (m == nil || !named[m[1]+m[2]+m[3]]) {
			t.Errorf("no table has %s", route)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(described)) {
		if !served[route] && !strings.Contains(route, "<noun>") {
			t.Errorf("%s is described, and not served", route)
		}
	}
}

// docs/reference/templates.md has every limit of templates, and no other number.
func TestDocsHaveTheLimitsOfTemplates(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(readPage(t, "../docs/reference/templates.md"), "\n## Limits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	got := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `?([^|`]+)`? \\| ([0-9,]+) \\|").FindAllStringSubmatch(section, -1) {
		got[row[1]] = strings.ReplaceAll(row[2], ",", "")
	}
	want := map[string]string{}
	for name, limit := range map[string]int{
		"header.text": template.MaxHeader, "body.text": template.MaxBody, "footer.text": template.MaxFooter, "buttons": template.MaxButtons,
		string(template.QuickReply): template.MaxReplyButtons, string(template.URL): template.MaxURLButtons,
		string(template.PhoneNumber): template.MaxPhoneButtons, string(template.CopyCode): template.MaxCodeButtons, "example": template.MaxCode,
		"rendered text": template.MaxText, "buttons of free text": template.MaxFreeButtons,
		"name": policy.MaxName, "versions": policy.MaxVersions, "templates": maxTemplates,
	} {
		want[name] = strconv.Itoa(limit)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-code +page):\n%s", diff)
	}
}
