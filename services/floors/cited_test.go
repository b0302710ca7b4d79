package floors_test

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// citation matches the name of a test in a text, with the word before it, which may be the package that it is in.
var citation = regexp.MustCompile("(?:([a-z][a-z0-9/]*) `?|\\b)((?:Test|Fuzz)[A-Z]\\w*)")

// nicknames are what documents call a package by another name than its folder.
var nicknames = map[string]string{"simulator": "evolutionsim"}

// uncited lists what a text says of tests that is not so: a name that no test has, or a package that has no test of that name.
// packages gives the folders of the tests by name.
func uncited(text string, packages map[string][]string) (complaints []string) {
	known := map[string]bool{}
	for _, folders := range packages {
		for _, folder := range folders {
			known[path.Base(folder)] = true
		}
	}
	for _, found := range citation.FindAllStringSubmatch(text, -1) {
		before, name := path.Base(found[1]), found[2]
		if full := nicknames[before]; full != "" {
			before = full
		}
		folders := packages[name]
		switch {
		case len(folders) == 0:
			complaints = append(complaints, "there is no "+name)
		case known[before] && !slices.ContainsFunc(folders, func(folder string) bool { return path.Base(folder) == before }):
			complaints = append(complaints, name+" is in "+strings.Join(folders, ", ")+", not in "+before)
		}
	}
	return complaints
}

func TestCitationsAreSeen(t *testing.T) {
	t.Parallel()
	packages := map[string][]string{"TestA": {"events/queue"}, "TestB": {"api", "services/e2e"}, "FuzzC": {"infra/evolution"}}
	for text, want := range map[string][]string{
		"queue TestA, TestB; e2e TestB":       nil,
		"events/queue `TestA`, and `TestB`":   nil,
		"shown by TestA (FuzzC)":              nil,
		"`TestA` and TestBody":                {"there is no TestBody"},
		"api TestA":                           {"TestA is in events/queue, not in api"},
		"api `TestB`; api FuzzC, `FuzzD`":     {"FuzzC is in infra/evolution, not in api", "there is no FuzzD"},
		"the latest, a Testament, a TEST key": nil,
	} {
		if diff := cmp.Diff(want, uncited(text, packages)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestDocumentsCiteTestsThatExist: a document that names a test as its proof is worth nothing once the test has another name. The
// changelog is left out: it tells what was.
func TestDocumentsCiteTestsThatExist(t *testing.T) {
	t.Parallel()
	packages := map[string][]string{}
	for _, module := range slices.Sorted(maps.Keys(mayUse)) {
		for _, file := range sources(t, module) {
			if !strings.HasSuffix(file.path, "_test.go") {
				continue
			}
			for _, decl := range file.file.Decls {
				if function, ok := decl.(*ast.FuncDecl); ok && function.Recv == nil {
					packages[function.Name.Name] = append(packages[function.Name.Name], path.Dir(file.path))
				}
			}
		}
	}
	cited := 0
	walk(t, ".", func(name string) {
		if path.Ext(name) != ".md" || name == "CHANGELOG.md" {
			return
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("read %s: %v", name, err)
			return
		}
		for number, line := range strings.Split(string(content), "\n") {
			cited += len(citation.FindAllString(line, -1))
			for _, complaint := range uncited(line, packages) {
				t.Errorf("%s:%d: %s", name, number+1, complaint)
			}
		}
	})
	if cited < 100 {
		t.Errorf("only %d citations were seen", cited)
	}
}

// TestDecisionsSayTheirStatus: the table of docs/adr has every page with the title and the status that the page has itself, and a
// page that a status names is there.
func TestDecisionsSayTheirStatus(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(root, "docs", "adr", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	table := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| \[(\d{4})\]\(([^)]+)\) \| (.+?) \| (.+?) \|$`).FindAllStringSubmatch(read("README.md"), -1) {
		table[row[2]] = row[1] + " " + row[3] + ": " + row[4]
		if !strings.HasPrefix(row[2], row[1]+"-") {
			t.Errorf("%s is not %s", row[2], row[1])
		}
	}
	pages := map[string]string{}
	walk(t, "docs/adr", func(name string) {
		if base := path.Base(name); base != "README.md" {
			title, rest, _ := strings.Cut(strings.TrimPrefix(read(base), "# "), "\n\nStatus: ")
			status, _, _ := strings.Cut(rest, "\n")
			pages[base] = title + ": " + status
			for _, other := range regexp.MustCompile(`\(([^)]+\.md)\)`).FindAllStringSubmatch(status, -1) {
				read(other[1])
			}
		}
	})
	if diff := cmp.Diff(pages, table); diff != "" {
		t.Errorf("table of decisions (-pages +table):\n%s", diff)
	}
}

// TestEveryAnomalyIsRaised: an anomaly that operators are told to look for, and that no code raises, is a promise that nobody keeps.
func TestEveryAnomalyIsRaised(t *testing.T) {
	t.Parallel()
	kinds, raised := map[string]bool{}, map[string]bool{}
	for _, file := range sources(t, "events") {
		for name := range constants(file.file) {
			if strings.HasPrefix(name, "Anomaly") {
				kinds[name] = true
			}
		}
	}
	for _, file := range sources(t, "services") {
		if file.test() {
			continue
		}
		ast.Inspect(file.file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok {
				if of, ok := literal.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "EvidenceAnomaly" {
					ast.Inspect(literal, func(n ast.Node) bool {
						if kind, ok := n.(*ast.SelectorExpr); ok {
							raised[kind.Sel.Name] = true
						}
						return true
					})
				}
			}
			return true
		})
	}
	if len(kinds) < 5 {
		t.Errorf("only %d kinds were found", len(kinds))
	}
	for kind := range kinds {
		if !raised[kind] {
			t.Errorf("no code raises %s", kind)
		}
	}
}

// constants lists the names of the constants of a file.
func constants(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.CONST {
			for _, spec := range decl.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range value.Names {
						names[name.Name] = true
					}
				}
			}
		}
		return true
	})
	return names
}
