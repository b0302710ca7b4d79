package floors_test

import (
	"context"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// goMod is the part of `go mod edit -json` that the rules look at.
type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// goWork is the part of `go work edit -json` that the rules look at.
type goWork struct {
	Go  string
	Use []struct{ DiskPath string }
}

func TestWorkspaceNamesTheModules(t *testing.T) {
	t.Parallel()
	work := workspace(t)
	var used []string
	for _, use := range work.Use {
		used = append(used, strings.TrimPrefix(use.DiskPath, "./"))
	}
	slices.Sort(used)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(mayUse)), used); diff != "" {
		t.Errorf("modules of go.work (-want +got):\n%s", diff)
	}
}

// TestGoDirectivesAgree: a module with a newer directive than go.work breaks
// every command in the workspace, one with an older is built by another
// language version than its neighbours.
func TestGoDirectivesAgree(t *testing.T) {
	t.Parallel()
	want := workspace(t).Go
	for _, folder := range append(slices.Collect(maps.Keys(mayUse)), "infra/tools") {
		if got := module(t, folder).Go; got != want {
			t.Errorf("%s/go.mod says go %s, go.work says go %s", folder, got, want)
		}
	}
}

// TestSiblingsAreRequiredAndReplaced: each module requires exactly siblings it
// may use, at v0.0.0 and replaced by their folder, so that it builds alone and
// no command asks a proxy for a private path.
func TestSiblingsAreRequiredAndReplaced(t *testing.T) {
	t.Parallel()
	for name, allowed := range mayUse {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mod := module(t, name)
			if want := modulePath + name; mod.Module.Path != want {
				t.Errorf("module path is %s, want %s", mod.Module.Path, want)
			}
			replaced := make(map[string]string)
			for _, replace := range mod.Replace {
				replaced[replace.Old.Path] = replace.New.Path
				if sibling, ours := strings.CutPrefix(replace.Old.Path, modulePath); !ours || replace.New.Path != "../"+sibling {
					t.Errorf("replace %s => %s: only siblings are replaced, by their folder", replace.Old.Path, replace.New.Path)
				}
			}
			for _, require := range mod.Require {
				sibling, ours := strings.CutPrefix(require.Path, modulePath)
				if !ours {
					continue
				}
				if !slices.Contains(allowed, sibling) {
					t.Errorf("requires %s: %s may use only %v", require.Path, name, allowed)
				}
				if require.Version != "v0.0.0" {
					t.Errorf("requires %s at %s, want v0.0.0", require.Path, require.Version)
				}
				if replaced[require.Path] == "" {
					t.Errorf("requires %s without a replace line", require.Path)
				}
			}
		})
	}
}

func workspace(t *testing.T) goWork {
	t.Helper()
	var work goWork
	edit(t, &work, "work", "edit", "-json", filepath.Join(root, "go.work"))
	return work
}

func module(t *testing.T, folder string) goMod {
	t.Helper()
	var mod goMod
	edit(t, &mod, "mod", "edit", "-json", filepath.Join(root, filepath.FromSlash(folder), "go.mod"))
	return mod
}

// edit decodes what a go command prints about a go.mod or go.work file.
func edit(t *testing.T, into any, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", arguments...).Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(arguments, " "), err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("decode go %s: %v", strings.Join(arguments, " "), err)
	}
}
