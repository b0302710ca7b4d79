// Command teeth shows that tests bite: in a copy of the tree it takes out one protection at a time and runs the test that is
// named for it, which must fail. A protection whose absence no test notices is not protected itself (docs/outages.md).
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// within bounds a whole check.
const within = 45 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, within)
	code, err := check(ctx, root(os.Args[1:]), mutations, os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "teeth:", err)
	}
	os.Exit(code)
}

// root is the folder of go.work; `go run ./teeth` runs in services.
func root(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return ".."
}

// tally is the last line of a check.
type tally struct {
	Mutations int `json:"mutations"`
	Caught    int `json:"caught"`
}

// check copies the tree, sees that the named tests pass there, takes out one protection after the other, and prints a table and
// the tally. The code is that of the process: 0 when each one was caught.
func check(ctx context.Context, tree string, all []mutation, out io.Writer) (code int, err error) {
	dir, err := os.MkdirTemp("", "pilot-teeth-")
	if err != nil {
		return 2, fmt.Errorf("make a place for the copy: %w", err)
	}
	defer func() {
		if e := os.RemoveAll(dir); e != nil && err == nil {
			code, err = 2, fmt.Errorf("remove the copy: %w", e)
		}
	}()
	if err := copyTree(tree, dir); err != nil {
		return 2, fmt.Errorf("copy the tree: %w", err)
	}
	for _, m := range all {
		if err := m.fits(dir); err != nil {
			return 2, err
		}
	}
	fmt.Fprintln(out, "first the tests as they are")
	for pkg, tests := range byPackage(all) {
		res := runTests(ctx, dir, pkg, tests)
		if !res.passed {
			return 2, fmt.Errorf("%s does not pass as it is, so its failure would prove nothing:\n%s", pkg, res.output)
		}
		fmt.Fprintf(out, "  passed  %5.1f s  %s  %s\n", res.elapsed.Seconds(), pkg, strings.Join(tests, " "))
	}
	sum := tally{Mutations: len(all)}
	fmt.Fprintln(out, "without …")
	for _, m := range all {
		caught, res, err := m.try(ctx, dir)
		if err != nil {
			return 2, err
		}
		word := "CAUGHT"
		if caught {
			sum.Caught++
		} else {
			word = "MISSED"
		}
		fmt.Fprintf(out, "  %s  %5.1f s  %-44s %s %s\n", word, res.elapsed.Seconds(), m.without, m.pkg, m.test)
		if !caught {
			fmt.Fprintln(out, res.output)
		}
	}
	line, err := json.Marshal(sum)
	if err != nil {
		return 2, fmt.Errorf("write the tally: %w", err)
	}
	fmt.Fprintln(out, string(line))
	if sum.Caught < sum.Mutations {
		return 1, nil
	}
	return 0, nil
}
