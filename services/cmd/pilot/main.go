// Command pilot is all of Pilot: `pilot up` runs every role, `pilot <role>` one; `pilot --help` lists the rest.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // tenants' clocks, where the machine has no time zones of its own

	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/cli"
)

// version is set by the build.
var version = "dev"

func main() {
	app.Version = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.Run(ctx, os.Args[1:], version, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pilot:", err)
		os.Exit(1)
	}
}
