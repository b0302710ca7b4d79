// Command pilot is all of Pilot: `pilot up` runs every role, `pilot <role>` one; `pilot --help` lists the rest.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // tenants' clocks, where the machine has no time zones of its own

	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/cli"
)

// version is set by the build.
var version = "dev"

// heapGrowth is by how much of what is in use the heap may grow before it is collected, in percent. A collection of a dispatcher with
// 100,000 pending messages slows each call down for as long as it lasts: half as many of them, for half as much memory again
// (docs/architecture.md, Figures). GOGC in the environment has the last word.
const heapGrowth = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	app.Version = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.Run(ctx, os.Args[1:], version, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pilot:", err)
		os.Exit(1)
	}
}
