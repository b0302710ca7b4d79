package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutation is one protection that is taken out, and the test that must notice.
type mutation struct {
	without string // the protection, in the words of docs/events.md
	patches []patch
	pkg     string // folder of the package, below that of go.work
	test    string
}

// fits reports whether each patch can be applied.
func (m mutation) fits(dir string) error {
	for _, p := range m.patches {
		if _, err := p.read(dir); err != nil {
			return fmt.Errorf("without %s: %w", m.without, err)
		}
	}
	return nil
}

// try takes the protection out, runs the test and puts it back.
func (m mutation) try(ctx context.Context, dir string) (caught bool, res result, err error) {
	var undo []func() error
	defer func() {
		for _, u := range slices.Backward(undo) {
			err = errors.Join(err, u())
		}
	}()
	for _, p := range m.patches {
		u, err := p.apply(dir)
		if err != nil {
			return false, result{}, fmt.Errorf("without %s: %w", m.without, err)
		}
		undo = append(undo, u)
	}
	res = runTests(ctx, dir, m.pkg, []string{m.test})
	if err := ctx.Err(); err != nil {
		return false, res, fmt.Errorf("without %s: %w", m.without, err)
	}
	// A tree that does not compile, or a test that hangs, is no test that noticed.
	return !res.passed && strings.Contains(res.output, "--- FAIL: "+m.test+" "), res, nil
}

// result is what a run of tests came to.
type result struct {
	passed  bool
	output  string
	elapsed time.Duration
}

// testLimit bounds one run.
const testLimit = 4 * time.Minute

// runTests runs tests of a package in the copy. Paths are left out of what is built, so that all copies share the build cache.
func runTests(ctx context.Context, dir, pkg string, tests []string) result {
	ctx, cancel := context.WithTimeout(ctx, testLimit+time.Minute)
	defer cancel()
	module, rest, _ := strings.Cut(pkg, "/")
	//nolint:gosec // the arguments are the table's
	cmd := exec.CommandContext(ctx, "go", "test", "-trimpath", "-count=1", "-timeout", testLimit.String(),
		"-run", "^("+strings.Join(tests, "|")+")$", "./"+path.Clean(rest))
	cmd.Dir = filepath.Join(dir, module)
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	return result{passed: err == nil && !strings.Contains(string(out), "no tests to run"), output: string(out), elapsed: time.Since(began)}
}

// byPackage gives the tests of each package, each once.
func byPackage(all []mutation) map[string][]string {
	tests := map[string][]string{}
	for _, m := range all {
		if !slices.Contains(tests[m.pkg], m.test) {
			tests[m.pkg] = append(tests[m.pkg], m.test)
		}
	}
	return tests
}
