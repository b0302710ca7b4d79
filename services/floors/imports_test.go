package floors_test

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// forTests are modules that a test may use and a product may not: nobody who
// runs Pilot should link them.
var forTests = []string{
	"github.com/Shopify/toxiproxy",
	"github.com/anishathalye/porcupine",
	"github.com/chromedp",
	"github.com/google/go-cmp",
	"go.uber.org/goleak",
	"pgregory.net/rapid",
}

func TestModulesUseOnlyWhatStandsBeforeThem(t *testing.T) {
	t.Parallel()
	for module, allowed := range mayUse {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			for _, file := range sources(t, module) {
				for _, imported := range file.imports(t) {
					rest, ours := strings.CutPrefix(imported, modulePath)
					if !ours {
						continue
					}
					sibling, _, _ := strings.Cut(rest, "/")
					if sibling != module && !slices.Contains(allowed, sibling) {
						t.Errorf("%s imports %s: %s may use only %v", file.path, imported, module, allowed)
					}
				}
			}
		})
	}
}

func TestProductDoesNotLinkTestModules(t *testing.T) {
	t.Parallel()
	for module := range mayUse {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			for _, file := range sources(t, module) {
				for _, imported := range file.imports(t) {
					if isTestModule(imported) && !file.test() {
						t.Errorf("%s imports %s: move it to a _test.go file or to a package whose name ends in test", file.path, imported)
					}
					if strings.HasPrefix(imported, modulePath) && strings.HasSuffix(path.Base(imported), "test") && !file.test() {
						t.Errorf("%s imports the test package %s", file.path, imported)
					}
				}
			}
		})
	}
}

// isTestModule tells whether an import path is of the testing package or of a
// module that is for tests only.
func isTestModule(imported string) bool {
	if imported == "testing" || strings.HasPrefix(imported, "testing/") {
		return true
	}
	return slices.ContainsFunc(forTests, func(prefix string) bool {
		return imported == prefix || strings.HasPrefix(imported, prefix+"/")
	})
}
