package floors_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// machinePaths match paths that exist on one machine only. They are put
// together here so that this file does not match itself.
var machinePaths = regexp.MustCompile(`(^|[^A-Za-z0-9._/-])/(` + strings.Join([]string{
	"wo" + "rk/",
	"tmp/" + "brief",
	"root/" + "go/",
}, "|") + `)`)

// TestNoPathOfOneMachine: whoever clones the repository must find what a text
// or a test points to.
func TestNoPathOfOneMachine(t *testing.T) {
	t.Parallel()
	walk(t, ".", func(name string) {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("read %s: %v", name, err)
			return
		}
		if bytes.IndexByte(content, 0) >= 0 {
			return
		}
		for number, line := range strings.Split(string(content), "\n") {
			if found := machinePaths.FindString(line); found != "" {
				t.Errorf("%s:%d names a path of one machine: %q", name, number+1, strings.TrimSpace(found))
			}
		}
	})
}

func TestMachinePathsAreSeen(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"see /wo" + "rk/notes.md":            true,
		"(/tmp/" + "brief/common.md)":        true,
		`dir := "/ro` + `ot/go/pkg"`:         true,
		"https://example.com/wo" + "rk/here": false,
		"framewo" + "rk/x and net" + "work/": false,
		"the queue at work/day":              false,
	} {
		if got := machinePaths.MatchString(line); got != want {
			t.Errorf("machinePaths.MatchString(%q) = %v, want %v", line, got, want)
		}
	}
}

// TestTestsDoNotSleep: a test waits for a signal, or polls to a deadline, or
// runs in a bubble of testing/synctest, where sleeping costs nothing and
// decides nothing by chance.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for module := range mayUse {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			for _, file := range sources(t, module) {
				if !strings.HasSuffix(file.path, "_test.go") || slices.Contains(file.imports(t), "testing/synctest") {
					continue
				}
				for _, place := range sleeps(file) {
					t.Errorf("%s sleeps", place)
				}
			}
		})
	}
}

// sleeps lists the places of a file where time.Sleep is named.
func sleeps(file source) []string {
	var places []string
	names := importNames(file)
	ast.Inspect(file.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != "Sleep" {
			return true
		}
		if ident, ok := selector.X.(*ast.Ident); ok && names[ident.Name] == "time" {
			places = append(places, file.at(selector))
		}
		return true
	})
	return places
}

func TestSleepsAreSeen(t *testing.T) {
	t.Parallel()
	if got := sleeps(parse(t, `package x; import "time"; func f() { time.Sleep(1) }`)); len(got) != 1 {
		t.Errorf("sleeps = %v, want one place", got)
	}
}

// parse makes a source of a text.
func parse(t *testing.T, text string) source {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "x.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return source{path: "x.go", file: file, set: set}
}
