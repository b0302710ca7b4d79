package template

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// docs/reference/templates.md says of every rule what it means.
func TestDocsHaveEveryRule(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Rules\n")
	source, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(source, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Rule" {
			return true
		}
		for _, value := range spec.Values {
			literal, ok := value.(*ast.BasicLit)
			if !ok {
				t.Errorf("%s is no literal", spec.Names[0])
				continue
			}
			rule, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if n++; !strings.Contains(section, "`"+rule+"`") {
				t.Errorf("the rule %s has no row", rule)
			}
		}
		return true
	})
	if n < 15 {
		t.Errorf("only %d rules were found", n)
	}
	for _, reason := range []Reason{ReasonNotAString, ReasonBlank, ReasonNUL, ReasonNotUTF8} {
		if !strings.Contains(string(page), "`"+string(reason)+"`") {
			t.Errorf("the reason %s is not described", reason)
		}
	}
}
