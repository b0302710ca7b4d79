package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The table must fit the tree at every commit, so that the check, which takes minutes and is not part of CI, does not rot.
func TestEveryMutationFitsTheTree(t *testing.T) {
	t.Parallel()
	tree := filepath.Join("..", "..")
	for _, m := range mutations {
		if err := m.fits(tree); err != nil {
			t.Error(err)
		}
		files, err := filepath.Glob(filepath.Join(tree, filepath.FromSlash(m.pkg), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			content, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || regexp.MustCompile(`(?m)^func `+m.test+`\(t \*testing\.T\)`).Match(content)
		}
		if !found {
			t.Errorf("without %s: %s has no test %s", m.without, m.pkg, m.test)
		}
	}
}

// module writes a small tree: a sum, a test that looks at it and one that does not.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"sum/go.mod":      "module example.com/sum\n\ngo 1.26\n",
		"sum/sum.go":      "package sum\n\nfunc sum(a, b int) int { return a + b }\n",
		"sum/sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif sum(1, 2) != 3 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n\nfunc TestBlind(t *testing.T) { _ = sum(1, 2) }\n",
		"bin/tool":        "left out",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheckTellsWhoBites(t *testing.T) {
	t.Parallel()
	minus := []patch{{"sum/sum.go", "a + b", "a - b"}}
	sees := mutation{"the sum", minus, "sum", "TestSum"}
	blind := mutation{"the sum", minus, "sum", "TestBlind"}
	broken := mutation{"the compiler", []patch{{"sum/sum.go", "a + b", "a +"}}, "sum", "TestSum"}
	var out bytes.Buffer
	code, err := check(t.Context(), module(t), []mutation{sees, blind, broken}, &out)
	if err != nil || code != 1 || !strings.HasSuffix(out.String(), `{"mutations":3,"caught":1}`+"\n") {
		t.Errorf("%d %v\n%s", code, err, out.String())
	}
	for name, m := range map[string]mutation{
		"a text that is gone":        {"x", []patch{{"sum/sum.go", "a * b", ""}}, "sum", "TestSum"},
		"a text that is there twice": {"x", []patch{{"sum/sum.go", "sum", ""}}, "sum", "TestSum"},
		"a test that is not there":   {"x", minus, "sum", "TestGone"},
	} {
		if code, err := check(t.Context(), module(t), []mutation{m}, &bytes.Buffer{}); code != 2 || err == nil {
			t.Errorf("%s: %d %v", name, code, err)
		}
	}
}
