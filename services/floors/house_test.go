package floors_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modulePath is what every module path of the house begins with.
const modulePath = "pilotstatus.dev/"

// mayUse is the order of the house: module -> the siblings that it may import.
var mayUse = map[string][]string{
	"events":      {},
	"infra":       {"events"},
	"projections": {"events", "infra"},
	"api":         {"events", "infra", "projections"},
	"services":    {"events", "infra", "projections", "api"},
}

// root is the workspace folder, seen from this package.
const root = "../.."

// source is one parsed Go file.
type source struct {
	// path is relative to the workspace folder, with slashes.
	path string
	file *ast.File
	set  *token.FileSet
}

// test tells whether only tests are built from the file: a _test.go file, or a
// file of a package whose name ends in test.
func (s source) test() bool {
	return strings.HasSuffix(s.path, "_test.go") || strings.HasSuffix(path.Base(path.Dir(s.path)), "test")
}

// imports lists the import paths of the file.
func (s source) imports(t *testing.T) []string {
	t.Helper()
	paths := make([]string, 0, len(s.file.Imports))
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("unquote import of %s: %v", s.path, err)
		}
		paths = append(paths, p)
	}
	return paths
}

// at gives the place of a node for a message.
func (s source) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.set.Position(n.Pos()).Line)
}

// sources parses every Go file of a module. Folders with a go.mod of their own
// belong to another module.
func sources(t *testing.T, module string) []source {
	t.Helper()
	set := token.NewFileSet()
	var found []source
	walk(t, module, func(name string) {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") {
			return
		}
		file, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("parse %s: %v", name, err)
			return
		}
		found = append(found, source{path: name, file: file, set: set})
	})
	if len(found) == 0 {
		t.Errorf("module %s has no Go file: is the path right?", module)
	}
	return found
}

// walk calls visit with each file below a folder of the workspace that belongs
// to the repository, by its path relative to the workspace.
func walk(t *testing.T, folder string, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, folder), func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if built(entry.Name()) || name == "infra/tools" && folder != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.Type().IsRegular() && name != ".git" { // which is a file in a worktree
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk %s: %v", folder, err)
	}
}

// built tells whether a folder of this name is made by tools or at run time and
// is not in the repository.
func built(folder string) bool {
	switch folder {
	case ".git", ".bin", "bin", ".pilot", "coverage":
		return true
	}
	return false
}
