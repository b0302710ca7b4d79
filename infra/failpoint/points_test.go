package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each listed place is called once, and each call names a listed place by a literal.
func TestPointsAndCallsAgree(t *testing.T) {
	t.Parallel()
	calls := map[string]int{}
	for _, module := range []string{"events", "infra", "projections", "api", "services"} {
		root := filepath.Join("..", "..", module)
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				strings.HasPrefix(name, filepath.Join(root, "failpoint")) {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if place, ok := callOf(t, name, n); ok {
					calls[place]++
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range Points() {
		if calls[p.Name] != 1 {
			t.Errorf("%s is called %d times", p.Name, calls[p.Name])
		}
		delete(calls, p.Name)
		if p.Where == "" {
			t.Errorf("%s does not say where it is", p.Name)
		}
	}
	for name := range calls {
		t.Errorf("%s is called and not listed", name)
	}
}

// callOf gives the place that a call of this package names.
func callOf(t *testing.T, file string, n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Hit", "Fail", "Wrote"}, sel.Sel.Name) {
		return "", false
	}
	if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "failpoint" {
		return "", false
	}
	lit, ok := call.Args[len(call.Args)-1].(*ast.BasicLit)
	if !ok {
		t.Errorf("%s: a place is not named by a literal", file)
		return "", false
	}
	name, err := strconv.Unquote(lit.Value)
	return name, err == nil
}

// docs/crash.md lists the places for people.
func TestPointsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "crash.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Points() {
		if !strings.Contains(string(doc), "| `"+p.Name+"` |") {
			t.Errorf("docs/crash.md does not list %s", p.Name)
		}
	}
	if rows := strings.Count(string(doc), "\n| `") - 6; rows != len(Points()) { // beside the table of counts
		t.Errorf("docs/crash.md lists %d places, there are %d", rows, len(Points()))
	}
}
