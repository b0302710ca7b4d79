package floors_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rules is how many rules the dispatch protocol has: R1 to R10.
const rules = 10

// modelFolder holds the protocol as a model and the table of what keeps each rule.
const modelFolder = "docs/model"

// ruleTest matches the name of a test that holds rules: TestR3Lane…, TestR6R9Open….
var ruleTest = regexp.MustCompile(`^Test((?:R(?:10|[1-9]))+)(?:[A-Z_]|$)`)

// rulesOf lists the rules that the name of a test speaks of.
func rulesOf(test string) []string {
	found := ruleTest.FindStringSubmatch(test)
	if found == nil {
		return nil
	}
	var names []string
	for number := range strings.SplitSeq(found[1][1:], "R") {
		names = append(names, "R"+number)
	}
	return names
}

func TestRulesAreReadFromNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"TestR1OnlyOne":      {"R1"},
		"TestR6R9OpenStart":  {"R6", "R9"},
		"TestR10Refused":     {"R10"},
		"TestR10":            {"R10"},
		"TestR11Unknown":     nil,
		"TestR0None":         nil,
		"TestRetryDelay":     nil,
		"TestTheRuleR1":      nil,
		"BenchmarkR1OnlyOne": nil,
	} {
		if diff := cmp.Diff(want, rulesOf(name)); diff != "" {
			t.Errorf("rules of %s (-want +got):\n%s", name, diff)
		}
	}
}

// functions are the functions and methods of the house: of each file, and the
// tests that go test would run, by name.
type functions struct {
	byFile map[string]map[string]bool
	tests  map[string]bool
}

func allFunctions(t *testing.T) functions {
	t.Helper()
	all := functions{byFile: make(map[string]map[string]bool), tests: make(map[string]bool)}
	for module := range mayUse {
		for _, file := range sources(t, module) {
			names := make(map[string]bool)
			all.byFile[file.path] = names
			for _, decl := range file.file.Decls {
				function, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				names[function.Name.Name] = true
				if strings.HasSuffix(file.path, "_test.go") && isTest(function) {
					all.tests[function.Name.Name] = true
				}
			}
		}
	}
	return all
}

// isTest tells whether a function is one that go test runs.
func isTest(function *ast.FuncDecl) bool {
	parameters := function.Type.Params.List
	if function.Recv != nil || !strings.HasPrefix(function.Name.Name, "Test") || len(parameters) != 1 {
		return false
	}
	pointer, ok := parameters[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	kind, ok := pointer.X.(*ast.SelectorExpr)
	return ok && kind.Sel.Name == "T"
}

// TestEveryRuleHasATest: a rule of the dispatch protocol without a test of its
// name is one that the code may lose unseen.
func TestEveryRuleHasATest(t *testing.T) {
	t.Parallel()
	held := make(map[string]bool)
	for test := range allFunctions(t).tests {
		for _, rule := range rulesOf(test) {
			held[rule] = true
		}
	}
	for n := range rules {
		if rule := "R" + strconv.Itoa(n+1); !held[rule] {
			t.Errorf("no test is named Test%s…", rule)
		}
	}
}

// ruleRow is a row of the table of the model's README: | R1 | `file:function`, … | `test`, … |.
var ruleRow = regexp.MustCompile("(?m)^\\| (R\\d+) \\| (`[^|]+`) \\| (`Test[^|]+`) \\|$")

// quoted is a word in backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// TestTheModelNamesItsCode: what docs/model says of the code is there, and each
// rule has one row with a test of its name.
func TestTheModelNamesItsCode(t *testing.T) {
	t.Parallel()
	all := allFunctions(t)
	var listed, want []string
	for _, row := range ruleRow.FindAllStringSubmatch(modelFile(t, "README.md"), -1) {
		rule := row[1]
		listed = append(listed, rule)
		for _, place := range quoted.FindAllStringSubmatch(row[2], -1) {
			if file, function, _ := strings.Cut(place[1], ":"); !all.byFile[file][function] {
				t.Errorf("%s: there is no %s", rule, place[1])
			}
		}
		own := false
		for _, test := range quoted.FindAllStringSubmatch(row[3], -1) {
			if !all.tests[test[1]] {
				t.Errorf("%s: there is no %s", rule, test[1])
			}
			own = own || slices.Contains(rulesOf(test[1]), rule)
		}
		if !own {
			t.Errorf("%s: no test of its row bears its name", rule)
		}
	}
	for n := range rules {
		want = append(want, "R"+strconv.Itoa(n+1))
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("rules of the table (-want +got):\n%s", diff)
	}
}

// TestEveryRuleIsTakenOut: each switch of the README that takes a rule out is
// one of the model, and .ci/model expects a counterexample with it.
func TestEveryRuleIsTakenOut(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(modelFile(t, "README.md"), "## Rules; taking one out")
	if !found {
		t.Fatal("the README has no table of rules that are taken out")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	switches := regexp.MustCompile("(?m)^\\|[^|]+\\|[^|`]*`(H_[A-Z0-9]+)`").FindAllStringSubmatch(table, -1)
	if len(switches) == 0 {
		t.Fatal("the table names no switch")
	}
	model := modelFile(t, "dispatch.pml")
	script, err := os.ReadFile(filepath.Join(root, ".ci", "model"))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range switches {
		if !regexp.MustCompile(`\b` + found[1] + `\b`).MatchString(model) {
			t.Errorf("the model has no switch %s", found[1])
		}
		if !regexp.MustCompile(`(?m)^broken\|.*-D` + found[1] + `\b`).Match(script) {
			t.Errorf(".ci/model does not run %s", found[1])
		}
	}
}

func modelFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(modelFolder), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
